"""The embedded matcher: a CLIP model of open_clip with a small convolutional tower from timm.

It is trained on crops of objects against phrases that name some of their attributes. A loss within
each attribute family keeps rare distinctions (material, shape) from drowning in the easy one
(colour).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from viper.models.vision.matcher_open_clip import OpenClipMatcher
from viper.models.vision.roles import Matcher
from viper.tools.crops import DEFAULT_MARGIN, object_crop
from viper_lab.recipes.object_views import ObjectViews, recoloured, to_input, training_crop
from viper_lab.recipes.object_words import (
    FAMILIES,
    GENERAL_NOUNS,
    attribute_ids,
    attributes,
    fits,
    phrase,
    some_attributes,
)
from viper_lab.recipes.optim import FitOptions, TrainOptions, fit
from viper_lab.recipes.wordpieces import CLIP_MARKS, word_tokenizer
from viper_lab.world.vocabulary import HELD_OUT_COMBINATIONS

_CONFIG = tomllib.loads(Path(__file__).with_name("matcher.toml").read_text("utf-8"))

IMAGE_SIZE: int = _CONFIG["model_cfg"]["vision_cfg"]["image_size"]
CONTEXT: int = _CONFIG["model_cfg"]["text_cfg"]["context_length"]
STEPS = 1300
# Objects of a batch: in their own colours with a phrase each, and in exchanged colours.
CROPS, RECOLOURED = 40, 24

# Random phrases of a batch that need not fit any crop.
DISTRACTORS = 24

# Sentence frames of a phrase.
FRAMES = ("{}", "{}", "a {}", "the {}", "a photo of a {}", "a picture of a {}", "this is a {}")

FRAME_WORDS = ("a", "the", "photo", "picture", "of", "this", "is", "made", "an", "and", "with")


def train(options: TrainOptions) -> dict[str, float]:
    """Train on rendered stills, write the weights, and return the validation figures."""
    torch.manual_seed(options.seed)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer).to(options.device)
    views = ObjectViews.load("train", options.work)
    word_texts = [word for words in FAMILIES.values() for word in words]
    bounds = np.cumsum([0, *(len(words) for words in FAMILIES.values())])

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed, step))
        batch = [views.pick(rng) for _ in range(CROPS + RECOLOURED)]
        crops = [training_crop(views, view, IMAGE_SIZE, rng) for view in batch]
        crops[CROPS:] = [recoloured(crop, rng) for crop in crops[CROPS:]]
        words = [_frame(word, family, rng) for family in FAMILIES for word in FAMILIES[family]]
        named = [some_attributes(view.thing, rng) for view in batch[:CROPS]]
        named += [_random_attributes(rng) for _ in range(DISTRACTORS)]
        texts = words + [_framed_phrase(each, rng) for each in named]
        images = model.encode_image(to_input(np.stack(crops), options.device), normalize=True)
        tokens = tokenizer(texts, padding="max_length", max_length=CONTEXT, truncation=True)
        ids = torch.tensor(tokens["input_ids"], device=options.device)
        embedded = model.encode_text(ids, normalize=True)
        logits = model.logit_scale.exp() * images @ embedded.T
        ids = torch.tensor([attribute_ids(view.thing) for view in batch], device=options.device)
        families = []
        for k, family in enumerate(FAMILIES):
            rows = slice(CROPS if family == "colour" else None)
            words_of_family = logits[rows, bounds[k] : bounds[k + 1]]
            families.append(torch.nn.functional.cross_entropy(words_of_family, ids[rows, k]))
        matches = torch.tensor(
            [[fits(view.thing, names) for names in named] for view in batch[:CROPS]],
            dtype=torch.float32,
            device=options.device,
        )
        contrast = _contrast(logits[:CROPS, len(word_texts) :], matches)
        loss = torch.stack(families).sum() + contrast
        figures = dict(zip(FAMILIES, (float(value.detach()) for value in families), strict=True))
        return loss, figures | {"contrast": float(contrast.detach())}

    plan = FitOptions(steps=options.steps or STEPS, learning_rate=2e-3, weight_decay=0.05, ema=None)
    fit(model, loss_at, plan, options.work / "matcher" / "checkpoint.pt")
    save(model, tokenizer, options.out)
    return evaluate(
        OpenClipMatcher.from_pretrained(options.out), ObjectViews.load("val", options.work)
    )


def evaluate(
    matcher: Matcher, views: ObjectViews, limit: int = 1500, margin: float = DEFAULT_MARGIN
) -> dict[str, float]:
    """Return the accuracy of choosing each attribute's word and the full phrase for a crop.

    Args:
        matcher: the model under test.
        views: objects to use, e.g. of the test split.
        limit: maximum number of objects.
        margin: context around a box.
    """
    chosen = views.spread(limit)
    crops = [object_crop(views.image(view), view.box, margin) for view in chosen]
    images = matcher.encode_images(crops)
    figures = {"n": float(len(chosen))}
    for family, words in FAMILIES.items():
        picked = (images @ matcher.encode_texts(words).T).argmax(axis=1)
        right = [
            attributes(v.thing)[family] == words[i] for v, i in zip(chosen, picked, strict=True)
        ]
        figures[family] = float(np.mean(right))
    phrases = sorted({view.thing.phrase for view in chosen})
    picked = (images @ matcher.encode_texts(phrases).T).argmax(axis=1)
    right = [v.thing.phrase == phrases[i] for v, i in zip(chosen, picked, strict=True)]
    figures["full_phrase"] = float(np.mean(right))
    return figures | {"phrases": float(len(phrases))}


def build_tokenizer() -> Any:
    """Build the tokenizer: words of the world, single letters for the rest."""
    words = [word for family in FAMILIES.values() for word in family]
    plurals = [f"{word}s" for word in FAMILIES["shape"]]
    return word_tokenizer([*words, *plurals, *GENERAL_NOUNS, *FRAME_WORDS], CLIP_MARKS)


def build_model(tokenizer: Any) -> Any:
    """Build an untrained ``open_clip.CLIP`` of :func:`model_config`."""
    from open_clip.model import CLIP

    config = model_config(tokenizer)
    text = {key: value for key, value in config["text_cfg"].items() if key != "hf_tokenizer_name"}
    return CLIP(config["embed_dim"], config["vision_cfg"], text)


def model_config(tokenizer: Any) -> dict[str, Any]:
    """Return the model as open_clip's ``model_cfg``."""
    config: dict[str, Any] = _CONFIG["model_cfg"]
    return {**config, "text_cfg": {**config["text_cfg"], "vocab_size": len(tokenizer)}}


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write the folder that ``open_clip.create_model("local-dir:…")`` loads, in half precision."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    state = {
        name: (value.half() if value.is_floating_point() else value).cpu().contiguous()
        for name, value in model.state_dict().items()
    }
    save_file(state, folder / "open_clip_model.safetensors")
    config = {**_CONFIG, "model_cfg": model_config(tokenizer)}
    (folder / "open_clip_config.json").write_text(json.dumps(config, indent=2) + "\n")
    tokenizer.save_pretrained(folder)


def _frame(word: str, family: str, rng: np.random.Generator) -> str:
    """Return an attribute word in a random form: bare, with a general noun, or in a sentence."""
    draw = rng.random()
    if draw < 0.4:
        return word
    if family == "material" and draw < 0.55:
        return f"made of {word}"
    return _framed_phrase({family: word}, rng)


def _framed_phrase(words: Mapping[str, str], rng: np.random.Generator) -> str:
    noun = str(rng.choice(GENERAL_NOUNS)) if rng.random() < 0.7 else None
    frame = FRAMES[int(rng.integers(len(FRAMES)))]
    return frame.format(phrase(words, noun, rng if rng.random() < 0.3 else None))


def _random_attributes(rng: np.random.Generator) -> dict[str, str]:
    """Draw the words of a random phrase, which is wrong for most crops of a batch.

    Held-out pairs are left out: always wrong in training, they would be learned as wrong.
    """
    words = {family: str(rng.choice(choices)) for family, choices in FAMILIES.items()}
    while (words["colour"], words["shape"]) in HELD_OUT_COMBINATIONS:
        words["colour"] = str(rng.choice(FAMILIES["colour"]))
    subset = {family: word for family, word in words.items() if rng.random() < 0.7}
    return subset or words


def _contrast(logits: Tensor, fits: Tensor) -> Tensor:
    """Return softmax losses in both directions; the target is spread evenly over all matches."""
    by_image = fits / fits.sum(dim=1, keepdim=True).clamp(min=1)
    by_text = fits / fits.sum(dim=0, keepdim=True).clamp(min=1)
    to_text = -(by_image * logits.log_softmax(dim=1)).sum() / max(len(logits), 1)
    to_image = -(by_text * logits.log_softmax(dim=0)).sum() / (fits.sum(dim=0) > 0).sum()
    return 0.5 * (to_text + to_image)
