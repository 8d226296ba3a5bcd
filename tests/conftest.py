"""What holds for every test."""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Begun in the background by a shell without job control: programs that tests start would
    # inherit the deaf ear, and tests of Ctrl-C would wait for nothing.
    signal.signal(signal.SIGINT, signal.default_int_handler)
