"""How learned vectors enter the inpainter, on a tiny pipeline of the real classes."""

from __future__ import annotations

import hashlib
import threading

import numpy as np
import pytest
import torch

from tests.models.vision.tiny_diffusion import SIDE, picture, tiny_pipeline
from viper.errors import UsageError
from viper.models.vision.adapter_inpainter import InpainterTraining, encode_adapted, encode_prompts
from viper.models.vision.inpainter_diffusers import DiffusersInpainter
from viper.models.vision.soft_prompts import LearnedPrompt

WIDTH = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_pipeline(tmp_path_factory.mktemp("tiny-adapted"))


@pytest.fixture(scope="module")
def inpainter(folder):
    return DiffusersInpainter.from_pretrained(
        folder, steps=2, guidance=2.0, safety_checker=False, device="cpu", local_only=True
    )


@pytest.fixture(scope="module")
def text(inpainter):
    pipeline = inpainter._pipeline
    return pipeline.text_encoder, pipeline.tokenizer


def box():
    mask = np.zeros((40, 70), bool)
    mask[10:25, 20:45] = True
    return mask


def vectors(seed=0, count=1):
    return np.random.default_rng(seed).normal(size=(count, WIDTH)).astype(np.float32)


def own(text, word):
    """The embeddings of a word's own tokens."""
    encoder, tokenizer = text
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    return encoder.get_input_embeddings().weight.detach()[ids]


@torch.no_grad()
def test_a_words_own_embeddings_in_its_place_change_nothing(text) -> None:
    prompts = ["a red metal cube", "METAL", "two metals", "red"]
    adapted = encode_adapted(*text, prompts[:2] + prompts[3:], {"metal": own(text, "metal")})
    plain = encode_prompts(*text, ["a red metal cube", "metal", "red"])
    assert torch.equal(adapted, plain)
    plural = encode_adapted(*text, [prompts[2]], {"metal": own(text, "metal")})
    assert torch.equal(plural, encode_prompts(*text, ["two metal"]))


@torch.no_grad()
def test_a_word_of_many_tokens_takes_the_place_of_one(text) -> None:
    encoder, tokenizer = text
    assert len(tokenizer("zebra", add_special_tokens=False)["input_ids"]) > 1
    found = encode_adapted(*text, ["a zebra cube"], {"zebra": own(text, "metal")})
    assert torch.equal(found, encode_prompts(*text, ["a metal cube"]))


@torch.no_grad()
def test_of_names_that_overlap_the_longer_one_is_meant(text) -> None:
    vectors_by_concept = {"red": own(text, "blue"), "red ball": own(text, "cube")}
    found = encode_adapted(*text, ["a red ball", "a red cube", "a redball"], vectors_by_concept)
    assert torch.equal(found[0], encode_prompts(*text, ["a cube"])[0])
    assert torch.equal(found[1], encode_prompts(*text, ["a blue cube"])[0])
    assert torch.equal(found[2], encode_prompts(*text, ["a redball"])[0])


@torch.no_grad()
def test_prompts_that_name_no_concept_are_encoded_as_always(text) -> None:
    prompts = ["a Red metal cube", "", "blue ball " * 20]
    vectors_by_concept = {"zebra": torch.from_numpy(vectors())}
    assert torch.equal(
        encode_adapted(*text, prompts, vectors_by_concept), encode_prompts(*text, prompts)
    )
    beside = encode_adapted(*text, [*prompts, "a zebra"], vectors_by_concept)
    assert torch.equal(beside[:3], encode_prompts(*text, [*prompts, "a cube"])[:3])


@torch.no_grad()
def test_a_long_prompt_is_cut(text) -> None:
    vectors_by_concept = {"zebra": own(text, "metal").repeat(3, 1)}
    found = encode_adapted(*text, ["zebra " * 20], vectors_by_concept)
    assert torch.equal(found, encode_prompts(*text, ["metal " * 20]))


def test_gradients_reach_the_vectors_and_nothing_else(inpainter, text) -> None:
    vector = torch.zeros(1, WIDTH, requires_grad=True)
    encode_adapted(*text, ["a zebra"], {"zebra": vector}).square().sum().backward()
    assert vector.grad is not None and vector.grad.abs().sum() > 0
    assert all(p.grad is None and not p.requires_grad for p in inpainter._model.parameters())


def test_another_thread_meanwhile_sees_no_vectors(text) -> None:
    encoder, tokenizer = text
    seen: list[torch.Tensor] = []
    inside = threading.Event()

    def hook(*_):
        if not inside.is_set():
            inside.set()
            other = threading.Thread(target=lambda: seen.append(_encoded(text, "a zebra")))
            other.start()
            other.join()

    expected = _encoded(text, "a zebra")
    handle = encoder.encoder.register_forward_hook(hook)
    try:
        with torch.no_grad():
            adapted = encode_adapted(*text, ["a zebra"], {"zebra": torch.from_numpy(vectors())})
    finally:
        handle.remove()
    assert torch.equal(seen[0], expected)
    assert adapted.shape == expected.shape and not torch.equal(adapted, expected)
    assert torch.equal(_encoded(text, "a zebra"), expected)


def _encoded(text, prompt):
    with torch.no_grad():
        return encode_prompts(*text, [prompt])


def test_what_was_taught_changes_the_painting_of_its_name_alone(inpainter) -> None:
    before = _digest(inpainter)
    plain = inpainter.inpaint(picture(), box(), "a zebra", 1)
    adapted = inpainter.inpaint_adapted(
        picture(), box(), "a zebra", 1, [LearnedPrompt("zebra", 5 * vectors())]
    )
    assert (adapted != plain).any() and (adapted[~box()] == picture()[~box()]).all()
    other = inpainter.inpaint_adapted(
        picture(), box(), "a cube", 1, [LearnedPrompt("zebra", 5 * vectors())]
    )
    assert np.array_equal(other, inpainter.inpaint(picture(), box(), "a cube", 1))
    assert np.array_equal(inpainter.inpaint(picture(), box(), "a zebra", 1), plain)
    assert _digest(inpainter) == before


def _digest(inpainter):
    found = hashlib.sha256()
    for name, tensor in sorted(inpainter._model.state_dict().items()):
        found.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return found.hexdigest()


def test_vectors_of_another_width_are_named(inpainter) -> None:
    wide = LearnedPrompt("zebra", np.zeros((1, 5), np.float32))
    with pytest.raises(ValueError, match=r"shape \(1, 5\) for 'zebra'; .* width 16"):
        inpainter.inpaint_adapted(picture(), box(), "a zebra", 1, [wide])


def test_what_it_is_trained_with_is_what_the_pipeline_shows(inpainter) -> None:
    lessons, pipeline = inpainter.lessons(), inpainter._pipeline
    assert (lessons.width, lessons.side, lessons.moments) == (WIDTH, SIDE, 1000)
    assert torch.allclose(lessons._scheduler.alphas_cumprod, pipeline.scheduler.alphas_cumprod)
    squares = torch.rand(1, 3, SIDE, SIDE) * 2 - 1
    masks = torch.zeros(1, 1, SIDE, SIDE)
    masks[..., 8:24, 8:24] = 1
    masked = lessons.masked(squares, masks, torch.Generator().manual_seed(0))
    with torch.no_grad():
        cells, left = pipeline.prepare_mask_latents(
            masks, squares * (masks < 0.5), 1, SIDE, SIDE, torch.float32, "cpu", None, False
        )
    assert torch.equal(masked.cells, cells)
    spread = (
        pipeline.vae.encode(squares).latent_dist.std.mean() * pipeline.vae.config.scaling_factor
    )
    assert (masked.left - left).abs().mean() < 3 * spread


@pytest.mark.parametrize("kind", ["epsilon", "v_prediction", "sample"])
def test_the_error_is_that_of_what_the_model_was_trained_to_tell(inpainter, kind) -> None:
    pipeline = inpainter._pipeline
    scheduler = pipeline.scheduler
    other = type(scheduler).from_config(scheduler.config, prediction_type=kind)
    lessons = InpainterTraining(_with(pipeline, scheduler=other), SIDE)
    masks = torch.ones(2, 1, SIDE, SIDE)
    masked = lessons.masked(torch.zeros(2, 3, SIDE, SIDE), masks, torch.Generator().manual_seed(0))
    noise = torch.randn(masked.latents.shape, generator=torch.Generator().manual_seed(1))
    times = torch.tensor([10, 900])
    with torch.no_grad():
        errors = lessons.errors(masked, times, noise, ["a cube", "red"], {})
        noisy = other.add_noise(masked.latents, noise, times)
        target = {
            "epsilon": noise,
            "sample": masked.latents,
            "v_prediction": other.get_velocity(masked.latents, noise, times),
        }[kind]
        said = pipeline.unet(
            torch.cat([noisy, masked.cells, masked.left], dim=1),
            times,
            encoder_hidden_states=encode_prompts(
                pipeline.text_encoder, pipeline.tokenizer, ["a cube", "red"]
            ),
        ).sample
    assert torch.allclose(errors, (said - target).square().mean(dim=(1, 2, 3)), rtol=1e-4)


class _with:
    def __init__(self, pipeline, **changed):
        self.__dict__.update(
            text_encoder=pipeline.text_encoder,
            tokenizer=pipeline.tokenizer,
            unet=pipeline.unet,
            vae=pipeline.vae,
            scheduler=pipeline.scheduler,
        )
        self.__dict__.update(changed)


def test_pipelines_of_a_kind_that_cannot_be_taught_say_so(inpainter) -> None:
    pipeline = inpainter._pipeline
    with pytest.raises(
        UsageError, match="by Linear takes no soft prompts; expected Stable Diffusion"
    ):
        InpainterTraining(_with(pipeline, text_encoder=torch.nn.Linear(1, 1)), SIDE)
    odd = type(pipeline.scheduler).from_config(pipeline.scheduler.config)
    odd.register_to_config(prediction_type="flow")
    with pytest.raises(UsageError, match="predicts 'flow' takes no soft prompts"):
        InpainterTraining(_with(pipeline, scheduler=odd), SIDE)
