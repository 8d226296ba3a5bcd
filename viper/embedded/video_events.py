"""Events in a clip by :class:`~viper.embedded.video_events_model.VideoEventsModel`.

``encode`` runs the tower once per clip. ``locate`` scores the text of an event in every frame and
picks windows (:func:`candidate_windows`). ``describe`` names the objects in view, scores every
sentence that the bank can compose about them, drops rivals, and keeps what the question asks about
(:func:`bearing_on`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from viper.models.libraries import functional, torch
from viper.models.loading import Checkpoint
from viper.models.vision.roles import EventWindow, Floats, Pixels
from viper.models.vision.video_windows import MIN_SCORE, NOTHING
from viper.storage.cache import RecentTexts

if TYPE_CHECKING:
    from viper.embedded.video_events_model import ClipFeatures, EventOutput, TextFeatures

# Shortest and longest event window. The world marks 5 frames for every event; predicted ends may be
# off by some.
MIN_FRAMES, MAX_FRAMES = 2, 12

# Candidates of one event; a clip has 2 to 4 objects, so an event rarely happens more often.
MAX_WINDOWS = 4

# Texts in one forward pass, which bounds the memory of their attention over frames and cells.
TEXTS_AT_ONCE = 64

# Windows that overlap more (IoU) are the same event: their ends are uncertain by a frame or two.
SAME_EVENT = 0.3


@dataclass
class ClipEncoding:
    """Encoding of a clip.

    ``frames`` are uint8 [T, H, W, 3] at the model's own size. ``events`` are those listed so far,
    by the names in the question.
    """

    features: ClipFeatures
    frames: Any
    events: dict[frozenset[str], list[SeenEvent]] = field(default_factory=dict)


class VideoEvents(Checkpoint):
    """A ``VideoModel`` for objects and events of its training world.

    Descriptions are retrieved: every sentence that the configuration's bank can compose about the
    objects in view is scored, and those above a threshold are listed.
    """

    network = "viper.embedded.video_events_model:VideoEventsModel"
    readers = ("transformers:PreTrainedTokenizerFast",)
    takes_names = True

    def __init__(self, model: Any, tokenizer: Any, name: str) -> None:
        super().__init__(model, tokenizer, name)
        self._texts = RecentTexts[Any]()
        config = self._model.config
        self._names = [f"{colour} {shape}" for colour in config.colours for shape in config.shapes]

    def encode(self, frames: Pixels) -> ClipEncoding:
        """Return the encoding of a clip ``uint8 [T, H, W, 3]`` of any size and length."""
        config = self._model.config
        with torch.inference_mode():
            size = (config.image_height, config.image_width)
            sized = torch.from_numpy(np.array(frames))  # torch rejects read-only arrays
            if sized.shape[1:3] != size:
                how: dict[str, Any] = {"mode": "bilinear", "antialias": True}
                pieces = []
                for piece in sized.split(8):  # all floats of large frames would fill memory
                    floats = piece.permute(0, 3, 1, 2).float()
                    pieces.append(functional.interpolate(floats, size, **how))
                whole = torch.cat(pieces).round().clamp(0, 255).to(torch.uint8)
                sized = whole.permute(0, 2, 3, 1).contiguous()
            sized = sized.to(self._model.device)
            features = self._model.encode_clips(self._model.tower(sized[None]))
            return ClipEncoding(features, sized)

    def locate(self, encoding: ClipEncoding, event: str) -> list[EventWindow]:
        """Return candidate windows of the described event, best first, down to score .01.

        The best window's score is the probability that the event happens at all. The others' scores
        are that probability times their likelihood relative to the best.
        """
        return self._windows(encoding, [event])[0]

    def describe(
        self,
        encoding: ClipEncoding,
        start: int,
        end: int,
        question: str | None = None,
        names: Sequence[str] = (),
    ) -> str:
        """Return the events whose middle is in frames ``[start, end)``, in order of time.

        E.g. ``the red cube hits the blue ball. the blue ball starts moving.`` A question selects
        among them, see :func:`~viper.embedded.video_events.bearing_on`. The objects that it
        names are assumed to be in the clip, and so are those in the texts ``names``.
        """
        text = (question or "").lower()
        words = " ; ".join((text, *names)).lower()
        named = frozenset(name for name in self._names if name in words)
        if named not in encoding.events:
            encoding.events[named] = self._all_events(encoding, named)
        events = [event for event in encoding.events[named] if start <= event.middle < end]
        events = bearing_on(text, events, self._names, self._model.config.templates)
        return " ".join(f"{event.text}." for event in events) or NOTHING

    def _all_events(self, encoding: ClipEncoding, named: Collection[str]) -> list[SeenEvent]:
        """Return every sentence of the bank that fits the clip, by time; one per window, kind
        and actor.
        """
        from viper.embedded.video_events_model import names_in_view

        config = self._model.config
        with torch.inference_mode():
            texts = self._text_features([f"the {name}" for name in self._names])
            attention = self._model.attend(encoding.features, texts)[0, :, 0]
            names = names_in_view(self._model, encoding.frames, attention, self._names, named)
        claims = [
            (template.format(a=f"the {actor}", b=f"the {target}"), kind, actor, target)
            for kind, template in config.templates.items()
            for actor in names
            for target in (names if "{b}" in template else [""])
            if actor != target
        ]
        fitting = []
        windows = self._windows(encoding, [claim[0] for claim in claims])
        for claim, candidates in zip(claims, windows, strict=True):
            if candidates and candidates[0].score >= config.presence_threshold:
                fitting.append(SeenEvent(*claim, candidates[0]))
        events = without_rivals(fitting, config.rival_frames)
        # A hit precedes the start that it causes, whose window opens during the hit.
        return sorted(events, key=lambda e: (e.window.start, e.window.end, not e.target))

    def _windows(self, encoding: ClipEncoding, events: Sequence[str]) -> list[list[EventWindow]]:
        windows: list[list[EventWindow]] = []
        with torch.inference_mode():
            for first in range(0, len(events), TEXTS_AT_ONCE):
                texts = self._text_features(events[first : first + TEXTS_AT_ONCE])
                output: EventOutput = self._model(encoding.features, texts)
                scores = output.presence[0].sigmoid().tolist()
                starts = output.start[0].log_softmax(-1).float().cpu().numpy()
                ends = output.end[0].log_softmax(-1).float().cpu().numpy()
                windows += map(candidate_windows, starts, ends, scores)
        return windows

    def _text_features(self, texts: Sequence[str]) -> TextFeatures:
        """Return features of the texts in order; those of recent texts are cached."""
        from viper.embedded.video_events_model import TextFeatures

        rows = self._texts.get(texts, self._encoded_texts)
        return TextFeatures(*(torch.stack(part) for part in zip(*rows, strict=True)))

    def _encoded_texts(self, texts: list[str]) -> list[tuple[Any, ...]]:
        encoded = self._model.encode_texts(**self._text_inputs(self._processor, texts))
        # Copies: a row of the batch would keep the whole batch in memory.
        return [tuple(part[row].clone() for part in encoded) for row in range(len(texts))]


def candidate_windows(starts: Floats, ends: Floats, presence: float) -> list[EventWindow]:
    """Return up to :data:`MAX_WINDOWS` windows that hardly overlap, best first.

    Args:
        starts: float32 [T], log-probability of each frame to be the first.
        ends: float32 [T], the same for the last (inclusive).
        presence: probability that there is such a window at all.
    """
    joint = starts[:, None] + ends[None, :]
    start, end = np.arange(len(starts))[:, None], np.arange(len(ends))[None, :]
    length = end - start + 1
    allowed = (length >= min(MIN_FRAMES, len(starts))) & (length <= MAX_FRAMES)
    joint = np.where(allowed, joint, -np.inf)
    windows: list[EventWindow] = []
    best = float(joint.max(initial=-np.inf))
    while len(windows) < MAX_WINDOWS and np.isfinite(joint).any():
        first, last = (int(v) for v in np.unravel_index(np.argmax(joint), joint.shape))
        score = presence * float(np.exp(joint[first, last] - best))
        if score < MIN_SCORE:
            break
        windows.append(EventWindow(first, last + 1, score))
        shared = np.minimum(end, last) - np.maximum(start, first) + 1
        union = np.maximum(end, last) - np.minimum(start, first) + 1
        joint[shared > SAME_EVENT * union] = -np.inf
    return windows


def without_rivals(events: Iterable[SeenEvent], frames: float) -> list[SeenEvent]:
    """Return the events without those that have a likelier one of the same kind within
    ``frames``.
    """
    likeliest: list[SeenEvent] = []
    for event in sorted(events, key=lambda e: -e.window.score):
        rivals = (k for k in likeliest if k.kind == event.kind)
        if all(abs(rival.middle - event.middle) >= frames for rival in rivals):
            likeliest.append(event)
    return likeliest


@dataclass(frozen=True)
class SeenEvent:
    """Sentence of a description bank that fits a clip.

    ``actor`` and ``target`` are names without article. ``target`` is empty if the kind of event has
    none.
    """

    text: str
    kind: str
    actor: str
    target: str
    window: EventWindow

    @property
    def middle(self) -> float:
        """Return the middle of the event, in frames."""
        return (self.window.start + self.window.end) / 2


def bearing_on(
    question: str, events: Sequence[SeenEvent], names: Sequence[str], templates: Mapping[str, str]
) -> list[SeenEvent]:
    """Return the events that a question asks about, in their order; all if it names nothing.

    ``what does the red cube do?`` keeps the actions of the cube, ``what does the red cube hit?``
    its hits, ``what hits the red cube?`` and ``what happens to the red cube?`` the actions on it,
    ``what stops?`` every stop. If nothing fits that closely, every event with a named object is
    kept; a question that names a kind of event but no object keeps nothing then.

    Args:
        question: free text.
        events: the events of the clip.
        names: all object names.
        templates: kind -> its sentence with ``{a}`` for the actor and ``{b}`` for the other object.
    """
    words = " ".join(re.findall(r"[a-z]+", question.lower()))
    verbs = []  # place and kind of each event whose verb the question has
    for kind, template in templates.items():
        verb = re.sub(r"\{[ab]\}", "", template).strip()
        first, _, rest = verb.partition(" ")
        tail = f" {rest}" if rest else ""
        match = re.search(rf"\b{re.escape(first.removesuffix('s'))}s?{re.escape(tail)}\b", words)
        if match:
            verbs.append((match.start(), kind))
    place, kind = min(verbs, default=(0, ""))
    suffered = re.search(r"\bhappens? to\b", words)
    split = place if kind else suffered.start() if suffered else len(words)
    before, after = mentioned(words[:split], names), mentioned(words[split:], names)
    fitting = [
        event
        for event in events
        if kind in ("", event.kind)
        and (not before or event.actor in before)
        and (not after or event.target in after or (not kind and event.actor in after))
    ]
    named = before | after
    return fitting or [event for event in events if {event.actor, event.target} & named]


def mentioned(text: str, names: Sequence[str]) -> set[str]:
    """Return the names in a text, or else those that share a word with it."""
    words = re.findall(r"[a-z]+", text.lower())
    line = f" {' '.join(words)} "
    full = {name for name in names if f" {name} " in line}
    return full or {name for name in names if set(name.split()) & set(words)}
