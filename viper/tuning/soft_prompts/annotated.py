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

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from viper.errors import UsageError
from viper.models.vision.roles import Floats
from viper.models.vision.soft_prompts import SoftPrompt
from viper.models.vision.stored_prompts import Evidence
from viper.tuning.soft_prompts import base
from viper.tuning.soft_prompts.fitting import Fitting, Query, Regions
from viper.tuning.soft_prompts.pasting import MaskedPicture, composed, is_of_colour, masked_picture
from viper.tuning.training_data import AnnotatedPicture, Collected

TrainingData = Collected[AnnotatedPicture]

STEPS, RATE = 60, 1.0

# Share of the pictures that a prompt is not trained on.
HELD_OUT = 0.3


RegionsT = TypeVar("RegionsT", bound=Regions)


def held_out(data: TrainingData, at: int) -> list[int]:
    """Return the indices of the pictures held out for the prompt of a positive picture.

    Positives come first, then negatives. The picture itself is never held out for its own prompt.
    The choice rotates, so that every picture is held out by the same number of prompts.
    """
    positives, negatives = len(data.positives), len(data.negatives)
    some = max(1, round(HELD_OUT * positives))
    few = round(HELD_OUT * negatives)
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


class TrainingSession(ABC, Generic[RegionsT]):
    """Training of one tool on annotated pictures.

    Attributes:
        pictures: number of pictures to compose from the collected ones.
        batch: number of pictures that the tool encodes each time it is held.
        salt: part of the random seed that differs between tools.
        scenes: the collected pictures, positives first.
        helds: for each positive picture, the indices of the pictures held out for its prompt.
    """

    pictures: ClassVar[int]
    batch: ClassVar[int] = 1
    salt: ClassVar[int]

    def __init__(
        self,
        using: base.Using,
        data: TrainingData,
        options: base.TunerOptions,
        on_progress: base.Progress | None,
    ) -> None:
        self.using, self.data, self.options = using, data, options
        collected = (*data.positives, *data.negatives)
        self.names = [picture.picture_id for picture in collected]
        self.scenes = [masked_picture(each, data.concept, at) for at, each in enumerate(collected)]
        self.helds = [held_out(data, at) for at in range(len(data.positives))]
        self.steps = STEPS if options.steps is None else options.steps
        looks = -(-(self.pictures + len(collected)) // self.batch)
        self._on_step = base.Steps(on_progress, looks + len(data.positives) * self.steps)

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
            UsageError: the tool finds no region to learn from.
        """
        originals, parts = self._encode_all()
        fitting = self.fitting(type(parts[0]).joined(parts))
        rate = self.options.rate or RATE
        queries = [fitting.query(held, self.steps, rate, self._on_step) for held in self.helds]
        prompts = list(self.prompts(fitting, queries))
        return [self._validate(at, vectors, originals) for at, vectors in enumerate(prompts)]

    def shares(self, results: Sequence[Any], scenes: Sequence[MaskedPicture]) -> Floats:
        """Return float32 [N]: :meth:`share` of each picture."""
        pairs = zip(results, scenes, strict=True)
        return np.array([self.share(*pair) for pair in pairs], np.float32)

    def _encode_all(self) -> tuple[list[Any], list[RegionsT]]:
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
            originals += [encoding for encoding, _ in pairs][: max(0, count - start)]
            parts += [
                self.regions(detections, scene)
                for (_, detections), scene in zip(pairs, scenes, strict=True)
            ]
            self._on_step()
        return originals, parts

    def _validate(self, at: int, vectors: Floats, originals: Sequence[Any]) -> base.TrainedPrompt:
        """Validate the prompt of one positive picture on the pictures held out."""
        held, names = self.helds[at], self.names
        scenes = [self.scenes[place] for place in held]
        with self.using() as backend:
            feature, model_id = backend.feature(originals[at]), backend.model_id
            results = self.answers(backend, [originals[place] for place in held], vectors)
        before, after = (self.shares(some, scenes) for some in results)
        trained_on = [at, *(place for place in range(len(names)) if place not in (at, *held))]
        evidence = Evidence(
            model_id,
            tuple(names[place] for place in trained_on),
            tuple(names[place] for place in held),
            round(float(np.mean(before)), 4),
            round(float(np.mean(after)), 4),
            "annotated",
            steps=self.steps,
            seed=self.options.seed,
        )
        why = self.why_not(at, before, after) if self.options.validate else ""
        return base.TrainedPrompt(SoftPrompt(feature, vectors), evidence, why)


class AnnotatedTuner:
    """A tuner that learns from annotated pictures, at least two of them positive.

    Attributes:
        session_type: class that trains on the data.
        needs: backends that can be trained, for error messages.
    """

    tool: str
    role: str
    session_type: ClassVar[type[TrainingSession[Any]]]
    needs: ClassVar[str]

    @staticmethod
    def can_learn(backend: Any) -> bool:
        """Return whether a backend can be trained."""
        raise NotImplementedError

    def learn(
        self,
        using: base.Using,
        data: TrainingData,
        options: base.TunerOptions = base.USUAL,
        on_progress: base.Progress | None = None,
    ) -> list[base.TrainedPrompt]:
        """Train prompts as :meth:`viper.tuning.soft_prompts.base.Tuner.learn` does.

        Raises:
            UsageError: the backend takes no soft prompts, there are fewer than two positive
                pictures, or no picture has an object of the concept.
            MediaError, DataError: a picture cannot be read.
        """
        if len(data.positives) < 2:
            raise UsageError(
                f"{len(data.positives)} picture of {data.concept!r}; the {self.role} needs "
                "two, one of them to judge what it learned from the other"
            )
        with using() as backend:
            if not self.can_learn(backend):
                name = getattr(backend, "model_id", type(backend).__name__)
                raise UsageError(f"the {self.role} {name} takes no soft prompts; use {self.needs}")
        return self.session_type(using, data, options, on_progress).trained()
