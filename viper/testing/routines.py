"""Runs of programs that call user routines: the real sandbox and toolbox, models from a table.

Used by tests of a routine and by ``viper setup routine check``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from viper.api.library import Library, library_for
from viper.models.media import Media, media_from
from viper.sandbox import Limits, Outcome, Sandbox
from viper.testing import fake_models
from viper.tools.models import ModelSet
from viper.tools.session import media_arguments
from viper.tools.settings import ThresholdSchedule, ToolSettings
from viper.tools.toolbox import Toolbox

# Size of the grey picture, and length of the grey clip, that programs get.
WIDTH, HEIGHT, FRAMES = 200, 100, 16

# Pixel boxes of every name if no table is given.
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
        api: as ``--api``, such as ``abstract+my_routines.py``, or the library itself.
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
    table = _Everything() if objects is None else objects
    boxes = _Scored(table)
    windows = {name: (*window, 0.9) for name, window in (events or {}).items()}
    models = ModelSet(
        {
            "detector": lambda: fake_models.FakeDetector(boxes),
            "matcher": fake_models.FakeMatcher,
            "depth": fake_models.FakeDepth,
            "vqa": lambda: fake_models.FakeAnswerer(answers),
            "video": lambda: fake_models.FakeVideoModel(windows),
            "text": fake_models.FakeLanguage,
        }
    )
    thresholds = {
        f"{role}.threshold": ThresholdSchedule(0.2, 0.1, 0.1)
        for role in ("detector", "matcher", "video")
    }
    return Toolbox(models, ToolSettings(sensitivities=thresholds), library.tool_routines)


def arguments(media: Media) -> dict[str, Any]:
    """Return the values that an entry point may ask for by name."""
    values: dict[str, Any] = {"question": "what is it?", "possible_answers": ["one", "two"]}
    return {**values, **media_arguments(media)}


class _Everything(Mapping[str, Sequence[Sequence[float]]]):
    """Table that has two boxes for every name."""

    def __getitem__(self, name: str) -> Sequence[Sequence[float]]:
        return BOXES

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _Scored(Mapping[str, Sequence[tuple[Sequence[float], float]]]):
    """Boxes with scores, best first, in the form of a detector's table."""

    def __init__(self, boxes: Mapping[str, Sequence[Sequence[float]]]) -> None:
        self._boxes = boxes

    def __getitem__(self, name: str) -> Sequence[tuple[Sequence[float], float]]:
        return [(box, 0.9 - 0.1 * place) for place, box in enumerate(self._boxes[name])]

    def __iter__(self) -> Iterator[str]:
        return iter(self._boxes)

    def __len__(self) -> int:
        return len(self._boxes)
