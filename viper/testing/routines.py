"""Runs of programs that call user routines, and the check of a file of routines.

:func:`run_program` is for tests of a routine: the real sandbox and toolbox, with models that answer
from a table (:func:`toolbox_of_tables`). :func:`check_routines` is ``viper setup routine check``:
it runs the example of each routine twice, as it stands and as a script that records what the
routine returned, and compares the results with the routine's annotation.
"""

from __future__ import annotations

import ast
import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from viper.api.library import Library, called_names, library_for
from viper.api.registry import Routine
from viper.api.routine_files import load_routine_file
from viper.api.sets import entry_of
from viper.models.media import Media, media_from
from viper.sandbox import Limits, Outcome, Ref, Sandbox, describe_failure
from viper.schema import DEFAULT_API
from viper.testing import fakes
from viper.tools.models import ModelSet
from viper.tools.session import media_arguments
from viper.tools.settings import ThresholdSchedule, ToolSettings
from viper.tools.toolbox import Toolbox

# Size of the grey picture, and length of the grey clip, that programs get: sides that differ, so
# that mixed-up axes show, and small enough for thousands of runs.
WIDTH, HEIGHT, FRAMES = 200, 100, 16

# Pixel boxes of every name if no table is given: two, apart, so that an example can compare them.
BOXES = ((20.0, 30.0, 60.0, 70.0), (120.0, 10.0, 180.0, 50.0))


def run_program(
    program: str,
    api: str | Library,
    *,
    objects: Mapping[str, Sequence[Sequence[float]]] | None = None,
    answers: Mapping[str, str] | None = None,
    events: Mapping[str, tuple[int, int]] | None = None,
    media: Any = None,
    entry: str | None = "execute_command",
) -> Outcome:
    """Run a program that may call the routines of ``api`` and return its outcome.

    Args:
        program: with an ``execute_command(image)``; for a clip with
            ``execute_command(video, question, possible_answers)``.
        api: as ``--api``, such as ``abstract+more+my_routines.py``, or the library itself.
        objects: name to pixel boxes ``(x0, y0, x1, y1)`` from the top-left corner; without
            it every name has two boxes.
        answers: question to answer of the VQA model; others are ``unknown``.
        events: description to frames ``(start, end)``.
        media: as ``Reasoner.run``; a grey picture of 200 x 100 pixels by default.
        entry: None runs it as a script that leaves its answer in ``answer``.

    Raises:
        UsageError: a file of routines that cannot be used.
    """
    library = api if isinstance(api, Library) else library_for(api)
    query_media = media_from(picture() if media is None else media)
    toolbox = toolbox_of_tables(library, objects, answers, events)
    with Sandbox(prelude=library.prelude(), limits=Limits(time_s=20)) as sandbox:
        return sandbox.run(
            program, tools=toolbox.session(query_media), entry=entry, args=arguments(query_media)
        )


def picture() -> np.ndarray[Any, Any]:
    """Return the grey picture, ``uint8 [H, W, 3]``."""
    return np.full((HEIGHT, WIDTH, 3), 128, np.uint8)


def clip() -> np.ndarray[Any, Any]:
    """Return the grey clip, ``uint8 [T, H, W, 3]``."""
    return np.full((FRAMES, HEIGHT, WIDTH, 3), 128, np.uint8)


def toolbox_of_tables(
    library: Library,
    objects: Mapping[str, Sequence[Sequence[float]]] | None = None,
    answers: Mapping[str, str] | None = None,
    events: Mapping[str, tuple[int, int]] | None = None,
) -> Toolbox:
    """Return the toolbox with a model for every role that answers from these tables."""

    def scored(pixel_boxes: Sequence[Sequence[float]]) -> list[tuple[Sequence[float], float]]:
        # Falling, so that the order of the table is the order of `find`.
        return [(box, 0.9 - 0.1 * place) for place, box in enumerate(pixel_boxes)]

    class Everything(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            return scored(BOXES)

    table = Everything() if objects is None else {n: scored(each) for n, each in objects.items()}
    windows = {name: (*window, 0.9) for name, window in (events or {}).items()}
    models = ModelSet(
        {
            "detector": lambda: fakes.FakeDetector(table),
            "matcher": fakes.FakeMatcher,
            "depth": fakes.FakeDepth,
            "vqa": lambda: fakes.FakeAnswerer(answers),
            "video": lambda: fakes.FakeVideoModel(windows),
            "text": fakes.FakeLanguage,
        }
    )
    # Below every score of the tables, and where self-tuning would go on from.
    thresholds = {
        f"{role}.threshold": ThresholdSchedule(0.2, 0.1, 0.1)
        for role in ("detector", "matcher", "video")
    }
    return Toolbox(models, ToolSettings(sensitivities=thresholds), library.tool_routines)


def arguments(media: Media) -> dict[str, Any]:
    """Return the values that an entry point may ask for by name."""
    asked = {"question": "what is it?", "possible_answers": ["one", "two"]}
    return {**asked, **media_arguments(media)}


_NO_EXAMPLE = "has no Example: section; language models learn a routine from its example"
_NO_QUERY = "its example has no query: begin it with a comment such as # the leftmost cup"


@dataclass(frozen=True)
class RoutineFinding:
    """Result of checking one routine; ``problem`` is None if the routine is fine.

    Attributes:
        advice: how to improve a routine that works.
    """

    routine: str
    problem: str | None = None
    advice: str | None = None


def check_routines(path: Path, api: str = DEFAULT_API) -> list[RoutineFinding]:
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


def _check(routine: Routine, library: Library) -> RoutineFinding:
    name = routine.name
    try:
        hints = typing.get_type_hints(routine.function)
    except (NameError, TypeError, AttributeError) as error:
        return RoutineFinding(name, f"an annotation cannot be resolved: {error}")
    example = entry_of(routine).example
    if not example:
        return RoutineFinding(name, advice=_NO_EXAMPLE)
    try:
        ast.parse(example)
    except SyntaxError as error:
        reason = f"its example is no Python: {error.msg}, its line {error.lineno}"
        return RoutineFinding(name, reason)
    if name not in called_names(example):
        return RoutineFinding(name, f"its example does not call {name}")
    takes_video = "video" in example.partition("def execute_command(")[2].partition(")")[0]
    arguments = "video, question, possible_answers" if takes_video else "image"
    recording = f"{example}\n{_RECORDED.format(name=name, arguments=arguments)}"
    for program, entry in ((example, "execute_command"), (recording, None)):
        media = clip() if takes_video else picture()
        outcome = run_program(program, library, media=media, entry=entry)
        if outcome.failure is not None:
            lines = " | ".join(map(str.strip, describe_failure(outcome.failure).splitlines()))
            return RoutineFinding(name, f"its example fails: {lines}")
    answer, results = outcome.value
    expected = hints.get("return")
    for result in results:
        if not fits(result, expected):
            shown = f"{type(result).__name__} {repr(result)[:60]}"
            if isinstance(result, Ref) or result is None:
                shown = f"a {result.kind}" if result else "None"
            kind = getattr(expected, "__name__", None) or str(expected)
            return RoutineFinding(name, f"it answered {shown}, which is not {kind}")
    if answer is None:
        return RoutineFinding(name, "its example answers nothing")
    return RoutineFinding(name, advice=None if example.lstrip().startswith("#") else _NO_QUERY)


# Follows an example, so that its lines keep their numbers in messages.
_RECORDED = """
_recorded_results = []
_recorded_routine = {name}

def {name}(*args, **kwargs):
    found = _recorded_routine(*args, **kwargs)
    _recorded_results.append(found)
    return found

answer = [execute_command({arguments}), _recorded_results]
"""


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
        alike = isinstance(value, tuple) and len(value) == len(inside)
        return alike and all(map(fits, value, inside))
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
