"""The inpainter's recipe: its lessons, its initial weights, its two stages and its score."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution

from viper.embedded import WEIGHTS
from viper.models.vision.inpainter_diffusers import DiffusersInpainter
from viper_lab.recipes import inpainter as recipe
from viper_lab.recipes import inpainter_score as score
from viper_lab.recipes import optim
from viper_lab.recipes.inpainter import autoencoder_loss, conditions
from viper_lab.recipes.inpainter_batches import (
    NOTHING,
    InpaintExample,
    boxed,
    dilated,
    draw_example,
    prompt_for,
    tensors,
)
from viper_lab.recipes.inpainter_model import (
    InpainterShape,
    build_autoencoder,
    text_side,
    whiten_latents,
)
from viper_lab.recipes.object_views import ObjectViews
from viper_lab.recipes.optim import TrainOptions
from viper_lab.world.scene import SceneObject
from viper_lab.world.stills import FreshStills
from viper_lab.world.vocabulary import HELD_OUT_COMBINATIONS

DETECTOR = WEIGHTS / "detector"
TINY = InpainterShape(
    side=32, autoencoder_widths=(8, 16), latent_channels=6, unet_widths=(8, 16), heads=2, groups=4
)


@pytest.fixture(scope="module")
def views():
    return ObjectViews(FreshStills.of_scenes("train", range(4)))


@pytest.fixture(scope="module")
def wanted():
    return list(score.replacements(4))


def squares(views, count=6, side=32):
    rng = np.random.default_rng(0)
    return [draw_example(views, rng, side) for _ in range(count)]


def test_a_lesson_masks_something_of_a_square_and_says_what(views) -> None:
    lessons = squares(views, 60)
    for lesson in lessons:
        assert lesson.square.shape == (32, 32, 3) and lesson.mask.shape == (32, 32)
        assert 0 < lesson.mask.mean() < 1 and lesson.prompt
    bare = sum(lesson.prompt in NOTHING for lesson in lessons)
    assert 0 < bare < 20
    rectangles = sum(_is_rectangle(lesson.mask) for lesson in lessons)
    assert 20 < rectangles < 60


def _is_rectangle(mask):
    rows, columns = mask.any(axis=1), mask.any(axis=0)
    return bool(mask[np.ix_(rows, columns)].all())


def test_prompts_name_what_the_object_is() -> None:
    thing = SceneObject("cube", "red", "metal", "small", (0, 0, 0))
    rng = np.random.default_rng(0)
    said = {prompt_for(thing, rng) for _ in range(200)}
    assert {"red metal cube", "a red metal cube", "the red metal cube"} <= said
    words = {word for prompt in said for word in prompt.split()}
    assert words <= {"a", "the", "small", "red", "metal", "cube", "thing", "object"}


def test_masks_grow_by_what_is_said_and_stay_in_the_picture() -> None:
    mask = boxed((2, 10, 12, 30), (40, 50), 0.25)
    assert mask.sum() == (35 - 5) * (17 - 0) and mask[5:35, 0:17].all()
    point = np.zeros((9, 9), bool)
    point[4, 4] = True
    assert dilated(point, 2).sum() == 13 and dilated(point, 0).sum() == 1


def test_the_text_side_reads_as_the_detector_does() -> None:
    from transformers import Owlv2ForObjectDetection

    encoder, tokenizer = text_side(DETECTOR)
    theirs = Owlv2ForObjectDetection.from_pretrained(DETECTOR, dtype=torch.float32)
    tokens = tokenizer(["a red metal cube"], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        ours = encoder(tokens).pooler_output
        expected = theirs.owlv2.text_model(tokens).pooler_output
    assert torch.allclose(ours, expected, atol=1e-5)
    assert tokenizer.model_max_length == encoder.config.max_position_embeddings


def test_whitened_latents_have_unit_spread_and_decode_to_the_same(views) -> None:
    torch.manual_seed(0)
    autoencoder = build_autoencoder(TINY)
    images, _ = tensors(squares(views), "cpu")
    with torch.no_grad():
        before = autoencoder.decode(autoencoder.encode(images).latent_dist.mean).sample
        spread = autoencoder.encode(images).latent_dist.std.clone()
        scale = autoencoder.encode(images).latent_dist.mean.std(dim=(0, 2, 3))
        whiten_latents(autoencoder, images)
        found = autoencoder.encode(images).latent_dist
        count = TINY.latent_channels
        assert torch.allclose(found.mean.mean(dim=(0, 2, 3)), torch.zeros(count), atol=1e-3)
        assert torch.allclose(found.mean.std(dim=(0, 2, 3)), torch.ones(count), atol=1e-3)
        assert torch.allclose(found.std, spread / scale[:, None, None], rtol=1e-3)
        assert torch.allclose(autoencoder.decode(found.mean).sample, before, atol=1e-3)


def test_grey_costs_more_than_an_error_of_brightness(views, tmp_path) -> None:
    class Answering:
        """Decodes to the squares it encoded, changed."""

        def __init__(self, change):
            self.change = change

        def encode(self, squares):
            self.decoded = self.change(squares)
            found = DiagonalGaussianDistribution(torch.zeros(len(squares), 8, 4, 4))
            return SimpleNamespace(latent_dist=found)

        def decode(self, _):
            return SimpleNamespace(sample=self.decoded)

    def found(change):
        loss, figures = autoencoder_loss(Answering(change), views, 32, _options(tmp_path))(0)
        return float(loss), figures

    def grey(squares):
        return squares.mean(dim=1, keepdim=True).expand_as(squares)

    lost, figures = found(grey)
    assert figures["colour"] == pytest.approx(0, abs=1e-5) and figures["pixel"] > 0.01
    darker, darkened = found(lambda squares: squares - figures["pixel"])
    assert darkened["colour"] == pytest.approx(1, abs=1e-3)
    assert darkened["pixel"] == pytest.approx(figures["pixel"]) and lost > 1.5 * darker


def test_training_shows_what_the_pipeline_shows(views, tmp_path) -> None:
    recipe.learn(_options(tmp_path), TINY, views)
    pipeline = DiffusersInpainter.from_pretrained(tmp_path / "out", device="cpu")._pipeline
    images, masks = tensors(squares(views, 1), "cpu")
    with torch.no_grad():
        latents, cells, left = conditions(
            pipeline.vae, images, masks, torch.Generator().manual_seed(3)
        )
        mask, masked = pipeline.prepare_mask_latents(
            masks, images * (masks < 0.5), 1, 32, 32, torch.float32, "cpu", None, False
        )
    assert latents.shape == left.shape == masked.shape == (1, 6, 16, 16)
    assert torch.equal(cells, mask)
    # Both draw from the same distribution, with noise of their own.
    assert (left - masked).abs().mean() < 3 * pipeline.vae.encode(images).latent_dist.std.mean()


def _options(tmp_path, steps=2):
    return TrainOptions(tmp_path / "out", tmp_path / "work", steps=steps)


def test_a_broken_off_training_goes_on_to_the_same_weights(views, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(recipe, "AUTOENCODER_STEPS", recipe.STEPS)
    monkeypatch.setattr("viper_lab.recipes.inpainter.BATCH", 2)
    monkeypatch.setattr("viper_lab.recipes.inpainter.AUTOENCODER_BATCH", 2)
    whole, halved = _options(tmp_path / "a"), _options(tmp_path / "b")
    recipe.learn(whole, TINY, views)
    with pytest.raises(_Stopped), monkeypatch.context() as patch:
        patch.setattr(optim, "_save", _breaks_off(optim._save))
        patch.setattr(recipe, "FitOptions", partial(optim.FitOptions, checkpoint_every_s=-1.0))
        recipe.learn(halved, TINY, views)
    assert not halved.out.exists()
    recipe.learn(halved, TINY, views)
    for part in ("unet", "vae"):
        name = f"{part}/diffusion_pytorch_model.safetensors"
        assert (whole.out / name).read_bytes() == (halved.out / name).read_bytes()


class _Stopped(Exception):
    pass


def _breaks_off(save):
    """Saves as ``save`` does, and ends the training after the denoiser's first step."""

    def saves(path, *state):
        save(path, *state)
        if path.name == "denoiser.pt":
            raise _Stopped

    return saves


def test_every_edit_asks_for_another_colour_and_shape(wanted) -> None:
    for each in wanted:
        assert each.target.colour != each.old.colour and each.target.shape != each.old.shape
        assert (each.target.colour, each.target.shape) not in HELD_OUT_COMBINATIONS
        assert each.prompt == f"a {each.target.colour} {each.target.material} {each.target.shape}"
        assert each.mask[_middle(each.box)] or each.old.shape == "ring"
    assert _is_rectangle(wanted[0].mask) and not _is_rectangle(wanted[1].mask)
    again = next(iter(score.replacements(1)))
    assert np.array_equal(again.pixels, wanted[0].pixels) and again.target == wanted[0].target


def _middle(box):
    x0, y0, x1, y1 = box
    return int((y0 + y1) / 2), int((x0 + x1) / 2)


class Renderer:
    """Paints what the renderer draws, cut to the mask; knows the edits."""

    model_id = "renderer"

    def __init__(self, wanted):
        self.wanted = wanted

    def inpaint(self, pixels, mask, prompt, seed):
        after = self.wanted[seed].rendered
        return np.where(mask[..., None], after, pixels)


@pytest.mark.models
def test_the_judges_know_a_right_edit_from_none(wanted, monkeypatch) -> None:
    monkeypatch.setattr(score, "replacements", lambda count: wanted[:count])
    figures = score.evaluate(Renderer(wanted), len(wanted))
    assert figures["n"] == 4 and figures["unchanged"] == 1.0
    assert figures["rendered_pair"] >= 0.75 and figures["rendered_found"] >= 0.75
    assert figures["unedited_pair"] == figures["unedited_over_old"] == 0.0
    assert figures["over_old"] > figures["unedited_over_old"]


def test_an_inpainter_that_paints_beside_the_mask_is_seen(wanted, monkeypatch) -> None:
    monkeypatch.setattr(score, "replacements", lambda count: wanted[:count])

    class Spilling(Renderer):
        def inpaint(self, pixels, mask, prompt, seed):
            return 255 - pixels

    assert score.evaluate(Spilling(wanted), 2)["unchanged"] == 0.0


def test_a_sheet_shows_edits_beside_one_another(wanted) -> None:
    height, width = wanted[0].pixels.shape[:2]
    shown = score.sheet(wanted[:3], [each.pixels for each in wanted[:3]], columns=2)
    assert shown.shape == (2 * height, 2 * 4 * width, 3)


def test_tensors_are_in_the_range_of_the_pipeline() -> None:
    square = np.full((8, 8, 3), 255, np.uint8)
    square[:, :4] = 0
    mask = np.zeros((8, 8), bool)
    mask[0] = True
    images, masks = tensors([InpaintExample(square, mask, "x")], "cpu")
    assert images.shape == (1, 3, 8, 8) and masks.shape == (1, 1, 8, 8)
    assert (images.min(), images.max(), masks.sum()) == (-1, 1, 8)
