"""The command line of ``viper`` and ``python -m viper``; Ctrl-C ends it with one line at any time.

Importing takes most of the first tenth of a second, and an interrupt may arrive during it. So this
module and the package import almost nothing before the interrupt can be caught.
"""

from __future__ import annotations

import os
import sys

# Equal to ``viper.errors.EXIT_INTERRUPTED``, which may not be imported yet.
_INTERRUPTED = 130


def main() -> None:
    """Run the command line and end the process with its code: 130 if interrupted, 1 on Windows."""
    if sys.platform == "win32":
        from viper.errors import NOT_ON_WINDOWS

        sys.exit(f"viper: {NOT_ON_WINDOWS}")
    try:
        sys.unraisablehook = _exit_on_interrupt
        from viper.threads import wait_passively

        wait_passively()
        from viper.cli import main as run

        run()
    except KeyboardInterrupt:
        _print_interrupted()
        sys.exit(_INTERRUPTED)
    except SystemExit as end:
        _end_at_once(end.code)
        raise


def _end_at_once(code: object) -> None:
    """End the process without freeing torch's modules one by one, which takes a second.

    Does nothing if torch is not loaded, or if another thread is still to be waited for.
    """
    if "torch" not in sys.modules or not isinstance(code, int):
        return
    import atexit
    import threading

    others = set(threading.enumerate()) - {threading.main_thread()}
    if not all(each.daemon for each in others):
        return
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # Python reports it
        return
    os._exit(code)


def _exit_on_interrupt(error: sys.UnraisableHookArgs) -> None:
    """End the process where Python would print an interrupt, forget it and continue.

    Python does so in callbacks and finalizers, and every import runs some.
    """
    if issubclass(error.exc_type, KeyboardInterrupt):
        _print_interrupted()
        os._exit(_INTERRUPTED)
    sys.__unraisablehook__(error)


def _print_interrupted() -> None:
    os.write(2, b"viper: interrupted\n")


if __name__ == "__main__":
    main()
