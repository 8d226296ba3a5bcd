"""Check of a file of routines: that it loads, that programs can call it, that its examples run."""

from __future__ import annotations

import ast
import math
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.api.library import Library, called_names, library_for
from viper.api.registry import Routine
from viper.api.routine_files import load_routine_file
from viper.api.sets import entry_of
from viper.sandbox import Outcome, Ref, describe_failure
from viper.testing.routines import clip, picture, run_program

_NO_EXAMPLE = "has no Example: section; language models learn a routine from its example"
_NO_QUERY = "its example has no query: begin it with a comment such as # the leftmost cup"


@dataclass(frozen=True)
class Finding:
    """Result of checking one routine; ``problem`` is None if the routine is fine.

    Attributes:
        advice: how to improve a routine that works.
    """

    routine: str
    problem: str | None = None
    advice: str | None = None


def check_routines(path: Path, api: str = "abstract") -> list[Finding]:
    """Return one finding for each routine of the file, in its order.

    An example runs on a grey picture or clip, and only its behaviour there is checked.

    Args:
        api: the API to use the file with.

    Raises:
        UsageError: the file cannot be used at all; the message says why.
    """
    file = load_routine_file(path)
    library = Library((*library_for(api).files, file))
    return [_check(routine, library) for routine in file.routines]


def _check(routine: Routine, library: Library) -> Finding:
    name = routine.name
    try:
        hints = typing.get_type_hints(routine.function)
    except (NameError, TypeError, AttributeError) as error:
        return Finding(name, f"an annotation cannot be resolved: {error}")
    example = entry_of(routine).example
    if not example:
        return Finding(name, advice=_NO_EXAMPLE)
    try:
        ast.parse(example)
    except SyntaxError as error:
        return Finding(name, f"its example is no Python: {error.msg}, its line {error.lineno}")
    if name not in called_names(example):
        return Finding(name, f"its example does not call {name}")
    problem = _problem_of(example, name, hints.get("return"), library)
    advice = None if example.lstrip().startswith("#") else _NO_QUERY
    return Finding(name, problem, None if problem else advice)


def _problem_of(example: str, name: str, returns: Any, library: Library) -> str | None:
    """Return the problem of the example on a grey picture or clip, or None."""
    outcome = run_program(example, library, media=_media(example))
    if outcome.failure is not None:
        return f"its example fails: {_in_one_line(outcome)}"
    recorded = run_program(_recording(example, name), library, media=_media(example), entry=None)
    if recorded.failure is not None:
        return f"its example fails: {_in_one_line(recorded)}"
    answer, results = recorded.value
    for result in results:
        if not fits(result, returns):
            name = getattr(returns, "__name__", None) or str(returns)
            return f"it answered {_describe(result)}, which is not {name}"
    return "its example answers nothing" if answer is None else None


def _media(example: str) -> Any:
    takes = example.partition("def execute_command(")[2].partition(")")[0]
    return clip() if "video" in takes else picture()


def _recording(example: str, name: str) -> str:
    """Return the example as a script that also returns every result of the routine."""
    takes = example.partition("def execute_command(")[2].partition(")")[0]
    arguments = "video, question, possible_answers" if "video" in takes else "image"
    return f"""{example}

_recorded_results = []
_recorded_routine = {name}

def {name}(*args, **kwargs):
    found = _recorded_routine(*args, **kwargs)
    _recorded_results.append(found)
    return found

answer = [execute_command({arguments}), _recorded_results]
"""


def _in_one_line(outcome: Outcome) -> str:
    assert outcome.failure is not None
    return " | ".join(line.strip() for line in describe_failure(outcome.failure).splitlines())


def fits(value: Any, annotation: Any) -> bool:
    """Check that a result agrees with an annotation, as far as it can be seen from outside.

    Patches and segments are references here. An annotation that is not understood fits every value.
    """
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is None or annotation is type(None):
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, each) for each in inside)
    if origin in (list, set, frozenset) and inside:
        return isinstance(value, origin) and all(fits(item, inside[0]) for item in value)
    if origin is tuple and inside and inside[-1] is not Ellipsis:
        return (
            isinstance(value, tuple) and len(value) == len(inside) and all(map(fits, value, inside))
        )
    if origin is dict:
        return isinstance(value, dict)
    name = getattr(annotation, "__name__", "")
    if name in ("ImagePatch", "VideoSegment"):
        return isinstance(value, Ref) and value.kind == {"ImagePatch": "patch"}.get(name, "segment")
    if annotation is float:
        return type(value) in (int, float) and not math.isnan(value)
    if annotation in (int, str, bool, list, tuple, dict, set):
        return type(value) is annotation
    return True


def _describe(value: Any) -> str:
    if isinstance(value, Ref):
        return f"a {value.kind}"
    return "None" if value is None else f"{type(value).__name__} {repr(value)[:60]}"
