"""Events in a clip by a video classifier (VideoMAE, V-JEPA 2, …), which knows a fixed list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viper.models.libraries import torch
from viper.models.loading import in_batches
from viper.models.options import check_at_least
from viper.models.vision.boxes import require_finite
from viper.models.vision.roles import Floats, Pixels
from viper.models.vision.video_windows import WindowedClip, WindowVideo, overlapping, spread

# Least share of a label's words that an event must have for the label to mean it. Labels
# often have more words than an event in a program, so not all of them can be asked for.
LEAST_SHARE = 0.5

_EMPTY_WORDS = frozenset(
    {"a", "an", "and", "are", "at", "by", "from", "in", "into", "is", "it", "its", "of", "on"}
    | {"onto", "or", "someone", "something", "somebody", "that", "the", "then", "to", "with"}
)


@dataclass(frozen=True)
class ActionWindows(WindowedClip):
    """``chances`` float32 [W, L] is the probability of each label in each window."""

    chances: Floats


class VideoActions(WindowVideo):
    """The ``VideoModel`` role on a family of ``AutoModelForVideoClassification``.

    The vocabulary is closed: the model knows the labels of its training (Kinetics,
    Something-Something, …) and nothing else. An event is located by the labels that have its
    words, and an event of other words is never found. Descriptions are labels. Use it where the
    labels suit the questions; the backends ``vlm`` and ``frames`` know any words.

    Source: Tong et al. 2022, VideoMAE; Assran et al. 2025, V-JEPA 2.

    Args:
        model: the network.
        processor: its video processor.
        name: goes into traces and cache keys.
        step: a window takes every ``step``-th frame, as the published training does.
        batch_size: maximum number of windows in one forward pass.

    Raises:
        ProfileError: a step below 1.
    """

    network = "transformers:AutoModelForVideoClassification"
    readers = ("transformers:AutoVideoProcessor",)

    def __init__(self, *parts: Any, step: int = 4, batch_size: int = 2) -> None:
        super().__init__(*parts, batch_size=batch_size)
        check_at_least(1, step=step)
        self._step = step
        config = self._model.config
        self._frames = int(getattr(config, "num_frames", 0) or config.frames_per_clip)
        self._labels = [config.id2label[i] for i in range(len(config.id2label))]

    def encode(self, frames: Pixels) -> ActionWindows:
        """Return the probability of each label in every window of a clip ``uint8 [T, H, W, 3]``.

        Raises:
            ModelError: a probability is not finite.
        """
        windows = overlapping(len(frames), self._frames * self._step)

        def forward(batch: Sequence[tuple[int, int]]) -> Any:
            clips = [frames[spread(*window, self._frames)] for window in batch]
            inputs = self._processor(clips, return_tensors="pt", input_data_format="channels_last")
            return self._model(**self._fitted(inputs)).logits.float().softmax(dim=-1).cpu().numpy()

        with torch.inference_mode():
            rows = in_batches(windows, self._batch_size, forward)
        chances = np.array(rows, np.float32).reshape(len(windows), len(self._labels))
        require_finite(self.model_id, "probabilities", chances)
        return ActionWindows(len(frames), tuple(windows), chances)

    def _event_scores(self, encoding: ActionWindows, event: str) -> Floats:
        """Add up the probabilities of the labels that have most of their words in the event."""
        words = _words(event)
        labels = map(_words, self._labels)
        shares = np.array([len(own & words) / max(1, len(own)) for own in labels])
        best = shares.max(initial=0)
        if best < LEAST_SHARE:
            return np.zeros(len(encoding.windows), np.float32)
        return np.minimum(encoding.chances[:, shares == best].sum(axis=1), 1)

    def _texts(self, encoding: ActionWindows, rows: Sequence[int]) -> list[str]:
        return [self._labels[int(encoding.chances[row].argmax())] for row in rows]


def _words(text: str) -> frozenset[str]:
    """Return the stems of a text's content words: climbs and climbing are one."""
    stems = set()
    for word in set(re.findall(r"[a-z]+", text.lower())) - _EMPTY_WORDS:
        stem = re.sub(r"(?<=..)(ing|ies|ied|es|ed|s)$", "", word)
        stem = re.sub(r"(?<=..)[ey]$", "", stem)
        stems.add(re.sub(r"([bdgmnpt])\1$", r"\1", stem))
    return frozenset(stems)
