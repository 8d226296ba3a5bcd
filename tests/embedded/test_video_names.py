from collections.abc import Iterator

import pytest
import torch

from viper.embedded.video_events_model import crops_at, names_in_view

COLOURS, SHAPES = ("red", "blue"), ("cube", "ball")
NAMES = [f"{colour} {shape}" for colour in COLOURS for shape in SHAPES]
FRAMES = torch.zeros((4, 120, 160, 3), dtype=torch.uint8)


class Looker:
    """Tells colour and shape from the brightest value of a crop; 0 is an empty place."""

    def looks(self, crops: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        kinds = crops.flatten(1).amax(1).long()  # 0, or 1 + index of the name
        empty = kinds == 0
        colour = torch.where(empty, len(COLOURS), (kinds - 1) // len(SHAPES))
        shape = torch.where(empty, len(SHAPES), (kinds - 1) % len(SHAPES))
        return self._log(colour, len(COLOURS) + 1), self._log(shape, len(SHAPES) + 1)

    def _log(self, which: torch.Tensor, count: int) -> torch.Tensor:
        return (torch.nn.functional.one_hot(which, count) * 4.0).log_softmax(-1)


@pytest.fixture
def frames() -> Iterator[torch.Tensor]:
    """A blue cube (value 3) at the left and a red ball (value 2) at the right."""
    picture = FRAMES.clone()
    picture[:, 56:64, 24:32] = 3
    picture[:, 56:64, 120:128] = 2
    yield picture


def attention(cells: list[int | None]) -> torch.Tensor:
    """Where each name's text looks in every frame: a cell, or nowhere."""
    shares = torch.full((len(NAMES), len(FRAMES), 301), 1e-6)
    for name, cell in enumerate(cells):
        shares[name, :, 300 if cell is None else cell] = 1
    return (shares / shares.sum(-1, keepdim=True)).log()


LEFT, RIGHT, EMPTY = 7 * 20 + 3, 7 * 20 + 15, 2 * 20 + 9


def test_crops_decide_between_names_that_point_at_one_place(frames: torch.Tensor) -> None:
    looks_at = attention([RIGHT, RIGHT, LEFT, LEFT])
    assert set(names_in_view(Looker(), frames, looks_at, NAMES, ())) == {"red ball", "blue cube"}


def test_names_that_look_nowhere_or_at_nothing_are_not_in_view(frames: torch.Tensor) -> None:
    assert names_in_view(Looker(), frames, attention([None] * 4), NAMES, ()) == []
    assert names_in_view(Looker(), frames, attention([EMPTY, RIGHT, None, None]), NAMES, ()) == [
        "red ball"
    ]


def test_a_name_that_is_given_is_believed(frames: torch.Tensor) -> None:
    looks_at = attention([RIGHT, RIGHT, LEFT, LEFT])
    found = names_in_view(Looker(), frames, looks_at, NAMES, ("blue ball",))
    assert "blue ball" in found and len(found) == 2


def test_crops_at_the_border_repeat_it() -> None:
    picture = FRAMES[:2].clone()
    picture[:, 0, 0] = 9
    crops = crops_at(picture, [(0.0, 0.0), (159.0, 119.0)])
    assert crops.shape == (2, 40, 40, 3)
    assert bool((crops[0, :20, :20] == 9).all()) and not bool(crops[1].any())
