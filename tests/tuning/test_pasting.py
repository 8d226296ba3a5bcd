"""Pictures made of few: what is pasted is labelled, outlined and told by its source."""

from __future__ import annotations

import numpy as np
import pytest

from viper.tuning.soft_prompts.pasting import (
    ONE_COLOUR,
    MaskedPicture,
    Thing,
    composed,
    is_of_colour,
    masked_picture,
)
from viper.tuning.training_data import AnnotatedPicture, Annotation

HEIGHT, WIDTH = 60, 80
GREY, RED, BLUE, GREEN = (90, 90, 90), (220, 20, 20), (20, 20, 220), (20, 220, 20)


def picture(number, things, concept="zebra", positives=(0,), masks=True, **more):
    """A grey picture; each thing is its label, its box and its colour."""
    pixels = np.full((HEIGHT, WIDTH, 3), GREY, np.uint8)
    annotated = []
    for label, (x0, y0, x1, y1), colour in things:
        mask = np.zeros((HEIGHT, WIDTH), bool)
        mask[y0:y1, x0:x1] = True
        pixels[mask] = colour
        box = tuple(map(float, (x0, y0, x1, y1)))
        annotated.append(Annotation((label,), box, (lambda m=mask: m) if masks else None))
    return AnnotatedPicture(
        f"picture:{number}",
        concept,
        tuple(annotated),
        positives,
        frozenset(),
        lambda: pixels,
        **more,
    )


def lesson(colour=RED, other=BLUE):
    """Three pictures of a concept beside another one, as scenes."""
    return [
        masked_picture(
            picture(
                at, [("zebra", (5, 5 + at, 25, 25), colour), ("cube", (40, 30, 60, 50), other)]
            ),
            "zebra",
            at,
        )
        for at in range(3)
    ]


def test_what_shows_the_concept_is_seen_from_places_and_labels() -> None:
    things = [
        ("horse", (0, 0, 10, 10), RED),
        ("Zebra", (20, 0, 30, 10), RED),
        ("cube", (40, 0, 50, 10), BLUE),
    ]
    scene = masked_picture(picture(0, things, positives=(0,)), "zebra", 4)
    assert [one.shown for one in scene.things] == [True, True, False]
    assert scene.source == 4 and {one.source for one in scene.things} == {4} and scene.whole
    negative = masked_picture(picture(1, things[::2], concept="cube", positives=(1,)), "zebra", 5)
    assert not any(one.shown for one in negative.things)
    torn = picture(2, things, incomplete=frozenset({"zebra"}))
    assert not masked_picture(torn, "zebra", 0).whole


def test_an_object_without_a_mask_is_its_box() -> None:
    scene = masked_picture(picture(0, [("zebra", (5, 6, 25, 30), RED)], masks=False), "zebra", 0)
    assert scene.things[0].box == (5, 6, 25, 30)
    assert scene.things[0].area == 20 * 24 == scene.things[0].mask.sum()


def test_a_concept_of_colour_is_told_from_others() -> None:
    assert 0 < ONE_COLOUR < 1
    assert is_of_colour(lesson())
    colours = (RED, GREEN, BLUE)
    mixed = [lesson(colour, other)[0] for colour, other in zip(colours, colours[::-1], strict=True)]
    assert not is_of_colour(mixed)
    assert is_of_colour(mixed[:2]), "too few objects to tell: colours are left alone"


@pytest.mark.parametrize("recolour", [False, True])
def test_made_pictures_show_what_they_say(recolour) -> None:
    scenes = lesson()
    rng = np.random.default_rng(0)
    made = [composed(scenes, rng, recolour) for _ in range(60)]
    pasted, colours = 0, set()
    for scene in made:
        assert scene.pixels.shape == (HEIGHT, WIDTH, 3) and scene.pixels.dtype == np.uint8
        pasted += len(scene.things) - 2
        seen = np.sum([one.mask for one in scene.things], axis=0)
        assert seen.max() <= 1, "no pixel belongs to two objects"
        for thing, (x0, y0, x1, y1) in scene.counted():
            inside = scene.pixels[thing.mask]
            assert 0 <= x0 < x1 <= WIDTH and 0 <= y0 < y1 <= HEIGHT
            channel = int(np.median(inside, axis=0).argmax())
            colours.add((thing.shown, channel))
    assert pasted > 30, "objects are pasted into most pictures"
    if recolour:
        assert colours == {(shown, channel) for shown in (True, False) for channel in range(3)}
    else:
        assert colours == {(True, 0), (False, 2)}, "red is the concept's, blue the other's"


def test_the_source_of_each_object_is_kept() -> None:
    scenes = lesson()
    rng = np.random.default_rng(1)
    made = [composed(scenes, rng, False) for _ in range(40)]
    assert all({one.source for one in scene.things[:2]} == {scene.source} for scene in made)
    assert any(one.source != scene.source for scene in made for one in scene.things[2:])


def test_the_collected_pictures_stay_as_they_are_and_draws_repeat() -> None:
    scenes = lesson()
    kept = [scene.pixels.copy() for scene in scenes]
    first, again = (
        [composed(scenes, np.random.default_rng(3), True).pixels for _ in range(5)]
        for _ in range(2)
    )
    assert all(np.array_equal(one, two) for one, two in zip(first, again, strict=True))
    assert all(np.array_equal(one.pixels, two) for one, two in zip(scenes, kept, strict=True))


def test_what_is_hidden_too_much_does_not_count() -> None:
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[:10, :10] = True
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    seen, hidden = Thing(mask, True, 0, 200), Thing(mask, False, 0, 300)
    gone = Thing(np.zeros_like(mask), True, 0, 0)
    scene = MaskedPicture(pixels, (seen, hidden, gone), 0)
    assert [thing for thing, _ in scene.counted()] == [seen]
    assert gone.box == (0, 0, 0, 0)
