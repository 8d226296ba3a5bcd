"""A judge of painted objects that knows the reserved words, which no shipped model does.

It consists of three linear probes, trained on rendered training scenes of the reserved concepts.
The probes for shapes and patterns read a crop's histograms of gradients; the probe for colours
reads the histogram of colours in its middle. No shipped model takes part. The accuracy on rendered
validation crops (:func:`accuracy`) tells how reliable the probes are.

Source: Dalal and Triggs 2005, Histograms of Oriented Gradients for Human Detection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from viper.models.vision.roles import Floats, Pixels
from viper.tools.crops import object_crop
from viper_lab.scores.concepts.measurement import seen
from viper_lab.world.reserved import CONCEPTS, reserved_still
from viper_lab.world.scene import SceneObject

if TYPE_CHECKING:
    from torch import Tensor

# Scenes per concept and the first of them, far after those of the tools' training.
SCENES, FIRST = 40, 9_900_000

# The pattern of an object without one.
PLAIN = "plain"

_SIDE, _BINS = 64, 6
_DECAY, _ROUNDS = 1e-4, 100

# Map each family to features of crops ``[N, D]``.
Seen = Mapping[str, Floats]


@dataclass(frozen=True, eq=False)
class _Probe:
    """Scores ``(x - mean) @ weights + bias``, one for each word."""

    words: tuple[str, ...]
    mean: Floats
    weights: Floats
    bias: Floats

    def best(self, inputs: Floats) -> list[str]:
        scores = (inputs - self.mean) @ self.weights + self.bias
        return [self.words[i] for i in scores.argmax(axis=1)]


@dataclass(frozen=True, eq=False)
class Judge:
    """Names shape, colour and pattern of crops."""

    probes: Mapping[str, _Probe]

    def words(self, crops: Sequence[Pixels]) -> dict[str, list[str]]:
        """Return each family's word for each crop of :func:`~viper.tools.crops.object_crop`."""
        inputs = features(crops)
        return {family: probe.best(inputs[family]) for family, probe in self.probes.items()}


@lru_cache(maxsize=1)
def shipped_judge() -> Judge:
    """Return the judge, trained on first use in about half a minute."""
    return trained_judge(SCENES)


def trained_judge(scenes: int) -> Judge:
    """Train a judge on that many training scenes about each concept."""
    crops, labels = _render_crops("train", scenes)
    inputs = features(crops)
    return Judge(
        {
            family: _fit_probe(inputs[family], [label[family] for label in labels])
            for family in inputs
        }
    )


def accuracy(judge: Judge, scenes: int = 12) -> dict[str, float]:
    """Return shares of rendered validation objects that the judge names correctly, by family.

    ``reserved`` is the share of the visible reserved words that it names.
    """
    crops, labels = _render_crops("val", scenes)
    predicted = judge.words(crops)
    rights = {
        family: [word == label[family] for word, label in zip(words, labels, strict=True)]
        for family, words in predicted.items()
    }
    reserved = [
        rights[family][i]
        for i, label in enumerate(labels)
        for family, word in label.items()
        if word in CONCEPTS
    ]
    figures = {family: float(np.mean(right)) for family, right in rights.items()}
    return figures | {"reserved": float(np.mean(reserved))}


def features(crops: Sequence[Pixels]) -> dict[str, Floats]:
    """Return each family's features of each crop, float32 [N, D]."""
    import cv2

    describe = cv2.HOGDescriptor((_SIDE, _SIDE), (16, 16), (8, 8), (8, 8), 9)
    gradients, colours = [], []
    for crop in crops:
        small = np.asarray(cv2.resize(crop, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA), np.uint8)
        gradients.append(np.asarray(describe.compute(small)).ravel())
        colours.append(_colours(small))
    edges = np.stack(gradients).astype(np.float32)
    return {"shape": edges, "pattern": edges, "colour": np.stack(colours).astype(np.float32)}


def _colours(small: Pixels) -> Floats:
    """Return root shares of each cube of colours in the middle of a square, float32 [216]."""
    edge = _SIDE // 4
    cells = small[edge:-edge, edge:-edge].reshape(-1, 3).astype(np.int64) * _BINS // 256
    places = (cells[:, 0] * _BINS + cells[:, 1]) * _BINS + cells[:, 2]
    shares = np.bincount(places, minlength=_BINS**3) / len(places)
    roots: Floats = np.sqrt(shares).astype(np.float32)
    return roots


def _render_crops(split: str, scenes: int) -> tuple[list[Pixels], list[dict[str, str]]]:
    """Return crops of the objects of scenes about each concept, and their words by family."""
    objects = list(_objects(split, scenes))
    return [crop for crop, _ in objects], [label for _, label in objects]


def _objects(split: str, scenes: int) -> Iterator[tuple[Pixels, dict[str, str]]]:
    for concept in CONCEPTS:
        for index in range(FIRST, FIRST + scenes):
            still = reserved_still(split, index, concept).rendered
            for i, thing in enumerate(still.scene.objects):
                if seen(still)[i]:
                    yield object_crop(still.image, still.box(i)), words_of(thing)


def words_of(thing: SceneObject) -> dict[str, str]:
    """Return the object's word of each family."""
    return {"shape": thing.shape, "colour": thing.colour, "pattern": thing.pattern or PLAIN}


def _fit_probe(data: Floats, labels: Sequence[str]) -> _Probe:
    """Fit a softmax regression in which every word has the same weight."""
    import torch

    words = tuple(sorted(set(labels)))
    mean = data.mean(axis=0)
    inputs = torch.from_numpy(data - mean)
    targets = torch.tensor([words.index(label) for label in labels])
    share = 1.0 / torch.bincount(targets, minlength=len(words)).float()
    weights = torch.zeros(data.shape[1], len(words), requires_grad=True)
    bias = torch.zeros(len(words), requires_grad=True)
    optimizer = torch.optim.LBFGS([weights, bias], max_iter=_ROUNDS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        error = torch.nn.functional.cross_entropy(
            inputs @ weights + bias, targets, weight=share / share.mean()
        )
        total = error + _DECAY * weights.square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return _Probe(words, mean, weights.detach().numpy(), bias.detach().numpy())
