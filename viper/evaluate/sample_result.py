"""Result of one sample, the unit of figures, reports and the run store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viper.data.sample import Sample
from viper.models.vision.roles import Pixels
from viper.schema import Answer, PixelBox, Usage


@dataclass(frozen=True)
class Prediction:
    """Answer of this library, or of the author of a predictions file.

    Attributes:
        value: text, number, truth value or None, as ``viper.schema.Answer.value``.
        box: box of a grounding, ``(x0, y0, x1, y1)`` in pixels from the top-left corner.
        choice_index: index of the chosen option, from 0.
        confidence: probability that the answer is right, in [0, 1]; None if it is not known.
        picture: edited picture, uint8 [H, W, 3], for the judge; it is not stored.
    """

    __pydantic_config__ = {"arbitrary_types_allowed": True}

    value: Any = None
    box: PixelBox | None = None
    choice_index: int | None = None
    confidence: float | None = None
    picture: Pixels | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, answer: Answer) -> Prediction:
        """Return a run's answer in the form that metrics take."""
        return cls(answer.value, answer.box, answer.choice_index, answer.confidence)


@dataclass(frozen=True)
class Score:
    """Score of one prediction.

    Attributes:
        value: score in [0, 1]; its mean over all samples is the headline figure of most metrics.
        details: further values of the sample by name, as ``{"iou": 0.7, "acc@0.5": 1.0}``.
    """

    value: float
    details: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleResult:
    """Result of one sample under one seed. A failed sample has score 0 and a kind of failure.

    Attributes:
        failure: None for an answer, right or wrong. Else the reason without an answer: a
            kind of :class:`viper.schema.Failure`, the ``code`` of an error that ended the run
            (``media``, ``model``, ``budget``, ``deadline``), or ``missing`` (``viper data score``).
        message: the failure in words.
        marks: flags for the report, as ``fallback:average_box``.
        seconds: wall-clock time, waiting for shared models included.
    """

    sample_id: str
    seed: int
    score: float
    details: Mapping[str, float] = field(default_factory=dict)
    failure: str | None = None
    message: str | None = None
    prediction: Prediction | None = None
    text: str = ""
    task: str = ""
    target: Any = None
    options: tuple[str, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""
    files: tuple[str, ...] = ()
    program: str | None = None
    marks: tuple[str, ...] = ()
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)

    @classmethod
    def of(cls, sample: Sample, seed: int, score: float = 0.0, **judged: Any) -> SampleResult:
        """Build a result with everything a report needs of its sample; ``judged``: other fields."""
        return cls(
            sample_id=sample.sample_id,
            seed=seed,
            score=score,
            text=sample.text,
            task=sample.task,
            target=sample.target,
            options=sample.options,
            groups=dict(sample.groups),
            cluster=sample.cluster,
            files=sample.files,
            **judged,
        )


def mean_score(results: Sequence[SampleResult]) -> float:
    """Return the mean score; 0 without results."""
    return sum(result.score for result in results) / len(results) if results else 0.0
