"""How soft prompts enter a matcher, on tiny models of the published architectures."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from tests.models.vision.tiny_open_clip import RESNETS, TRANSFORMERS, WIDTH, digest, tiny_matcher
from viper.errors import UsageError
from viper.models.vision.adapter_matcher import TOKENS, places_in
from viper.models.vision.soft_prompts import LearnedPrompt

KINDS = RESNETS + TRANSFORMERS
made = cache(tiny_matcher)


@pytest.fixture(params=KINDS)
def matcher(request):
    return made(request.param)


def pictures(count=3):
    rng = np.random.default_rng(0)
    return [rng.integers(0, 255, (40, 36 + i, 3)).astype(np.uint8) for i in range(count)]


def prompt(matcher, seed=0, size=0.3):
    drawn = np.random.default_rng(seed).normal(size=matcher.places.shape)
    return (size * drawn).astype(np.float32)


def seen(matcher, vectors, count=3):
    with torch.no_grad():
        begun = matcher.run_stem(matcher.as_input(pictures(count)))
        return matcher.embed_from(begun, vectors).numpy()


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("clip-resnet", (4, 128)),
        ("timm-resnet", (4, 192)),
        ("clip-vit", (3 * TOKENS + 1, 16)),
        ("timm-vit", (3 * TOKENS + 1, 64)),
    ],
)
def test_a_prompt_is_as_wide_as_the_widest_place(kind, shape) -> None:
    matcher = made(kind)
    places = matcher.places
    assert places.shape == shape and places.tokens == (kind in TRANSFORMERS)
    used = places.used()
    assert used.shape == shape and used[-1].sum() == WIDTH
    assert [int(row.sum()) for row in used[: -1 : places.rows]] == list(places.widths)


def test_without_a_prompt_every_bit_is_as_it_came(matcher) -> None:
    assert np.array_equal(seen(matcher, None), matcher.encode_images(pictures()))


@pytest.mark.parametrize("kind", RESNETS)
def test_a_zero_prompt_changes_no_bit_where_rows_are_added(kind) -> None:
    matcher = made(kind)
    plain = matcher.encode_images(pictures())
    zero = np.zeros(matcher.places.shape, np.float32)
    assert np.array_equal(seen(matcher, torch.from_numpy(zero)), plain)
    adapted = matcher.encode_image_adapted(pictures()[0], [LearnedPrompt("egg", zero)])
    assert np.array_equal(adapted, matcher.encode_images(pictures(1))[0])
    text = matcher.encode_text_adapted("an egg", [LearnedPrompt("egg", zero)])
    np.testing.assert_allclose(text, matcher.encode_texts(["an egg"])[0], atol=1e-6)


def test_what_was_taught_is_seen_and_nothing_stays_behind(matcher) -> None:
    before, images, texts = digest(matcher), pictures(), ["an egg", "a cube"]
    plain = matcher.encode_images(images), matcher.encode_texts(texts)
    learned = [LearnedPrompt("egg", prompt(matcher))]
    image = matcher.encode_image_adapted(images[0], learned)
    text = matcher.encode_text_adapted("an egg", learned)
    for adapted, row in ((image, plain[0][0]), (text, plain[1][0])):
        assert adapted.shape == (WIDTH,) and adapted.dtype == np.float32
        assert np.linalg.norm(adapted) == pytest.approx(1, abs=1e-5)
        assert np.abs(adapted - row).max() > 1e-3
    assert np.array_equal(matcher.encode_images(images), plain[0])
    assert np.array_equal(matcher.encode_texts(texts), plain[1])
    assert digest(matcher) == before
    assert not any(layer._forward_hooks for layer in matcher.places.layers)


def test_training_sees_what_inference_sees(matcher) -> None:
    vectors = prompt(matcher)
    trained = seen(matcher, torch.from_numpy(vectors))
    for image, row in zip(pictures(), trained, strict=True):
        adapted = matcher.encode_image_adapted(image, [LearnedPrompt("egg", vectors)])
        np.testing.assert_allclose(adapted, row, atol=1e-5)


def test_each_picture_may_have_a_prompt_of_its_own(matcher) -> None:
    each = torch.from_numpy(np.stack([prompt(matcher, seed) for seed in range(3)]))
    own = seen(matcher, each)
    for number, vectors in enumerate(each):
        np.testing.assert_allclose(seen(matcher, vectors)[number], own[number], atol=1e-5)


def test_gradients_reach_what_is_looked_at_and_no_weight(matcher) -> None:
    vectors = torch.from_numpy(prompt(matcher)).requires_grad_()
    begun = matcher.run_stem(matcher.as_input(pictures()))
    found = matcher.embed_from(begun, vectors)[:, 0].sum()
    (found + matcher.places.text_row(vectors).sum()).backward()
    reached = vectors.grad != 0
    assert not reached[~matcher.places.used()].any()
    assert reached.any(dim=1).all()
    assert not any(p.requires_grad or p.grad is not None for p in matcher._model.parameters())


def test_prompts_of_several_concepts_work_together(matcher) -> None:
    one, other = (LearnedPrompt(name, prompt(matcher, i)) for i, name in enumerate(("egg", "pink")))
    image = pictures()[0]
    both = [matcher.encode_image_adapted(image, pair) for pair in ((one, other), (other, one))]
    np.testing.assert_allclose(*both, atol=1e-4)
    assert np.abs(both[0] - matcher.encode_image_adapted(image, [one])).max() > 1e-3
    text = matcher.encode_texts(["a pink egg"])[0] + one.vectors[-1, :WIDTH]
    text += other.vectors[-1, :WIDTH]
    found = matcher.encode_text_adapted("a pink egg", [one, other])
    np.testing.assert_allclose(found, text / np.linalg.norm(text), atol=1e-5)


def test_tokens_of_several_concepts_stand_in_their_layers() -> None:
    places = made("clip-vit").places
    prompts = [torch.full(places.shape, float(i)) for i in (1, 2)]
    for prompt_ in prompts:
        prompt_[:-1] += 10 * torch.arange(3).repeat_interleave(TOKENS)[:, None]
    layers = places.together(prompts)[:-1, 0].unflatten(0, (3, 2, TOKENS))
    assert layers.amin(-1).tolist() == layers.amax(-1).tolist() == [[1, 2], [11, 12], [21, 22]]


@pytest.mark.parametrize("kind", ["timm-resnet", "clip-vit"])
def test_half_precision_is_taught_too(kind) -> None:
    matcher = tiny_matcher(kind)
    learned = [LearnedPrompt("egg", prompt(matcher))]
    full = matcher.encode_image_adapted(pictures()[0], learned)
    matcher._model.bfloat16()
    half = matcher.encode_image_adapted(pictures()[0], learned)
    assert half.dtype == np.float32
    np.testing.assert_allclose(half, full, atol=5e-2)


def test_other_towers_and_other_shapes_are_named() -> None:
    with pytest.raises(
        UsageError, match="tower is a ConvNeXt takes no soft prompts; use .* a ResNet"
    ):
        places_in(tiny_matcher("timm-convnext")._model, WIDTH)
    odd = LearnedPrompt("egg", np.zeros((2, 5), np.float32))
    with pytest.raises(
        ValueError, match=r"shape \(2, 5\) for 'egg'; this matcher's are \(4, 192\)"
    ):
        made("timm-resnet").encode_image_adapted(pictures()[0], [odd])
