"""Roles of the models behind the API, one small Protocol each.

Pictures are ``uint8 [H, W, 3]`` RGB arrays, videos ``uint8 [T, H, W, 3]``. Boxes
here are pixel boxes from the top-left corner of the input array. An encoding is any output of a
backend's image tower. The toolbox caches it per (image, box) and never asks for one twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    """Box that a detector proposes for a phrase; ``score`` in [0, 1]."""

    box: PixelBox
    score: float


class Detections(list[Detection]):
    """Boxes of a phrase, best first; ``note`` says what of the model's reply they leave out."""

    def __init__(self, boxes: Iterable[Detection], note: str) -> None:
        super().__init__(boxes)
        self.note = note


@dataclass(frozen=True, eq=False)
class Segment:
    """Object of a segmenter: ``mask`` bool [H, W] of its pixels, ``score`` in [0, 1]."""

    mask: Mask
    label: str
    score: float


@dataclass(frozen=True)
class EventWindow:
    """Window of a described event: frames ``[start, end)`` and a score in [0, 1]."""

    start: int
    end: int
    score: float


@dataclass(frozen=True)
class TextLine:
    """Line of text in a picture; ``score`` in [0, 1]."""

    text: str
    box: PixelBox
    score: float


@runtime_checkable
class Detector(Protocol):
    """Open-vocabulary detection.

    One that finds what looks like boxes says so by ``image_guided = True``; the tool ``find_like``
    then calls its ``detect_like(encoding, source_encoding, boxes)``, which returns boxes as
    ``detect`` does.
    """

    model_id: str

    def encode(self, images: Sequence[Pixels]) -> list[Any]:
        """Return one encoding per image (the image tower, run once)."""

    def detect(self, encoding: Any, phrases: Sequence[str]) -> list[list[Detection]]:
        """Return the boxes of each phrase after non-maximum suppression, best first, down to score
        .01.

        No threshold is applied. The toolbox applies it, so lowering one costs no forward pass.
        """


@runtime_checkable
class PreparesPictures(Protocol):
    """Additional members of a backend whose pictures are prepared outside of its lock.

    They serve ``encode`` of a detector or answerer, ``encode_images`` of a matcher and ``depth``.
    """

    @property
    def prepare(self) -> Callable[[Pixels], Any]:
        """Return a function that returns the network's inputs for one picture.

        It is called from several threads at once, and still used when the model is unloaded.
        Therefore it must not refer to weights, as a bound method would.
        """

    def encode_prepared(self, inputs: Sequence[Any]) -> Any:
        """Return what the role's method returns for the pictures of these inputs."""


@runtime_checkable
class Matcher(Protocol):
    """Image-text similarity in one embedding space."""

    model_id: str
    logit_scale: float

    def encode_images(self, images: Sequence[Pixels]) -> Floats:
        """Return L2-normalised embeddings ``[N, D]``."""

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        """Return L2-normalised embeddings ``[M, D]``."""


@runtime_checkable
class LikelihoodMatcher(Protocol):
    """Matcher that judges each pair of picture and text by itself, without embeddings.

    Attributes:
        by_likelihood: True; the tools then call :meth:`likelihood` instead of comparing embeddings.
    """

    model_id: str
    by_likelihood: bool

    def likelihood(self, images: Sequence[Pixels], texts: Sequence[str]) -> Floats:
        """Return the probability ``[N, M]`` that each text describes each picture."""


@runtime_checkable
class DepthEstimator(Protocol):
    """Monocular depth."""

    model_id: str

    def depth(self, images: Sequence[Pixels]) -> list[Floats]:
        """Return a map ``float32 [H, W]`` per image; larger is farther."""


@runtime_checkable
class VisualAnswerer(Protocol):
    """Visual question answering and captioning on a picture or a crop."""

    model_id: str

    def encode(self, images: Sequence[Pixels]) -> list[Any]:
        """Return one encoding per image (the image tower, run once)."""

    def answer(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[tuple[str, float]]:
        """Return the answer to ``questions[i]`` about ``encodings[i]`` with its probability."""

    def caption(self, encodings: Sequence[Any]) -> list[str]:
        """Return a sentence that describes each picture."""


@runtime_checkable
class Explainer(Protocol):
    """Additional method of a visual answerer that can answer in sentences."""

    def explain(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[str]:
        """Return one or two sentences that answer ``questions[i]`` about ``encodings[i]``."""


@runtime_checkable
class Segmenter(Protocol):
    """Panoptic segmentation: regions that do not overlap, each with a label of a fixed list."""

    model_id: str

    def encode(self, pixels: Pixels) -> Any:
        """Return the encoding of one picture (the image tower, run once)."""

    def segments(self, encoding: Any, names: Sequence[str] | None) -> list[Segment]:
        """Return the regions of the picture, best first; masks have its size and do not overlap.

        With ``names`` return only those with these labels. An empty list means that nothing was
        detected, or that the model knows no such label.
        """


@runtime_checkable
class Inpainter(Protocol):
    """Painting of new content into a part of a picture."""

    model_id: str

    def inpaint(self, pixels: Pixels, mask: Mask, prompt: str, seed: int) -> Pixels:
        """Return a picture of the same size with the prompt's content painted where ``mask`` is
        True.

        ``mask`` is bool [H, W]. Pixels outside it stay the same to the bit. The same arguments give
        the same picture.
        """


@runtime_checkable
class FaceDetector(Protocol):
    """Face detection."""

    model_id: str

    def faces(self, pixels: Pixels) -> list[Detection]:
        """Return the box of every face, highest score first; an empty list without faces."""


@runtime_checkable
class TextReader(Protocol):
    """Reading of text in a picture."""

    model_id: str

    def read(self, pixels: Pixels) -> list[TextLine]:
        """Return the lines in no order; an empty list without text."""


@runtime_checkable
class TextEmbedder(Protocol):
    """Embedding of sentences: those of similar meaning are close."""

    model_id: str

    def embed(self, texts: Sequence[str]) -> Floats:
        """Return L2-normalised embeddings ``[N, D]``."""


@runtime_checkable
class VideoModel(Protocol):
    """Events in a clip."""

    model_id: str

    def encode(self, frames: Pixels) -> Any:
        """Return the encoding of a whole clip ``[T, H, W, 3]`` (run once)."""

    def locate(self, encoding: Any, event: str) -> list[EventWindow]:
        """Return candidate windows of the described event, best first, down to score .01."""

    def describe(self, encoding: Any, start: int, end: int, question: str | None = None) -> str:
        """Return sentences on what happens in frames ``[start, end)``, in order of time.

        A question that names objects may restrict the sentences to those objects.
        """
