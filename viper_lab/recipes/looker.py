"""The recipe of the embedded model that sees: it writes code on pixels and looks at the result.

A small LLaVA: a vision tower of 112 x 112 pixels, 64 tokens a picture, before a Llama. Both start
from random weights and are trained on drawn episodes in two stages, because a processor is all it
needs: first the tower learns to tell the facts about pictures that plans show (letters, digits,
turns), with heads that are dropped afterwards; then the Llama learns the replies over the tokens
of the finished tower, which are computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from viper_lab.recipes.looker_data import Episode, draw
from viper_lab.recipes.looker_model import CONFIG, PICTURE_TOKENS, build_model, build_processor
from viper_lab.recipes.optim import FitOptions, TrainOptions, fit, save_half
from viper_lab.world.fine.kinds import FACTS

_TRAINING = CONFIG["training"]

# Pictures are moved by up to this many pixels while the tower learns.
SHIFT = 6

# Limits in tokens between the parts of a batch.
LENGTHS = (0, 300, 450, 4_096)


def train(options: TrainOptions) -> dict[str, float]:
    """Train both stages, write the model's folder, and return figures on the last episodes."""
    torch.manual_seed(options.seed)
    processor = build_processor(options.seed)
    work = options.work / "looker"
    episodes = draw(work / "episodes", processor, options.seed, _TRAINING["episodes"])
    held_out = len(episodes) // 50
    model = build_model(processor.tokenizer)
    tower = model.model.vision_tower
    figures = _learn_to_see(tower, episodes, held_out, options)
    tower.requires_grad_(False)
    _learn_to_write(model, processor.tokenizer.pad_token_id, episodes[:-held_out], options)
    save_half(model, options.out, processor)
    return figures


def _learn_to_see(
    tower: Any, episodes: Sequence[Episode], held_out: int, options: TrainOptions
) -> dict[str, float]:
    """Train the tower in place; return the shares of right facts in the episodes held out."""
    width = CONFIG["vision"]["hidden_size"]
    heads = nn.ModuleDict(
        {name: nn.Linear(width * PICTURE_TOKENS, count) for name, count in FACTS.items()}
    )
    model = nn.ModuleDict({"tower": tower, "heads": heads})
    pictures, facts = _with_facts(episodes[:-held_out])
    batch = _TRAINING["pictures"]

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((1, options.seed, step))
        chosen = rng.integers(0, len(pictures), batch)
        images = _moved(_pixels(pictures[chosen]), rng)
        losses = _fact_losses(model, images, torch.from_numpy(facts[chosen]).long())
        total = torch.stack(list(losses.values())).sum()
        return total, {name: float(loss.detach()) for name, loss in losses.items()}

    steps = options.steps or _TRAINING["seeing_steps"]
    plan = FitOptions(steps, learning_rate=1e-3, weight_decay=0.05, ema=0.995)
    trained: Any = fit(model, loss_at, plan, options.work / "looker" / "seeing.pt")
    tower.load_state_dict(trained["tower"].state_dict())
    return _fact_scores(trained.eval(), *_with_facts(episodes[-held_out:]))


def _learn_to_write(
    model: Any, pad: int, episodes: Sequence[Episode], options: TrainOptions
) -> None:
    """Train the rest of the model in place over the tokens of the finished tower."""
    tower, image = model.model.vision_tower, model.config.image_token_id
    seen = [_seen(tower, each.pictures) for each in episodes]
    rest = nn.ModuleDict(
        {"projector": model.model.multi_modal_projector, "text": model.model.language_model}
    )
    language: Any = model.model.language_model

    def loss_of(part: Sequence[int]) -> Tensor:
        ids, labels = _padded([episodes[i] for i in part], pad)
        inputs = language.get_input_embeddings()(ids)
        features = torch.cat([seen[i].flatten(0, 1) for i in part]).float()
        if len(features):
            shown = model.model.multi_modal_projector(features)
            inputs = inputs.masked_scatter((ids == image)[..., None].expand_as(inputs), shown)
        hidden = language(
            inputs_embeds=inputs, attention_mask=(ids != pad).long()
        ).last_hidden_state
        targets = labels[:, 1:]
        logits = model.lm_head(hidden[:, :-1][targets != -100])
        return nn.functional.cross_entropy(logits, targets[targets != -100], reduction="sum")

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((2, options.seed, step))
        chosen = rng.integers(0, len(episodes), _TRAINING["batch"])
        parts = [
            [int(i) for i in chosen if low < len(episodes[i].tokens) <= high]
            for low, high in pairwise(LENGTHS)
        ]
        count = sum(int((episodes[i].labels != -100).sum()) for i in chosen)
        loss = torch.stack([loss_of(part) for part in parts if part]).sum() / count
        return loss, {"loss": float(loss.detach())}

    steps = options.steps or _TRAINING["writing_steps"]
    plan = FitOptions(steps, learning_rate=2e-3, weight_decay=0.05, ema=0.995)
    trained: Any = fit(rest, loss_at, plan, options.work / "looker" / "writing.pt")
    rest.load_state_dict(trained.state_dict())


def _with_facts(episodes: Sequence[Episode]) -> tuple[Any, Any]:
    """Return the pictures that have facts, ``uint8 [N, S, S, 3]``, and these, int8 [N, F]."""
    pictures = np.concatenate([one.pictures[(one.facts >= 0).any(axis=1)] for one in episodes])
    facts = np.concatenate([one.facts[(one.facts >= 0).any(axis=1)] for one in episodes])
    return pictures, facts


def _pixels(pictures: Any) -> Tensor:
    return torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 127.5 - 1


def _moved(images: Tensor, rng: np.random.Generator) -> Tensor:
    """Return the batch moved by some pixels; edges are repeated."""
    padded = nn.functional.pad(images, (SHIFT,) * 4, mode="replicate")
    x, y = rng.integers(0, 2 * SHIFT + 1, 2)
    side = images.shape[-1]
    return padded[..., y : y + side, x : x + side]


def _logits(model: Any, images: Tensor) -> dict[str, Tensor]:
    seen = model["tower"](images).last_hidden_state.flatten(1)
    return {name: head(seen) for name, head in model["heads"].items()}


def _fact_losses(model: Any, images: Tensor, facts: Tensor) -> dict[str, Tensor]:
    logits = _logits(model, images)
    return {
        name: nn.functional.cross_entropy(logits[name], facts[:, at], ignore_index=-1)
        for at, name in enumerate(FACTS)
        if (facts[:, at] >= 0).any()
    }


def _fact_scores(model: Any, pictures: Any, facts: Any) -> dict[str, float]:
    right: dict[str, list[bool]] = {name: [] for name in FACTS}
    for start in range(0, len(pictures), 100):
        part = slice(start, start + 100)
        with torch.no_grad():
            logits = _logits(model, _pixels(pictures[part]))
        for at, name in enumerate(FACTS):
            truth = facts[part, at]
            guesses = logits[name].argmax(dim=1).numpy()
            right[name] += [bool(hit) for hit in (guesses == truth)[truth >= 0]]
    return {name: float(np.mean(hits)) for name, hits in right.items() if hits}


def _seen(tower: Any, pictures: Any) -> Tensor:
    """Return the tower's tokens of pictures in half precision, [N, tokens, width]."""
    if not len(pictures):
        return torch.zeros(0, PICTURE_TOKENS, CONFIG["vision"]["hidden_size"]).half()
    with torch.no_grad():
        output = tower(_pixels(pictures), output_hidden_states=True)
    return output.hidden_states[-1].half()  # type: ignore[no-any-return]


def _padded(items: Sequence[Episode], pad: int) -> tuple[Tensor, Tensor]:
    longest = max(len(one.tokens) for one in items)
    ids = torch.full((len(items), longest), pad)
    labels = torch.full((len(items), longest), -100)
    for row, one in enumerate(items):
        ids[row, : len(one.tokens)] = torch.from_numpy(one.tokens)
        labels[row, : len(one.labels)] = torch.from_numpy(one.labels)
    return ids, labels
