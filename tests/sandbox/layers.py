"""What each layer of the sandbox stops: the abuse suite with one layer away, and with one alone.

    python -m tests.sandbox.layers

- *Language*: attempts on the rules of the language. With a layer of the process away, the
  policy must still stop all of them; with their guard away, they get hold of something
  inside their own process, and the layers below are what is left.
- *System calls*: what a program could try that had got that far. With one layer away, the
  others must still keep files, sockets and other processes out of its reach; with
  one layer alone, it shows what that layer is good for.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.sandbox.abuse import LANGUAGE_CASES, system_calls
from tests.sandbox.abuse.case import Case, breach
from tests.sandbox.abuse.stage import Stage

LAYERS = system_calls.KERNEL
SYSTEM_CALLS = tuple(case for case in system_calls.CASES if case.guard == "kernel")
"""Those that do something where nothing stops them, and nothing worse than that."""


def went_through(
    stage: Stage, cases: Iterable[Case], without: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Names of the cases that reach what they ask for without these layers of the process."""
    found = []
    for case in cases:
        if breach(stage.lacking(case, without)) is not None:
            found.append(case.name)
        stage.tidy()
    return tuple(found)


def all_but(layer: str) -> tuple[str, ...]:
    """The layers of the process except one."""
    return tuple(name for name in LAYERS if name != layer)


def _report(stage: Stage, language: Sequence[Case] = LANGUAGE_CASES) -> None:
    who = "root" if os.geteuid() == 0 else "an unprivileged user"
    guarded = [case for case in language if case.guard is not None]
    opened = sum(breach(stage.opened(case)) is not None for case in guarded)
    nothing = set(went_through(stage, SYSTEM_CALLS, LAYERS))
    print(f"as {who}; {len(language)} attempts on the language, {len(SYSTEM_CALLS)} system calls\n")
    print(f"{'':<14} {'language':>8} {'system calls':>13}   what went through")
    _row("every layer", went_through(stage, language), went_through(stage, SYSTEM_CALLS))
    print(
        f"{'- guard':<14} {opened:>8} {'':>13}   of {len(guarded)}, each without its own guard: "
        "inside their own process"
    )
    for layer in LAYERS:
        without = (layer,)
        _row(
            f"- {layer}",
            went_through(stage, language, without),
            went_through(stage, SYSTEM_CALLS, without),
        )
    print(f"\nwithout any layer of the process {len(nothing)} system calls go through; alone,")
    for layer in LAYERS:
        stopped = sorted(nothing - set(went_through(stage, SYSTEM_CALLS, all_but(layer))))
        print(f"{layer:<14} stops {len(stopped):>3}{_listed(stopped, len(nothing))}")


def _row(name: str, language: Sequence[str], system: Sequence[str]) -> None:
    print(f"{name:<14} {len(language):>8} {len(system):>13}   {', '.join([*language, *system])}")


def _listed(names: Sequence[str], everything: int) -> str:
    if not names or len(names) == everything:
        return ""
    return ": " + ", ".join(names)


def main() -> None:
    """Prints the report."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    folder = Path(tempfile.mkdtemp(prefix="viper-layers-"))
    stage = Stage(folder)
    try:
        _report(stage)
    finally:
        stage.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
