"""Checks a file of routines: does it load, can programs call it, do its examples run?"""

from __future__ import annotations

import typing
from dataclasses import dataclass
from pathlib import Path

from viper.api.called import called_names
from viper.api.library import Library, library_for
from viper.api.registry import Routine
from viper.api.sets import entry_of
from viper.errors import UsageError
from viper.sandbox.outcome import describe_failure
from viper.testing.routines import clip, picture, run_program


@dataclass(frozen=True)
class Finding:
    """What was found of one routine; ``problem`` is None where all is well.

    Attributes:
        advice: what would make it better, though it works.
    """

    routine: str
    problem: str | None = None
    advice: str | None = None


def check_routines(path: Path, api: str = "abstract") -> list[Finding]:
    """One finding for each routine of the file, in its order.

    Args:
        api: the API beside which it is to be used.

    Raises:
        UsageError: the file cannot be used at all; says why.
    """
    library = library_for(f"{api}+{path}")
    file = library.files[-1]
    return [_checked(routine, f"{api}+{path}", library) for routine in file.routines]


def _checked(routine: Routine, api: str, library: Library) -> Finding:
    try:
        typing.get_type_hints(routine.function)
    except (NameError, TypeError, AttributeError) as error:
        return Finding(routine.name, f"an annotation cannot be resolved: {error}")
    example = entry_of(routine).example
    if not example:
        return Finding(
            routine.name,
            advice="has no Example: section; language models learn a routine from its example",
        )
    if routine.name not in called_names(example):
        return Finding(routine.name, f"its example does not call {routine.name}")
    return Finding(routine.name, _failed(example, routine, api))


def _failed(example: str, routine: Routine, api: str) -> str | None:
    """What went wrong when the example ran on a grey picture or clip, or None."""
    on_clip = "video" in example.partition("def execute_command(")[2].partition(")")[0]
    try:
        outcome = run_program(example, api, media=clip() if on_clip else picture())
    except UsageError as error:
        return str(error)
    if outcome.failure is not None:
        return f"its example fails: {describe_failure(outcome.failure)}"
    if outcome.value is None and "return" in example and not _may_be_none(routine):
        return "its example answers nothing"
    return None


def _may_be_none(routine: Routine) -> bool:
    hints = typing.get_type_hints(routine.function)
    return type(None) in typing.get_args(hints.get("return")) or hints.get("return") is type(None)
