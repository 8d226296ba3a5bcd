import numpy as np
import pytest

from viper.embedded.video_events_model import CROP
from viper_lab.recipes.video import batch_loss, build_model, build_tokenizer, coverage, varied
from viper_lab.recipes.video_looks import FIRST_CLIP, WINDOW, cutouts, varied_crop
from viper_lab.recipes.video_texts import NOWHERE, claims, words
from viper_lab.world.clips import render_clip, sample_clip
from viper_lab.world.events import object_name
from viper_lab.world.scene import CLIP_WIDTH, RenderedClip
from viper_lab.world.vocabulary import COLOURS, SHAPES


@pytest.fixture(scope="module")
def clip() -> RenderedClip:
    return render_clip(sample_clip("train", 7))


def test_claims_hold_every_event_and_say_nothing_untrue_is_true(clip: RenderedClip) -> None:
    for seed in range(20):
        found = claims(clip, np.random.default_rng(seed), 14)
        assert len(found) == 14
        windows = [claim.window for claim in found if claim.window]
        assert windows == [(event.start, event.end) for event in clip.events]
        for claim in found:
            for index, (colour, shape) in zip(claim.objects, claim.nouns, strict=True):
                if index != NOWHERE:
                    thing = clip.objects[index]
                    assert colour in (COLOURS.index(thing.colour), len(COLOURS))
                    assert shape in (SHAPES.index(thing.shape), len(SHAPES))
                elif colour < len(COLOURS):
                    stranger = f"{COLOURS[colour]} {SHAPES[shape]}"
                    assert stranger not in {object_name(thing) for thing in clip.objects}


def test_the_tokenizer_knows_every_word_and_ends_with_the_largest_id() -> None:
    tokenizer = build_tokenizer()
    for word in words():
        assert len(tokenizer(word)["input_ids"]) == 3
    assert tokenizer.eos_token_id == len(tokenizer) - 1


def test_coverage_is_where_a_box_lies_and_empty_without_one() -> None:
    nan = float("nan")
    covered = coverage(np.array([[8, 8, 24, 16], [nan] * 4], np.float32))
    assert covered.shape == (2, 300)
    assert covered[0].nonzero()[0].tolist() == [21, 22]
    assert covered[0].sum() == pytest.approx(1) and covered[1].sum() == 0


def test_a_mirrored_clip_mirrors_its_boxes(clip: RenderedClip) -> None:
    mirrored = next(
        other
        for other in (varied(clip, np.random.default_rng(seed)) for seed in range(20))
        if not np.array_equal(other.boxes, clip.boxes, equal_nan=True)
    )
    assert np.allclose(mirrored.boxes[..., 0], CLIP_WIDTH - clip.boxes[..., 2], equal_nan=True)
    assert np.allclose(mirrored.boxes[..., 1], clip.boxes[..., 1], equal_nan=True)


def test_every_part_of_the_loss_is_finite_and_reaches_the_weights(clip: RenderedClip) -> None:
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    loss, parts = batch_loss(model, tokenizer, [clip], np.random.default_rng(0))
    loss.backward()
    assert np.isfinite(list(parts.values())).all()
    missed = {name for name, weight in model.named_parameters() if weight.grad is None}
    assert all(name.startswith("crop_") for name in missed)


def test_cutouts_show_an_object_in_the_middle_or_an_empty_place() -> None:
    pixels, colours, shapes = cutouts(0)
    assert pixels.shape == (len(colours), WINDOW, WINDOW, 3) and len(shapes) == len(colours)
    assert ((colours == len(COLOURS)) == (shapes == len(SHAPES))).all()
    thing = sample_clip("train", FIRST_CLIP).objects[0]
    assert COLOURS.index(thing.colour) in colours
    crop = varied_crop(pixels[0], np.random.default_rng(1))
    assert crop.shape == (CROP, CROP, 3) and crop.dtype == np.uint8
