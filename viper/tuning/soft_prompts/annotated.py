"""Training of a tool on annotated pictures: queries are fitted to the features of their regions.

Pasting composes many pictures from the few collected ones
(:mod:`viper.tuning.soft_prompts.pasting`). The tool encodes each picture once, and the queries are
fitted to its features of the detected boxes or segments. The query of each instance leaves some of
the other pictures out and is validated on those.

Source: CLOVA (Gao et al. 2024), supplement, secs. 8.2 and 8.3. Differs: the logistic loss is
minimised over all regions together, by L-BFGS in 60 steps. Each prompt is trained on most of the
pictures instead of one, because one object does not show the whole concept.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from viper.errors import UsageError
from viper.models.vision.prompt_pool import Evidence
from viper.models.vision.roles import Floats
from viper.models.vision.soft_prompts import SoftPrompt
from viper.tuning.soft_prompts import base
from viper.tuning.soft_prompts.pasting import MaskedPicture, composed, is_of_colour, masked_picture
from viper.tuning.training_data import AnnotatedPicture, Collected

# Weight of the squared length of a query. There are more features than regions, so some weight is
# needed for a unique solution; more would pull the logits of rare concepts to 0.
DECAY = 3e-5

# A query, float32 [D], and its shift.
Query = tuple[Floats, float]


@dataclass(frozen=True, eq=False)
class Regions:
    """Regions of many pictures.

    Attributes:
        features: float32 [N, D], the tool's features of each region.
        shown: bool [N], whether the region is an object that shows the concept.
        canvas: int64 [N], index of the collected picture that is the background of the region's
            picture.
        source: int64 [N], index of the collected picture that the region's object comes from.
    """

    features: Floats
    shown: NDArray[np.bool_]
    canvas: NDArray[np.int64]
    source: NDArray[np.int64]

    @classmethod
    def of(
        cls, features: Floats, near: Floats, scene: MaskedPicture, same: float, bare: float
    ) -> tuple[Regions, NDArray[np.int64]]:
        """Build the unambiguous regions of a picture. Return them with their indices.

        Args:
            features: float32 [N, D].
            near: float [N, M], IoU of each region with the objects of
                :meth:`MaskedPicture.counted`.
            same: least IoU of a region with an object to count as the object.
            bare: a region with a lower IoU with every object counts as background.
        """
        things = [thing for thing, _ in scene.counted()]
        best = near.max(axis=1, initial=0.0)
        places = np.flatnonzero((best >= same) | (best < bare) & scene.whole)
        shown = np.zeros(len(places), np.bool_)
        canvas = np.full(len(places), scene.source, np.int64)
        source = canvas.copy()
        for row, place in enumerate(places):
            if best[place] >= same:
                thing = things[int(near[place].argmax())]
                shown[row], source[row] = thing.shown, thing.source
        return Regions(features[places], shown, canvas, source), places

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join all regions, in order."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def without(self, held: Collection[int]) -> NDArray[np.int64]:
        """Return int64 [M]: the indices of the regions that are independent of held-out pictures.

        Their objects come from other pictures, and their backgrounds are other pictures. An object
        of a held-out picture may still be a neighbour, but its label is not used.
        """
        return np.flatnonzero(~np.isin((self.canvas, self.source), list(held)).any(axis=0))

    def held(self, held: Collection[int]) -> NDArray[np.int64]:
        """Return int64 [M]: the indices of objects that come from the held-out pictures."""
        return np.flatnonzero(np.isin(self.source, list(held)))


class Fitting:
    """Logistic regression on standardised features.

    There are more features than regions, so a query is expressed as a weighted sum of the regions'
    features. Their inner products are computed once for all queries.

    Args:
        regions: regions of all pictures of the training data.
        widths: widths of the parts of a feature vector, D in total. Each part gets equal weight.
    """

    def __init__(self, regions: Regions, widths: Sequence[int]) -> None:
        import torch

        self.known = regions
        features = regions.features
        sides = [np.full(width, (len(widths) * width) ** 0.5, np.float32) for width in widths]
        self.mean = features.mean(0)
        self.deviation = (features.std(0) + 1e-3) * np.concatenate(sides)
        self.rows = torch.from_numpy((features - self.mean) / self.deviation)
        self.products = self.rows @ self.rows.T

    def query(
        self, held: Collection[int], steps: int, rate: float, on_step: Callable[[], None]
    ) -> Query:
        """Fit a query and a shift whose logits separate the concept's regions from all others.

        L-BFGS minimises the logistic loss of all regions that are independent of the held-out
        pictures. The concept's regions are weighted by the square root of the class ratio.

        Returns:
            float32 [D] and a number, for features that are not standardised.
        """
        import torch
        from torch.nn import functional

        chosen = torch.from_numpy(self.known.without(held))
        positive = torch.from_numpy(self.known.shown)[chosen].float()
        products = self.products[chosen][:, chosen]
        shares = torch.zeros(len(chosen), requires_grad=True)
        shift = torch.zeros(1, requires_grad=True)
        rarity = ((1 - positive).sum() / positive.sum().clamp(min=1)).sqrt()
        optimiser = torch.optim.LBFGS(
            [shares, shift], lr=rate, max_iter=1, line_search_fn="strong_wolfe"
        )

        def loss() -> Any:
            optimiser.zero_grad()
            sums = products @ shares
            value = functional.binary_cross_entropy_with_logits(
                sums + shift, positive, pos_weight=rarity
            )
            value = value + DECAY / 2 * shares @ sums
            value.backward()
            return value

        for _ in range(steps):
            optimiser.step(loss)
            on_step()
        with torch.no_grad():
            query = (self.rows[chosen].T @ shares).numpy() / self.deviation
            total = float(shift) - float(query @ self.mean)
        return query.astype(np.float32), total

    def margin(self, fits: Sequence[tuple[Collection[int], Floats, float]]) -> float:
        """Return the logit that best separates the concept from others on held-out objects.

        Held-out objects are used because a query gives higher logits to the objects it was fitted
        to. The logit has the greatest F1 score over all objects of held-out pictures, wherever
        they were pasted.

        Args:
            fits: for each query the held-out pictures, the query and its shift.
        """
        parts, truths = [np.zeros(0, np.float32)], [np.zeros(0, np.bool_)]
        for held, query, shift in fits:
            rows = self.known.held(held)
            parts.append(self.known.features[rows] @ query + shift)
            truths.append(self.known.shown[rows])
        logits, truth = np.concatenate(parts), np.concatenate(truths)
        if not truth.any():
            return 0.0
        order = np.argsort(-logits, kind="stable")
        hits = truth[order].cumsum()
        best = int((hits / (np.arange(1, len(hits) + 1) + truth.sum())).argmax())
        return float(logits[order[best : best + 2]].mean())


TrainingData = Collected[AnnotatedPicture]

# L-BFGS needs few steps, and its line search chooses their length, so the rate is 1.
STEPS, RATE = 60, 1.0

# Share of the pictures that a prompt is not trained on: several to judge by even of 7 pictures, and
# most to learn from.
HELD_OUT = 0.3


RegionsT = TypeVar("RegionsT", bound=Regions)


def held_out(data: TrainingData, at: int) -> list[int]:
    """Return the indices of the pictures held out for the prompt of a positive picture.

    Positives come first, then negatives. The picture itself is never held out for its own prompt.
    The choice rotates, so that every picture is held out by the same number of prompts.
    """
    positives, negatives = len(data.positives), len(data.negatives)
    some, few = max(1, round(HELD_OUT * positives)), round(HELD_OUT * negatives)
    own = [(at + 1 + step) % positives for step in range(min(some, positives - 1))]
    others = [(at * few + step) % negatives for step in range(few)]
    return sorted({*own, *(positives + other for other in others)})


def f1(near: NDArray[np.floating[Any]], same: float, beside: Floats | None = None) -> float:
    """Return the F1 score of regions matched one to one, in their order; 1 if there are none.

    Args:
        near: float [N, M], IoU of each result with each target.
        same: least IoU of two equal regions.
        beside: float [N, K], IoU of each result with regions that may be found or not.
    """
    free, hits, false = set(range(near.shape[1])), 0, 0
    for place in range(len(near)):
        fit = [other for other in free if near[place, other] >= same]
        if fit:
            free.remove(max(fit, key=lambda other: near[place, other]))
            hits += 1
        elif beside is None or beside[place].max(initial=0.0) < same:
            false += 1
    total = hits + false + near.shape[1]
    return 1.0 if total == 0 else 2 * hits / total


class AnnotatedTuner(base.Tuner[TrainingData], Generic[RegionsT]):
    """Trains one tool on annotated pictures, at least two of them positive.

    Attributes:
        needs: backends that can be trained, for error messages.
        pictures: number of pictures to compose from the collected ones.
        batch: number of pictures that the tool encodes each time it is held.
        salt: part of the random seed that differs between tools.
        usual_steps: training steps for each prompt by default.
        is_alone: whether each prompt is trained on its own picture alone.
        scenes: the collected pictures, positives first.
        helds: for each positive picture, the indices of the pictures held out for its prompt.
        originals: the encodings of the collected pictures.
    """

    pictures: ClassVar[int]
    batch: ClassVar[int] = 1
    salt: ClassVar[int]
    usual_steps: ClassVar[int] = STEPS
    is_alone: ClassVar[bool] = False
    originals: Sequence[Any] = ()

    needs: ClassVar[str]

    @staticmethod
    @abstractmethod
    def can_learn(backend: Any) -> bool:
        """Return whether a backend can be trained."""

    @abstractmethod
    def look(self, backend: Any, scenes: Sequence[MaskedPicture]) -> list[tuple[Any, Any]]:
        """Return the encoding of each picture and the regions detected in it."""

    @abstractmethod
    def regions(self, detections: Any, scene: MaskedPicture) -> RegionsT:
        """Return the unambiguous regions of a picture."""

    @abstractmethod
    def fitting(self, regions: RegionsT) -> Fitting:
        """Return the object that fits queries to the regions of all pictures."""

    @abstractmethod
    def prompts(self, fitting: Fitting, queries: Sequence[Query]) -> Iterator[Floats]:
        """Yield the vectors of each query's prompt."""

    @abstractmethod
    def answers(
        self, backend: Any, encodings: Sequence[Any], vectors: Floats
    ) -> tuple[list[Any], list[Any]]:
        """Return the tool's results for pictures without and with a prompt."""

    @abstractmethod
    def share(self, result: Any, scene: MaskedPicture) -> float:
        """Return the score of the result for a picture, in [0, 1]."""

    @abstractmethod
    def why_not(self, at: int, before: Floats, after: Floats) -> str:
        """Return why the prompt of a positive picture is discarded, or "" if it is kept.

        Args:
            before, after: float [N], score of each held-out picture without and with the prompt.
        """

    def trained(self) -> list[base.TrainedPrompt]:
        """Train the prompts of all positive pictures.

        Raises:
            UsageError: also if the tool finds no region of the concept.
        """
        data, options = self.data, self.options
        if len(data.positives) < 2:
            raise UsageError(
                f"{len(data.positives)} picture of {data.concept!r}; the {self.role} needs "
                "two, one of them to judge what it learned from the other"
            )
        with self.using() as backend:
            if not self.can_learn(backend):
                name = getattr(backend, "model_id", type(backend).__name__)
                raise UsageError(f"the {self.role} {name} takes no soft prompts; use {self.needs}")
        collected = (*data.positives, *data.negatives)
        self.names = [picture.picture_id for picture in collected]
        self.scenes = [masked_picture(each, data.concept, at) for at, each in enumerate(collected)]
        self.helds = [held_out(data, at) for at in range(len(data.positives))]
        self.steps = self.usual_steps if options.steps is None else options.steps
        learned = list(self.learned())
        return [self._validate(at, *each) for at, each in enumerate(learned)]

    def learned(self) -> Iterator[tuple[Floats, str]]:
        """Yield the vectors of each positive picture's prompt, and why to discard them untested."""
        looks = -(-(self.pictures + len(self.scenes)) // self.batch)
        on_step = base.Steps(self.on_progress, looks + len(self.helds) * self.steps)
        self.originals, parts = self._encode_all(on_step)
        fitting = self.fitting(type(parts[0]).joined(parts))
        rate = self.options.rate or RATE
        queries = [fitting.query(held, self.steps, rate, on_step) for held in self.helds]
        yield from ((vectors, "") for vectors in self.prompts(fitting, queries))

    def shares(self, results: Sequence[Any], scenes: Sequence[MaskedPicture]) -> Floats:
        """Return float32 [N]: :meth:`share` of each picture."""
        pairs = zip(results, scenes, strict=True)
        return np.array([self.share(*pair) for pair in pairs], np.float32)

    def _encode_all(self, on_step: base.Steps) -> tuple[list[Any], list[RegionsT]]:
        """Return the encodings of the collected pictures and the regions of all pictures.

        The composed pictures come after the collected ones.
        """
        rng = np.random.default_rng([self.options.seed, self.salt])
        recolour, count = not is_of_colour(self.scenes), len(self.scenes)
        originals: list[Any] = []
        parts: list[RegionsT] = []
        for start in range(0, count + self.pictures, self.batch):
            places = range(start, min(start + self.batch, count + self.pictures))
            scenes = [
                self.scenes[place] if place < count else composed(self.scenes, rng, recolour)
                for place in places
            ]
            with self.using() as backend:
                pairs = self.look(backend, scenes)
            for place, scene, (encoding, detections) in zip(places, scenes, pairs, strict=True):
                originals += [encoding] if place < count else []
                parts.append(self.regions(detections, scene))
            on_step()
        return originals, parts

    def _validate(self, at: int, vectors: Floats, why: str) -> base.TrainedPrompt:
        """Validate the prompt of one positive picture on the pictures held out."""
        held, names = self.helds[at], self.names
        with self.using() as backend:
            feature, model_id = backend.feature(self.originals[at]), backend.model_id
            results = self.answers(backend, [self.originals[place] for place in held], vectors)
        scenes = [self.scenes[place] for place in held]
        before, after = (self.shares(some, scenes) for some in results)
        rest = (name for place, name in enumerate(names) if place not in (at, *held))
        evidence = Evidence(
            model_id,
            (names[at], *(() if self.is_alone else rest)),
            tuple(names[place] for place in held),
            round(float(np.mean(before)), 4),
            round(float(np.mean(after)), 4),
            "annotated",
            steps=self.steps,
            seed=self.options.seed,
        )
        why = (why or self.why_not(at, before, after)) if self.options.validate else ""
        return base.TrainedPrompt(SoftPrompt(feature, vectors), evidence, why)
