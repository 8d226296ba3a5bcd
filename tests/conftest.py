"""What holds for every test."""

from __future__ import annotations

import gc
import signal

from viper.threads import compute_with, wait_passively

# Before a library loads: tests run side by side, on machines that do other work as well.
wait_passively()
compute_with(1)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Begun in the background by a shell without job control: programs that tests start would
    # inherit the deaf ear, and tests of Ctrl-C would wait for nothing.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Keep the collected tests, some millions of objects, out of every collection of garbage.

    Unloading a model collects garbage, which took up to a second in a process with all tests.
    """
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let libraries that count their objects at the end find them freed."""
    gc.unfreeze()
