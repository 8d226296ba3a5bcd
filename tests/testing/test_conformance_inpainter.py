"""Each rule for inpainters fires on a backend that breaks it."""

from __future__ import annotations

import numpy as np
import pytest
from breaking import blackens, broken, broken_identities, differs_by_thread, refuses_threads, writes

from viper.testing.conformance import check_inpainter


class GoodInpainter:
    """Turns what is masked into its negative, shifted by the seed."""

    model_id = "good"

    def inpaint(self, pixels, mask, prompt, seed):
        kept, shown = self.keep(pixels), self.see(mask)
        return np.where(shown[..., None], 255 - kept + np.uint8(seed), kept)

    def keep(self, pixels):
        return pixels.copy()

    def see(self, mask):
        return mask.copy()


def painting(change):
    """An inpainter whose pictures go through ``change(picture, mask)``."""
    good = GoodInpainter()
    return broken(GoodInpainter, inpaint=lambda _, *given: change(good.inpaint(*given), given[1]))


def spills(picture, mask):
    """One pixel beside the mask is another, if it is not the whole picture that is masked."""
    ys, xs = np.nonzero(~mask)
    if len(ys) and mask.any():
        picture[ys[0], xs[0]] ^= 1
    return picture


def seedless(picture, mask, numbers=np.random.default_rng(0)):  # noqa: B008
    """Something else each time."""
    return np.where(mask[..., None], numbers.integers(0, 256, picture.shape), picture).astype(
        np.uint8
    )


BROKEN = [
    *broken_identities(GoodInpainter),
    ("lacks a method of the role", type("Half", (), {"model_id": "half"})()),
    ("must not be changed", broken(GoodInpainter, keep=staticmethod(blackens))),
    ("read-only arrays must be accepted", broken(GoodInpainter, keep=staticmethod(writes))),
    ("must not be changed", broken(GoodInpainter, see=staticmethod(blackens))),
    ("read-only arrays must be accepted", broken(GoodInpainter, see=staticmethod(writes))),
    ("same answer", broken(GoodInpainter, keep=staticmethod(differs_by_thread))),
    (
        "another thread must get an answer",
        broken(GoodInpainter, keep=staticmethod(refuses_threads)),
    ),
    ("a painting must be a uint8 array", painting(lambda picture, _: picture.astype(np.float32))),
    ("a painting must be a uint8 array", painting(lambda picture, _: picture.tolist())),
    ("picture.s size", painting(lambda picture, _: picture[:, ::2])),
    ("outside the mask must stay .* where it is a box", painting(spills)),
    (
        "outside the mask must stay .* where it is empty",
        painting(lambda picture, mask: picture if mask.any() else 255 - picture),
    ),
    (
        "something must be painted",
        broken(GoodInpainter, inpaint=lambda _, pixels, *given: pixels.copy()),
    ),
    ("the same seed must give the same picture", painting(seedless)),
]


def test_a_good_inpainter_passes() -> None:
    check_inpainter(GoodInpainter())


@pytest.mark.parametrize(("rule", "backend"), BROKEN)
def test_a_broken_rule_of_inpainting_is_named(rule, backend) -> None:
    with pytest.raises(AssertionError, match=rule):
        check_inpainter(backend)
