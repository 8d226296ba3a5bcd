"""Patches outside of programs, on fake models."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.strategies.bench import Bench, picture
from viper.api.image_patch import ImagePatch
from viper.errors import MediaError, ToolError, UsageError


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench([]) as made:
        yield made


def test_a_patch_asks_the_models_at_once(bench: Bench) -> None:
    whole = bench.reasoner.patch(picture())
    assert type(whole) is ImagePatch and (whole.width, whole.height) == (100, 60)
    cubes = whole.find("cube")
    assert [(cube.left, cube.lower, cube.right, cube.upper) for cube in cubes] == [
        (10, 10, 20, 20),
        (70, 35, 90, 55),
    ]
    assert whole.exists("cube") and not whole.exists("pyramid")
    assert cubes[0].simple_query("what color is this?") == "red"
    assert isinstance(cubes[0].verify_property("cube", "red"), bool)
    assert whole.best_text_match(["silk", "wool"]) in ("silk", "wool")
    assert cubes[0].compute_depth() > 0 and cubes[1].cropped_image.shape == (3, 20, 20)


def test_parts_of_a_patch_ask_too(bench: Bench) -> None:
    half = bench.reasoner.patch(picture()).crop(50, 0, 100, 60)
    assert [cube.left for cube in half.find("cube")] == [70]
    assert half.crop(0, 0, 10, 10).find("cube") == []


def test_pictures_only(bench: Bench) -> None:
    with pytest.raises(UsageError, match="expected one picture, got images"):
        bench.reasoner.patch([picture(), picture()])
    with pytest.raises(UsageError, match="expected one picture, got video"):
        bench.reasoner.patch(np.zeros((4, 60, 100, 3), np.uint8))
    with pytest.raises(MediaError):
        bench.reasoner.patch("no such file.png")


def test_a_refused_call_is_an_error_of_its_own(bench: Bench) -> None:
    with pytest.raises(ToolError):
        bench.reasoner.patch(picture()).crop(3, 3, 3, 3).simple_query("what is this?")
    with pytest.raises(TypeError, match="object_name must be a string"):
        bench.reasoner.patch(picture()).find(3)  # type: ignore[arg-type]
