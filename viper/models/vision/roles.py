"""The roles that models play behind the API, one small Protocol each.

Pictures are ``uint8 [H, W, 3]`` RGB arrays, videos ``uint8 [T, H, W, 3]``. Boxes
here are pixel boxes from the top-left corner of the array that was given. An
encoding is whatever a backend wants to keep from its image tower; the toolbox keeps
it per (image, box) and never asks for the same one twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from viper.schema import PixelBox

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Detection:
    """One box a detector proposes for a phrase; ``score`` in [0, 1]."""

    box: PixelBox
    score: float


@dataclass(frozen=True, eq=False)
class Segment:
    """One object a segmenter found: ``mask`` bool [H, W] of its pixels, ``score`` in [0, 1]."""

    mask: Mask
    label: str
    score: float


@dataclass(frozen=True)
class EventWindow:
    """Where a described event happens: frames ``[start, end)`` and a score in [0, 1]."""

    start: int
    end: int
    score: float


@dataclass(frozen=True)
class TextLine:
    """A line that is written in a picture; ``score`` in [0, 1]."""

    text: str
    box: PixelBox
    score: float


@runtime_checkable
class Detector(Protocol):
    """Open-vocabulary detection."""

    model_id: str

    def encode(self, images: Sequence[Pixels]) -> list[Any]:
        """One encoding an image (the image tower, run once)."""
        ...

    def detect(self, encoding: Any, phrases: Sequence[str]) -> list[list[Detection]]:
        """For each phrase, its boxes after non-maximum suppression, best first, down to score .01.

        No threshold is applied: the toolbox does that, so that lowering one costs no forward pass.
        """
        ...


@runtime_checkable
class Matcher(Protocol):
    """Image-text similarity in one embedding space."""

    model_id: str
    logit_scale: float

    def encode_images(self, images: Sequence[Pixels]) -> Floats:
        """L2-normalised embeddings ``[N, D]``."""
        ...

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        """L2-normalised embeddings ``[M, D]``."""
        ...


@runtime_checkable
class DepthEstimator(Protocol):
    """Monocular depth."""

    model_id: str

    def depth(self, images: Sequence[Pixels]) -> list[Floats]:
        """A map ``float32 [H, W]`` an image; larger is farther."""
        ...


@runtime_checkable
class VisualAnswerer(Protocol):
    """Visual question answering and captioning on a picture or a crop."""

    model_id: str

    def encode(self, images: Sequence[Pixels]) -> list[Any]:
        """One encoding an image (the image tower, run once)."""
        ...

    def answer(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[tuple[str, float]]:
        """The answer to ``questions[i]`` about ``encodings[i]`` with its probability."""
        ...

    def caption(self, encodings: Sequence[Any]) -> list[str]:
        """A sentence that describes each picture."""
        ...


@runtime_checkable
class Explainer(Protocol):
    """What a visual answerer has beside that, if it can answer in sentences."""

    def explain(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[str]:
        """A sentence or two that answer ``questions[i]`` about ``encodings[i]``."""
        ...


@runtime_checkable
class Segmenter(Protocol):
    """Panoptic segmentation: regions that do not overlap, each with a label of a fixed list."""

    model_id: str

    def encode(self, pixels: Pixels) -> Any:
        """The encoding of one picture (the image tower, run once)."""
        ...

    def segments(self, encoding: Any, names: Sequence[str] | None) -> list[Segment]:
        """The regions of the picture, best first; masks have its size and do not overlap.

        With ``names`` only those so labelled. An empty list: nothing was found, or nothing
        of that name is known to the model.
        """
        ...


@runtime_checkable
class Inpainter(Protocol):
    """Painting something else into a part of a picture."""

    model_id: str

    def inpaint(self, pixels: Pixels, mask: Mask, prompt: str, seed: int) -> Pixels:
        """A picture of the same size with what the prompt names painted where ``mask`` holds.

        ``mask`` is bool [H, W]. Pixels outside it stay as they were, to the bit; the
        same arguments give the same picture.
        """
        ...


@runtime_checkable
class FaceDetector(Protocol):
    """Finding faces."""

    model_id: str

    def faces(self, pixels: Pixels) -> list[Detection]:
        """The box of every face, surest first; an empty list when there is none."""
        ...


@runtime_checkable
class TextReader(Protocol):
    """Reading what is written in a picture."""

    model_id: str

    def read(self, pixels: Pixels) -> list[TextLine]:
        """The lines, in no order; an empty list where nothing is written."""
        ...


@runtime_checkable
class TextEmbedder(Protocol):
    """Sentences as points: near in meaning, near in space."""

    model_id: str

    def embed(self, texts: Sequence[str]) -> Floats:
        """L2-normalised embeddings ``[N, D]``."""
        ...


@runtime_checkable
class VideoModel(Protocol):
    """Events in a clip."""

    model_id: str

    def encode(self, frames: Pixels) -> Any:
        """The encoding of a whole clip ``[T, H, W, 3]`` (run once)."""
        ...

    def locate(self, encoding: Any, event: str) -> list[EventWindow]:
        """Candidate windows of the described event, best first, down to score .01."""
        ...

    def describe(self, encoding: Any, start: int, end: int, question: str | None = None) -> str:
        """Sentences on what happens in frames ``[start, end)``, in the order of time.

        A question that names objects may narrow them down to those objects.
        """
        ...
