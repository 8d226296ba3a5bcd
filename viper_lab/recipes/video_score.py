"""How well a video model finds the events of rendered clips."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from viper.models.vision.roles import EventWindow, VideoModel
from viper_lab.world.clips import Clip, render_clip, sample_clip
from viper_lab.world.events import event_phrase
from viper_lab.world.scene import CLIP_FRAMES, ClipEvent


def temporal_iou(window: EventWindow, event: ClipEvent) -> float:
    """Overlap of two frame ranges over their union, in [0, 1]."""
    overlap = min(window.end, event.end) - max(window.start, event.start)
    union = max(window.end, event.end) - min(window.start, event.start)
    return max(0, overlap) / union


def evaluate(model: VideoModel, split: str, count: int, first: int = 0) -> dict[str, float]:
    """Localisation and ranking of the events of ``count`` rendered clips from ``first`` on.

    ``temporal_iou`` is the mean over all ``events`` (a missed one counts 0) of
    the best window against the true one. ``right_object``: the true sentence
    scores above the same of another object of the clip; ``right_kind``: above
    the same object doing what it does not; ``who_hits_whom``: above the hit with
    roles swapped. ``described_precision`` and ``described_recall`` compare the
    description of the whole clip with the events.
    """
    overlaps: list[float] = []
    found: dict[str, list[bool]] = {"right_object": [], "right_kind": [], "who_hits_whom": []}
    said = true = both = 0
    for index in range(first, first + count):
        clip = sample_clip(split, index)
        encoding = model.encode(render_clip(clip).frames)
        for event in clip.events:
            windows = model.locate(encoding, event_phrase(event, clip.objects))
            overlaps.append(temporal_iou(windows[0], event) if windows else 0.0)
            score = _score(windows)
            for name, rival in rivals(clip, event):
                text = event_phrase(rival, clip.objects)
                found[name].append(score > _score(model.locate(encoding, text)))
        sentences = set(re.findall(r"[^.]+", model.describe(encoding, 0, CLIP_FRAMES)))
        spoken = {sentence.strip() for sentence in sentences if sentence.strip()}
        facts = {event_phrase(event, clip.objects) for event in clip.events}
        said, true, both = said + len(spoken), true + len(facts), both + len(spoken & facts)
    return {
        "temporal_iou": float(np.mean(overlaps)),
        "events": float(len(overlaps)),
        "found_at_half": float(np.mean(np.array(overlaps) >= 0.5)),
        **{name: float(np.mean(right)) for name, right in found.items()},
        "described_precision": both / max(1, said),
        "described_recall": both / max(1, true),
    }


def rivals(clip: Clip, event: ClipEvent) -> list[tuple[str, ClipEvent]]:
    """Untrue events of the clip, one of each sort that there is, to rank a true one against."""
    facts = {(e.kind, e.actor, e.target) for e in clip.events}

    def untrue(candidates: Sequence[ClipEvent]) -> list[ClipEvent]:
        return [e for e in candidates if (e.kind, e.actor, e.target) not in facts][:1]

    others = [i for i in range(len(clip.objects)) if i not in (event.actor, event.target)]
    kinds = [kind for kind in ("start", "stop", "appear", "fall") if kind != event.kind]
    turn = event.start % len(kinds)
    swapped = [] if event.target is None else [_swapped(event)]
    sorts = {
        "right_object": untrue([replace(event, actor=i) for i in others]),
        "right_kind": untrue(
            [replace(event, kind=k, target=None) for k in [*kinds[turn:], *kinds[:turn]]]
        ),
        "who_hits_whom": untrue(swapped),
    }
    return [(name, rival) for name, found in sorts.items() for rival in found]


def _swapped(event: ClipEvent) -> ClipEvent:
    assert event.target is not None
    return replace(event, actor=event.target, target=event.actor)


def _score(windows: Sequence[EventWindow]) -> float:
    return windows[0].score if windows else 0.0
