"""Backends that a profile can name: a writer of line programs, eyes for bright spots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.evaluate.fake_backends import Finder, Writer
from viper.models.llm.protocol import Completion, Sampling
from viper.models.vision.roles import Detection, Pixels
from viper.testing.fakes import FakeMatcher

PROFILE = """
name = "lines"
[llm]
backend = "tests.evaluate.line_backends:LineWriter"
model = "writer"
[roles]
detector = {{ backend = "tests.evaluate.line_backends:{finder}", model = "finder" }}
matcher = {{ backend = "tests.evaluate.line_backends:Matcher", model = "matcher" }}
[run]
api = "visprog"
trials = 1
prompt_style = "full"
[limits]
time_s = 10.0
"""

COMPARED = """BOX0=LOC(image=LEFT,object='spot')
BOX1=LOC(image=RIGHT,object='spot')
ANSWER0=EVAL(expr='{BOX0} > {BOX1}')
FINAL_RESULT=RESULT(var=ANSWER0)
"""

POPPED = """OBJ0=LOC(image=IMAGE,object='cube')
IMAGE0=COLORPOP(image=IMAGE,object=OBJ0)
FINAL_RESULT=RESULT(var=IMAGE0)
"""


class LineWriter(Writer):
    """Compares two pictures, or keeps a part of one in colour."""

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        programs = [COMPARED if "spots" in prompt else POPPED for prompt in prompts]
        return [[Completion(program, 1, 20)] for program in programs]


class SpotFinder(Finder):
    """Finds every bright spot on a dark picture."""

    def encode(self, images: Sequence[Pixels]) -> list[Any]:
        return [image.max(axis=2) > 128 for image in images]

    def detect(self, encoding: Any, phrases: Sequence[str]) -> list[list[Detection]]:
        from scipy.ndimage import find_objects, label

        spots = find_objects(label(encoding)[0])
        found = [Detection((float(x.start), float(y.start), float(x.stop), float(y.stop)), 0.9)
                 for y, x in spots]  # fmt: skip
        return [found for _ in phrases]


class Matcher(FakeMatcher):
    """The mean colour of a picture, loaded by name."""

    def __init__(self, name: str) -> None:
        super().__init__()


def spots(*places: tuple[int, int]) -> Pixels:
    """A dark picture with bright spots."""
    picture = np.zeros((40, 60, 3), np.uint8)
    for x, y in places:
        picture[y : y + 6, x : x + 6] = 255
    return picture
