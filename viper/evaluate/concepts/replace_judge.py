"""A judge of what was painted: it knows the reserved words, which no shipped model does.

Three linear probes on the shipped matcher's embeddings of crops, one for shapes, one for colours,
one for patterns, trained on rendered training scenes of the reserved concepts. The matcher itself
is neither taught nor asked about words. What the probes say of rendered validation crops tells how
far their word can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from viper.schema import PixelBox
from viper.tools.crops import object_crop
from viper.tools.models import ModelSet
from viper.tools.roles import Floats, Pixels
from viper.world.reserved import CONCEPTS, reserved_still
from viper.world.scene import SceneObject

if TYPE_CHECKING:
    from torch import Tensor

SCENES, FIRST = 40, 9_900_000
"""Of each concept, and where they begin: far behind those that tools learn from."""

PLAIN = "plain"
"""The pattern of an object without one."""

LEAST_VISIBLE = 0.5

_DECAY, _ROUNDS = 1e-3, 200


@dataclass(frozen=True, eq=False)
class _Probe:
    """Scores ``x @ weights + bias`` of standardised embeddings, one for each word."""

    words: tuple[str, ...]
    weights: Floats
    bias: Floats


@dataclass(frozen=True, eq=False)
class Judge:
    """Says of crops which shape, colour and pattern they show.

    Attributes:
        mean, spread: of the embeddings that it was trained on, float [D].
        probes: by family: ``shape``, ``colour``, ``pattern``.
    """

    mean: Floats
    spread: Floats
    probes: Mapping[str, _Probe]

    def words(self, seen: Floats) -> dict[str, list[str]]:
        """Family -> the word of each embedding ``[N, D]``."""
        scaled = (seen - self.mean) / self.spread
        return {
            family: [probe.words[i] for i in (scaled @ probe.weights + probe.bias).argmax(axis=1)]
            for family, probe in self.probes.items()
        }


@lru_cache(maxsize=1)
def judge_of(models: ModelSet) -> Judge:
    """The judge on the matcher of a profile; trained once, in half a minute."""
    seen, labels = _seen(models, "train", SCENES)
    mean, spread = seen.mean(axis=0), seen.std(axis=0) + 1e-6
    scaled = (seen - mean) / spread
    probes = {family: _fitted(scaled, [label[family] for label in labels]) for family in labels[0]}
    return Judge(mean, spread, probes)


def accuracy(models: ModelSet, scenes: int = 10) -> dict[str, float]:
    """Share of rendered validation objects that the judge names rightly, by family.

    ``reserved`` is the share of objects that show a reserved word of which the judge says so.
    """
    judge = judge_of(models)
    seen, labels = _seen(models, "val", scenes)
    said = judge.words(seen)
    found = {
        family: float(np.mean([word == label[family] for word, label in zip(words, labels, strict=True)]))
        for family, words in said.items()
    }
    reserved = [
        said[family][i] == word
        for i, label in enumerate(labels)
        for family, word in label.items()
        if word in CONCEPTS
    ]
    return found | {"reserved": float(np.mean(reserved))}


def embeddings(models: ModelSet, pictures: Sequence[tuple[Pixels, PixelBox]]) -> Floats:
    """What the matcher, as it came, makes of a box of each picture, float32 [N, D]."""
    crops = [object_crop(image, box) for image, box in pictures]
    with models.using("matcher") as matcher:
        found: Floats = matcher.encode_images(crops)
    return found


def _seen(models: ModelSet, split: str, scenes: int) -> tuple[Floats, list[dict[str, str]]]:
    shown = list(_objects(split, scenes))
    seen = embeddings(models, [(image, box) for image, box, _ in shown])
    return seen, [label for _, _, label in shown]


def _objects(split: str, scenes: int) -> Iterator[tuple[Pixels, PixelBox, dict[str, str]]]:
    """Every object of the scenes about each concept, with its words."""
    for concept in CONCEPTS:
        for index in range(FIRST, FIRST + scenes):
            still = reserved_still(split, index, concept).rendered
            for i, thing in enumerate(still.scene.objects):
                if still.visible[i] >= LEAST_VISIBLE:
                    x0, y0, x1, y1 = (float(edge) for edge in still.boxes[i])
                    yield still.image, (x0, y0, x1, y1), words_of(thing)


def words_of(thing: SceneObject) -> dict[str, str]:
    """Family -> the object's word."""
    return {"shape": thing.shape, "colour": thing.colour, "pattern": thing.pattern or PLAIN}


def _fitted(seen: Floats, labels: Sequence[str]) -> _Probe:
    """A softmax regression in which every word weighs the same."""
    import torch

    words = tuple(sorted(set(labels)))
    inputs = torch.from_numpy(seen)
    targets = torch.tensor([words.index(label) for label in labels])
    share = 1.0 / torch.bincount(targets, minlength=len(words)).float()
    weights = torch.zeros(seen.shape[1], len(words), requires_grad=True)
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
    return _Probe(words, weights.detach().numpy(), bias.detach().numpy())
