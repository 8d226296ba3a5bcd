"""The embedded video model: described events located in clips.

Windows alone would teach the attention too slowly. So the true boxes guide the attention of both
object queries, and words and objects must predict their colour and shape.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from viper.embedded.video_events import VideoEvents
from viper.embedded.video_events_model import (
    EventOutput,
    TextFeatures,
    VideoEventsConfig,
    VideoEventsModel,
)
from viper.models.vision.roles import EventWindow, VideoModel
from viper_lab.recipes.optim import FitOptions, TrainOptions, fit, save_half
from viper_lab.recipes.video_looks import learn_looks
from viper_lab.recipes.video_texts import NOWHERE, ClipText, claims, words
from viper_lab.recipes.wordpieces import CLIP_MARKS, token_ids, word_tokenizer
from viper_lab.world.clips import Clip, ClipStore, render_clip, sample_clip
from viper_lab.world.events import TEMPLATES, event_phrase
from viper_lab.world.motion import WINDOW_FRAMES
from viper_lab.world.scene import CLIP_FRAMES, CLIP_HEIGHT, CLIP_WIDTH, ClipEvent, RenderedClip
from viper_lab.world.vocabulary import COLOURS, SHAPES

CLIPS, BATCH, TEXTS, STEPS = 2200, 4, 14, 1000
CELL = 8
_TEXT = tomllib.loads(Path(__file__).with_name("video.toml").read_text("utf-8"))["text"]
# Threshold that balances precision and recall of the described events on validation clips.
PRESENCE_THRESHOLD = 0.3

Floats = NDArray[np.float32]


def train(options: TrainOptions) -> dict[str, float]:
    """Train on stored clips, write the weights, and return the validation figures."""
    model, tokenizer = learn(options)
    save_half(model, options.out, tokenizer)
    return evaluate(VideoEvents.from_pretrained(options.out, device=options.device), "val", 100)


def learn(options: TrainOptions) -> tuple[Any, Any]:
    """Train the model and return it with its tokenizer; resume from ``options.work``."""
    torch.manual_seed(options.seed)
    tokenizer = build_tokenizer()
    model: Any = build_model(tokenizer)
    model.to(options.device)
    store = ClipStore(options.work / "clips", "train")
    store.prepare(CLIPS)

    def loss_at(step: int) -> tuple[Tensor, Mapping[str, float]]:
        rng = np.random.default_rng((options.seed, step))
        order = np.random.default_rng((options.seed, 77, step * BATCH // CLIPS)).permutation(CLIPS)
        where = step * BATCH % CLIPS
        clips = [varied(store[int(i)], rng) for i in order[where : where + BATCH]]
        return batch_loss(model, tokenizer, clips, rng, options.device)

    plan = FitOptions(
        steps=options.steps or STEPS, learning_rate=2e-3, warmup=60, ema=0.995, log_every=20
    )
    trained = fit(model, loss_at, plan, options.work / "video" / "checkpoint.pt")
    trained.requires_grad_(True)
    return learn_looks(trained, options.work / "video", options.seed), tokenizer


def build_tokenizer() -> Any:
    """Build the tokenizer: words of the world, letters for the rest, in CLIP's layout."""
    return word_tokenizer(words(), CLIP_MARKS)


def build_model(tokenizer: Any) -> VideoEventsModel:
    """Build an untrained model whose description bank names every colour and shape."""
    return VideoEventsModel(
        VideoEventsConfig(
            text_config={**_TEXT, **token_ids(tokenizer)},
            image_width=CLIP_WIDTH,
            image_height=CLIP_HEIGHT,
            colours=list(COLOURS),
            shapes=list(SHAPES),
            templates={kind: group[0] for kind, group in TEMPLATES.items()},
            presence_threshold=PRESENCE_THRESHOLD,
            rival_frames=float(WINDOW_FRAMES),
        )
    )


def varied(clip: RenderedClip, rng: np.random.Generator) -> RenderedClip:
    """Return the clip, mirrored half of the time, with changed brightness."""
    frames, boxes = clip.frames, clip.boxes
    if rng.random() < 0.5:
        frames = frames[:, :, ::-1]
        boxes = boxes.copy()
        boxes[..., [0, 2]] = CLIP_WIDTH - boxes[..., [2, 0]]
    levels = np.arange(256) * rng.uniform(0.9, 1.1) + rng.uniform(-8, 8)
    frames = np.ascontiguousarray(np.clip(levels, 0, 255).astype(np.uint8)[frames])
    return RenderedClip(clip.objects, frames, boxes, clip.events, clip.seed)


def coverage(boxes: Floats) -> Floats:
    """Return the cells that boxes cover, as shares that sum to 1; all 0 for a box that is NaN.

    Args:
        boxes: [..., 4], pixels (x0, y0, x1, y1) from the top-left corner.

    Returns:
        float32 [..., S], cells row by row.
    """

    def spans(low: Floats, high: Floats, cells: int) -> Floats:
        edges = np.arange(cells, dtype=np.float32) * CELL
        inner = np.minimum(high[..., None], edges + CELL) - np.maximum(low[..., None], edges)
        return np.maximum(inner, 0).astype(np.float32)

    there = np.nan_to_num(boxes, nan=0.0)
    across = spans(there[..., 0], there[..., 2], CLIP_WIDTH // CELL)
    down = spans(there[..., 1], there[..., 3], CLIP_HEIGHT // CELL)
    area = (down[..., :, None] * across[..., None, :]).reshape(*boxes.shape[:-1], -1)
    return area / np.maximum(area.sum(-1, keepdims=True), 1e-6)


def batch_loss(
    model: VideoEventsModel,
    tokenizer: Any,
    clips: Sequence[RenderedClip],
    rng: np.random.Generator,
    device: str = "cpu",
) -> tuple[Tensor, dict[str, float]]:
    """Return the loss of a batch of equally long clips with fresh texts, and its parts by name."""
    texts = [claims(clip, rng, TEXTS) for clip in clips]
    flat = [claim for group in texts for claim in group]
    tokens = tokenizer([c.text for c in flat], padding=True, return_tensors="pt").to(device)
    frames = torch.from_numpy(np.stack([clip.frames for clip in clips])).to(device)
    features = model.tower(frames)
    about = model.encode_texts(tokens["input_ids"], tokens["attention_mask"])
    output = model(model.encode_clips(features), about)
    covers = [coverage(clip.boxes) for clip in clips]  # [T, N, S] each
    parts = {
        "window": _window_loss(output, texts),
        "attention": _attention_loss(output, texts, covers),
        "nouns": _noun_loss(model, about, flat),
        "looks": _looks_loss(model, features, clips, covers, rng),
    }
    truth = torch.tensor([[float(c.window is not None) for c in g] for g in texts], device=device)
    presence = torch.nn.functional.binary_cross_entropy_with_logits(output.presence, truth)
    parts["presence"] = presence
    weights = {"window": 0.5, "attention": 0.7, "nouns": 0.3, "looks": 0.5, "presence": 1.5}
    loss = sum(
        (weights[name] * part for name, part in parts.items()), torch.zeros((), device=device)
    )
    figures = {name: float(part.detach()) for name, part in parts.items()}
    figures["hit"] = float(((output.presence > 0) == (truth > 0.5)).float().mean())
    return loss, figures


def _window_loss(output: EventOutput, texts: Sequence[Sequence[ClipText]]) -> Tensor:
    """Return losses of first and last frame (if the event happens) and of the frames between."""
    events = [(b, m, c.window) for b, g in enumerate(texts) for m, c in enumerate(g) if c.window]
    rows = ([b for b, _, _ in events], [m for _, m, _ in events])
    inside = torch.zeros_like(output.inside)
    weight = torch.full_like(output.inside, 0.3)
    for b, m, (first, end) in events:
        inside[b, m, first:end] = 1
        weight[b, m] = 1
        weight[b, m, first:end] = 2
    device = inside.device
    firsts = torch.tensor([first for _, _, (first, _) in events], device=device)
    lasts = torch.tensor([end - 1 for _, _, (_, end) in events], device=device)
    frames = F.binary_cross_entropy_with_logits(output.inside, inside, weight)
    edges = F.cross_entropy(output.start[rows], firsts) + F.cross_entropy(output.end[rows], lasts)
    return 2 * frames + 0.5 * edges


def _attention_loss(
    output: EventOutput, texts: Sequence[Sequence[ClipText]], covers: Sequence[Floats]
) -> Tensor:
    """Return cross-entropy of each role's attention against its object's box, or "not in view"."""
    shape = output.attention.shape  # [B, M, 2, T, S + 1]
    target = np.zeros(shape, np.float32)
    weight = np.ones(shape[:4], np.float32)
    for b, group in enumerate(texts):
        for m, claim in enumerate(group):
            for role, index in enumerate(claim.objects):
                if index != NOWHERE:
                    target[b, m, role, :, :-1] = covers[b][:, index]
                elif claim.nouns[role][0] == len(COLOURS):
                    weight[b, m, role] = 0.2
    target[..., -1] = np.maximum(1 - target[..., :-1].sum(-1), 0)
    goal = torch.from_numpy(target).to(output.attention.device)
    surprise = -(goal * output.attention).sum(-1)
    scale = torch.from_numpy(weight).to(surprise.device)
    return (surprise * scale).sum() / scale.sum()


def _noun_loss(model: VideoEventsModel, about: TextFeatures, flat: Sequence[ClipText]) -> Tensor:
    """Return the loss of predicting colour and shape from the words of a role."""
    names = torch.tensor([claim.nouns for claim in flat], device=about.nouns.device)  # [N, 2, 2]
    nouns = about.nouns.flatten(0, 1)
    colour = F.cross_entropy(model.noun_colour(nouns), names[..., 0].flatten())
    return colour + F.cross_entropy(model.noun_shape(nouns), names[..., 1].flatten())


def _looks_loss(
    model: VideoEventsModel,
    features: Tensor,
    clips: Sequence[RenderedClip],
    covers: Sequence[Floats],
    rng: np.random.Generator,
) -> Tensor:
    """Return the loss of predicting colour and shape from features under an object's box."""
    frames = rng.choice(CLIP_FRAMES, 6, replace=False)
    pooled, colours, shapes = [], [], []
    for row, clip, cover in zip(features, clips, covers, strict=True):
        weights = torch.from_numpy(cover[frames]).to(row)  # [K, N, S]
        visible = weights.sum(-1) > 0.5
        pooled.append((weights @ row[frames])[visible])
        for _, i in visible.nonzero().tolist():
            colours.append(COLOURS.index(clip.objects[i].colour))
            shapes.append(SHAPES.index(clip.objects[i].shape))
    looks = torch.cat(pooled)
    colour = F.cross_entropy(model.seen_colour(looks), torch.tensor(colours, device=looks.device))
    shape = F.cross_entropy(model.seen_shape(looks), torch.tensor(shapes, device=looks.device))
    return colour + shape


def temporal_iou(window: EventWindow, event: ClipEvent) -> float:
    """Return overlap of two frame ranges over their union, in [0, 1]."""
    overlap = min(window.end, event.end) - max(window.start, event.start)
    union = max(window.end, event.end) - min(window.start, event.start)
    return max(0, overlap) / union


def evaluate(model: VideoModel, split: str, count: int, first: int = 0) -> dict[str, float]:
    """Score localisation and ranking of the events of ``count`` rendered clips from ``first`` on.

    ``temporal_iou`` is the mean IoU of the best window and the true one over all ``events`` (a
    missed one counts 0). ``right_object``: the true sentence scores above the same sentence about
    another object of the clip; ``right_kind``: above a sentence with an event that does not happen
    to the same object; ``who_hits_whom``: above the hit with swapped roles. ``described_precision``
    and ``described_recall`` compare the description of the whole clip with the events.
    """
    overlaps: list[float] = []
    wins: dict[str, list[bool]] = {"right_object": [], "right_kind": [], "who_hits_whom": []}
    described = true = both = 0
    for index in range(first, first + count):
        clip = sample_clip(split, index)
        encoding = model.encode(render_clip(clip).frames)
        for event in clip.events:
            windows = model.locate(encoding, event_phrase(event, clip.objects))
            overlaps.append(temporal_iou(windows[0], event) if windows else 0.0)
            score = _score(windows)
            for name, rival in rivals(clip, event):
                text = event_phrase(rival, clip.objects)
                wins[name].append(score > _score(model.locate(encoding, text)))
        parts = model.describe(encoding, 0, CLIP_FRAMES).split(".")
        sentences = {part.strip() for part in parts if part.strip()}
        facts = {event_phrase(event, clip.objects) for event in clip.events}
        described += len(sentences)
        true += len(facts)
        both += len(sentences & facts)
    return {
        "temporal_iou": float(np.mean(overlaps)),
        "events": float(len(overlaps)),
        "found_at_half": float(np.mean(np.array(overlaps) >= 0.5)),
        **{name: float(np.mean(right)) for name, right in wins.items()},
        "described_precision": both / max(1, described),
        "described_recall": both / max(1, true),
    }


def rivals(clip: Clip, event: ClipEvent) -> list[tuple[str, ClipEvent]]:
    """Return untrue events of the clip, one of each possible sort, to rank against a true one."""
    facts = {(e.kind, e.actor, e.target) for e in clip.events}

    def untrue(candidates: Sequence[ClipEvent]) -> list[ClipEvent]:
        return [e for e in candidates if (e.kind, e.actor, e.target) not in facts][:1]

    others = [i for i in range(len(clip.objects)) if i not in (event.actor, event.target)]
    kinds = [kind for kind in ("start", "stop", "appear", "fall") if kind != event.kind]
    turn = event.start % len(kinds)
    swapped = []
    if event.target is not None:
        swapped = [replace(event, actor=event.target, target=event.actor)]
    sorts = {
        "right_object": untrue([replace(event, actor=i) for i in others]),
        "right_kind": untrue(
            [replace(event, kind=k, target=None) for k in [*kinds[turn:], *kinds[:turn]]]
        ),
        "who_hits_whom": untrue(swapped),
    }
    return [(name, rival) for name, events in sorts.items() for rival in events]


def _score(windows: Sequence[EventWindow]) -> float:
    return windows[0].score if windows else 0.0
