"""What holds for every test."""

from __future__ import annotations

import signal

from viper.threads import compute_with, wait_passively

# Before a library loads: tests run side by side, on machines that do other work as well.
wait_passively()
compute_with(1)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Begun in the background by a shell without job control: programs that tests start would
    # inherit the deaf ear, and tests of Ctrl-C would wait for nothing.
    signal.signal(signal.SIGINT, signal.default_int_handler)
