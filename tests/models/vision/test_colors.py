"""Colors by pixels: names, background, and the matcher that refuses everything else."""

from __future__ import annotations

import numpy as np
import pytest

from tests.models.vision.onnx_graphs import plain
from viper.errors import ToolError
from viper.models.vision.colors import COLORS, PixelMatcher, color_chances, color_named
from viper.models.vision.roles import LikelihoodMatcher, Pixels

SEEN = {
    "red": (200, 20, 20),
    "orange": (255, 140, 0),
    "yellow": (240, 220, 30),
    "green": (0, 128, 0),
    "blue": (0, 0, 220),
    "purple": (128, 0, 128),
    "pink": (255, 150, 180),
    "brown": (120, 70, 30),
    "black": (15, 15, 18),
    "gray": (120, 120, 120),
    "white": (245, 245, 245),
}


def on(background: str, color: str) -> Pixels:
    """A box of one color with a disc of another in the middle."""
    picture = plain(60, 60, SEEN[background])
    y, x = np.indices((60, 60)) - 30
    picture[x * x + y * y < 20 * 20] = SEEN[color]
    return picture


@pytest.mark.parametrize("color", COLORS)
def test_each_color_is_named(color: str) -> None:
    chances, shares = color_chances(plain(color=SEEN[color]))
    assert COLORS[int(chances.argmax())] == color
    assert shares.sum() == pytest.approx(1)
    assert chances.max() == 1


@pytest.mark.parametrize(
    "color", [(r, g, b) for r in (0, 97, 255) for g in (0, 97, 255) for b in (0, 97, 255)]
)
def test_every_pixel_has_a_color(color: tuple[int, int, int]) -> None:
    assert color_chances(plain(4, 4, color))[1].sum() == pytest.approx(1)


def test_the_middle_counts_and_the_background_does_not() -> None:
    chances, _ = color_chances(on("green", "red"))
    assert chances[COLORS.index("red")] > 0.9
    assert chances[COLORS.index("green")] < 0.3


def test_a_quarter_of_the_middle_is_even_odds() -> None:
    picture = plain(40, 40, SEEN["white"])
    picture[20:, 20:] = SEEN["blue"]
    assert color_chances(picture)[0][COLORS.index("blue")] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("size", [(1, 1), (1, 4000), (4000, 1)])
def test_boxes_of_any_shape_are_taken(size: tuple[int, int]) -> None:
    assert color_chances(plain(*size))[1].sum() == pytest.approx(1)


def test_other_words_for_a_color() -> None:
    assert (color_named("Grey"), color_named("violet"), color_named("old")) == (
        "gray", "purple", None,
    )  # fmt: skip


def test_the_matcher_reads_the_color_before_the_noun() -> None:
    matcher = PixelMatcher()
    assert isinstance(matcher, LikelihoodMatcher)
    pictures = [plain(color=SEEN["red"]), plain(color=SEEN["blue"])]
    likely = matcher.likelihood(pictures, ["red car", "a blue car", "violet"])
    assert likely.tolist() == [[1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("text", ["happy person", "wearing red person", "car", "", "wooden"])
def test_the_matcher_refuses_all_but_colors(text: str) -> None:
    with pytest.raises(ToolError, match="sees colors and sizes only"):
        PixelMatcher().likelihood([plain()], [text])


def test_the_matcher_has_no_embeddings() -> None:
    with pytest.raises(ToolError, match="no embeddings"):
        PixelMatcher().encode_texts(["red"])
