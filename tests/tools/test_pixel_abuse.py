"""Programs that misuse the routines on pixels: each is refused, and nothing is lost.

The attempts run in the real sandbox against a real session. After each one the pictures of the
query are as they were, what was made is within its limits, and the next program runs.
"""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from tests.tools.pixel_bench import PixelBench, picture
from viper.api.prelude import PRELUDE
from viper.models import edited
from viper.sandbox import Outcome, Sandbox
from viper.tools.pixels import MAX_MADE_PIXELS
from viper.tools.session import media_arguments

P = "ImagePatch(image)"
REFUSED = frozenset({"ToolError", "TypeError", "ValueError", "AttributeError", "OverflowError"})

NUMBERS: dict[str, str] = {
    "nan": "float('nan')",
    "infinity": "float('inf')",
    "minus infinity": "-float('inf')",
    "huge": "1e300",
    "huge whole number": "10 ** 40",
    "text": "'3'",
    "list": "[3]",
    "complex": "3j",
}
NUMERIC: dict[str, str] = {
    "enlarge": "enlarge(P, {})",
    "rotate": "rotate(P, {})",
    "contrast": "contrast(P, {})",
    "blur": "blur(P, {})",
    "edges low": "edges(P, {})",
    "edges high": "edges(P, 1, {})",
    "threshold low": "threshold(P, {})",
    "threshold high": "threshold(P, 1, {})",
    "tolerance": "threshold_color(P, 'red', {})",
    "components": "components(P, None, {}, 'x')",
    "components most": "components(P, None, 1, {})",
    "contours most": "contours(P, None, {})",
    "bins": "histogram(P, {})",
    "color_at x": "color_at(P, {}, 1)",
    "color_at y": "color_at(P, 1, {})",
    "profile": "line_profile(P, {}, 1, 2, 2)",
    "profile samples": "line_profile(P, 1, 1, 2, 2, {})",
    "pixel_count": "pixel_count(P, {})",
    "grid": "draw_grid(P, {})",
    "grid rows": "draw_grid(P, 2, {})",
}
ATTEMPTS: dict[str, str] = {
    **{f"{name}: {kind}": call.format(value)
       for name, call in NUMERIC.items() for kind, value in NUMBERS.items()},
    "enlarge to nothing": "enlarge(P, 0)",
    "enlarge backwards": "enlarge(P, -2)",
    "enlarge beyond its factor": "enlarge(P, 17)",
    "a bomb by enlarging again": "enlarge(enlarge(enlarge(P, 16), 16), 16)",
    "a bomb by enlarging in a loop": "big = P\nfor _ in range(9):\n    big = enlarge(big, 3)\nbig",
    "a bomb by joining": "side_by_side([enlarge(P, 16)] * 16)",
    "a bomb by joining thin ones": "side_by_side([enlarge(P, 16), P.crop(0, 0, 64, 1)] * 8)",
    "too many to join": "side_by_side([P] * 17)",
    "nothing to join": "side_by_side([])",
    "a bomb by grid": "draw_grid(P, 10 ** 9, 10 ** 9)",
    "a grid without cells": "draw_grid(P, 0)",
    "too many boxes": "draw_boxes(P, [P] * 501)",
    "too many points": "draw_points(P, [(1, 1)] * 501)",
    "endless points": "draw_points(P, ((1, 1) for _ in range(10 ** 5)))",
    "too many labels": "draw_points(P, [(1, 1)], ['a', 'b'])",
    "points of three": "draw_points(P, [(1, 1, 1)])",
    "points of text": "draw_points(P, ['ab'])",
    "a point at infinity": "draw_points(P, [(float('inf'), 1)])",
    "boxes that are none": "draw_boxes(P, [1, 2])",
    "boxes of text": "draw_boxes(P, 'abc')",
    "a line of nothing": "draw_lines(P, None)",
    "a channel that is none": "grayscale(P, 'alpha')",
    "a channel that is a number": "grayscale(P, 3)",
    "a channel of a megabyte": "grayscale(P, 'a' * 10 ** 6)",
    "an axis that is none": "flip(P, '__class__')",
    "a color that is none": "threshold_color(P, 'no color')",
    "a color of a megabyte": "threshold_color(P, '#' + 'f' * 10 ** 6)",
    "a color beyond its range": "threshold_color(P, 'rgb(300, 0, 0)')",
    "a palette beyond bytes": "threshold_color(P, (256, 0, 0))",
    "a palette below bytes": "overlay(P, P, (-1, 0, 0))",
    "a palette of two": "overlay(P, P, (1, 2))",
    "a palette of four": "overlay(P, P, (1, 2, 3, 4))",
    "a palette of texts": "overlay(P, P, ('a', 'b', 'c'))",
    "a palette of nothing": "overlay(P, P, None)",
    "a palette that is a mapping": "overlay(P, P, {})",
    "a palette of numbers too large": "overlay(P, P, (1e300, 0, 0))",
    "a palette that is not a number": "overlay(P, P, (float('nan'), 0, 0))",
    "a mask of another size": "overlay(P, P.crop(0, 0, 5, 5))",
    "a difference of sizes": "difference(P, enlarge(P, 2))",
    "parts of another size": "components(P, enlarge(P, 2))",
    "an empty patch": "enlarge(P.crop(5, 5, 5, 9), 2)",
    "an empty mask": "components(P.crop(5, 5, 5, 9))",
    "an empty picture to show": "show(P.crop(5, 5, 5, 9))",
    "a number to show": "show(3)",
    "a text to show": "show('image0')",
    "a list to show": "show([P])",
    "a note that is none": "show(P, 3)",
    "a note of a megabyte": "show(P, 'a' * 10 ** 6)",
    "a name instead of a picture": "enlarge('image0', 2)",
    "a name of an edit": "enlarge('edit-000000000000000000000000', 2)",
    "a patch of a name": "enlarge(ImagePatch('image0'), 2)",
    "a patch of a forged name": "enlarge(ImagePatch('edit-000000000000000000000000'), 2)",
    "bytes instead of a picture": "enlarge(b'abc', 2)",
    "an array instead of a picture": "enlarge(P.cropped_image, 2)",
    "a function instead of a picture": "enlarge(enlarge, 2)",
    "the parent's tools as an argument": "enlarge(tools=None, patch=P)",
    "tools by name": "show(tools=P, picture=P)",
    "a keyword that is none": "enlarge(P, scale=2)",
    "too few arguments": "difference(P)",
    "too many arguments": "flip(P, 'vertical', 1)",
    "a handle's field": "P._handle.id",
    "another handle": "P._handle",
    "a new box": "p = P\np._box = (0, 0, 10 ** 9, 10 ** 9)\nenlarge(p, 2)",
    "the computation behind": "enlarge.__globals__",
    "the closure behind": "show.__closure__",
    "the module behind": "import cv2\ncv2.imread('/etc/passwd')",
    "the library behind": "from PIL import Image\nImage.open('/etc/passwd')",
    "the tools behind": "from viper.tools import pixels",
    "a computation that is no routine": "samples(P, ((0, 0),), 'gray')",
    "a frame that is none": "frame_difference(P, 0, 1)",
    "a profile that leaves the picture": "line_profile(P, 1, 1, 100, 1)",
    "a place outside of a part": "color_at(P.crop(0, 0, 4, 4), 30, 30)",
    "one sample": "line_profile(P, 1, 1, 2, 2, 1)",
    "one bin": "histogram(P, 1)",
    "a threshold that is crossed": "threshold(P, 256)",
}  # fmt: skip

HARMLESS: dict[str, str] = {
    "a copy is written to": "a = P.cropped_image\na[:] = 0\nanswer = str(mean_color(P))",
    "a result is written to": "h = histogram(P)\nh[0] = 9\nanswer = str(sum(histogram(P)))",
    "a part is written to": "c = components(P)\nc.append({})\nanswer = str(len(components(P)))",
    "a box far outside": "answer = str(ImagePatch(image, -10 ** 9, -10 ** 9, 10 ** 9, 10 ** 9).width)",
    "a part far outside": "p = P.crop(-10 ** 6, -10 ** 6, 10 ** 6, 10 ** 6)\nanswer = str(mean_color(p))",
    "many changes": "for n in range(60):\n    blur(P, 1 + n / 10)\nanswer = 'done'",
    "many parts": "answer = str(len(components(threshold(edges(P, 0, 0), 1), P, 0, 1000)) <= 1000)",
    "long labels": "draw_points(P, [(1, 1)], ['a' * 10 ** 5])\nanswer = 'done'",
    "markup in a label": "draw_points(P, [(1, 1)], ['<script>\\x00\\n'])\nanswer = 'done'",
    "a label that is a number": "draw_points(P, [(1, 1)], [3])\nanswer = 'done'",
    "points far outside": "draw_lines(P, [(-10 ** 6, 0), (10 ** 6, 9)])\nanswer = 'done'",
    "a box upside down": "draw_boxes(P, [ImagePatch(image, 9, 9, 9, 9)])\nanswer = 'done'",
    "limits the wrong way round": "answer = str(pixel_count(P, 200, 100))",
    "truth values as numbers": "answer = str(enlarge(P, True).width)",
}  # fmt: skip


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(prelude=PRELUDE) as made:
        yield made


def run(sandbox: Sandbox, bench: PixelBench, program: str) -> Outcome:
    arguments = media_arguments(bench.media)
    text = re.sub(r"\bP\b", P, program)
    return sandbox.run(text, tools=bench.session, args=arguments)


def check_limits(bench: PixelBench) -> None:
    assert (bench.media.images[0] == picture()).all()
    made = [bench.media.pixels(name) for name in bench.media.edits.names()]
    assert all(pixels.shape[0] * pixels.shape[1] <= MAX_MADE_PIXELS for pixels in made)
    assert not any(pixels.flags.writeable for pixels in made)


@pytest.mark.parametrize("name", ATTEMPTS)
def test_an_attempt_is_refused_in_the_program(sandbox: Sandbox, name: str) -> None:
    bench = PixelBench()
    *before, last = ATTEMPTS[name].splitlines()
    if last.startswith(("from ", "import ")):
        before, last = [*before, last], "'loot'"
    outcome = run(sandbox, bench, "\n".join([*before, f"answer = str({last})"]))
    assert not outcome.ok, outcome.value
    assert outcome.failure is not None
    if outcome.failure.kind in ("runtime", "tool"):
        names = REFUSED | {"NameError", "ModuleNotFoundError", "ImportError"}
        assert outcome.failure.exception in names, outcome.failure
    else:
        assert outcome.failure.kind in ("policy", "forbidden"), outcome.failure
    check_limits(bench)
    assert run(sandbox, bench, "answer = str(flip(P).width)").value == "64"


@pytest.mark.parametrize("name", HARMLESS)
def test_odd_but_harmless_programs_change_nothing(sandbox: Sandbox, name: str) -> None:
    bench = PixelBench()
    outcome = run(sandbox, bench, HARMLESS[name])
    assert outcome.ok, outcome.failure
    check_limits(bench)


def test_all_pictures_of_a_query_have_a_budget(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edited, "MAX_BYTES", 500_000)
    bench = PixelBench()
    outcome = run(sandbox, bench, "for n in range(99):\n    enlarge(P, 4 + n / 50)\nanswer = 1")
    assert outcome.failure is not None and "take more than" in outcome.failure.message
    total = sum(bench.media.pixels(name).nbytes for name in bench.media.edits.names())
    assert 0 < total <= 500_000


def test_a_picture_of_another_run_is_out_of_reach(sandbox: Sandbox) -> None:
    first, second = PixelBench(), PixelBench()
    made = run(sandbox, first, "answer = enlarge(P, 2)")
    assert made.ok
    outcome = sandbox.run(
        "answer = mean_color(ImagePatch(image))", tools=second.session, args={"image": made.value}
    )
    assert outcome.failure is not None and "there is no picture" in outcome.failure.message


def test_the_arrays_behind_cannot_be_written(sandbox: Sandbox) -> None:
    bench = PixelBench()
    tools = bench.toolbox.tools
    assert {"enlarge", "components", "show"} <= set(tools)
    made = bench.enlarge(bench.patch, 2)
    with pytest.raises(ValueError, match="read-only"):
        bench.media.pixels(made._handle.id)[0, 0] = np.uint8(1)


def test_the_suite_is_large_enough() -> None:
    assert len(set(ATTEMPTS.values())) + len(HARMLESS) >= 240


def test_a_rotation_is_refused_before_it_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    from viper.errors import ToolError
    from viper.tools.pixels import rotate

    def computed(*_: object, **__: object) -> None:
        raise AssertionError("computed")

    monkeypatch.setattr(Image.Image, "rotate", computed)
    with pytest.raises(ToolError, match="the picture would have"):
        rotate(np.zeros((3_000, 3_000, 3), np.uint8), 45)
