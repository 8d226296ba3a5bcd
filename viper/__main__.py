"""``viper`` and ``python -m viper``: the command line, which Ctrl-C ends by one line at any time.

Importing takes most of the first tenth of a second, and an interrupt may come in the midst of it;
so this module and the package's own import next to nothing before there is something to catch it.
"""

from __future__ import annotations

import os
import sys

_INTERRUPTED = 130
"""As ``viper.errors.EXIT_INTERRUPTED``, which may not be there yet."""


def main() -> None:
    """Runs the command line and ends the process with its exit code; 130 where interrupted."""
    try:
        sys.unraisablehook = _unraisable
        from viper.cli import main as run

        run()
    except KeyboardInterrupt:
        _say()
        sys.exit(_INTERRUPTED)


def _unraisable(lost: sys.UnraisableHookArgs) -> None:
    """Ends the process where Python would print an interrupt, forget it and go on.

    It does so in callbacks and finalizers, of which every import runs some.
    """
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _say()
        os._exit(_INTERRUPTED)
    sys.__unraisablehook__(lost)


def _say() -> None:
    os.write(2, b"viper: interrupted\n")


if __name__ == "__main__":
    main()
