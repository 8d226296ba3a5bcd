"""Language-guided editing, judged automatically."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from viper.data.edit_target import EditTarget
from viper.data.sample import Sample
from viper.errors import UsageError
from viper.evaluate.metrics.figures import (
    Figures,
    Metric,
    figures_of,
    share_of,
)
from viper.evaluate.row import Prediction, Row, Score
from viper.evaluate.scorers.edits import NOT_EDITED, EditVerdict, JudgeOf, edit_verdict
from viper.tools.media import media_from


@runtime_checkable
class LooksAtPictures(Protocol):
    """A metric that has somebody look at edited pictures."""

    def judged_by(self, judge_of: JudgeOf) -> Metric:
        """The same metric with a judge, unless it has one."""
        ...


@dataclass(frozen=True)
class Editing:
    """``edited``: right edits / all; ``asked``, ``gone``, ``unchanged``: the three things apart.

    An edit is right if what was asked is there, what was there is gone, and no pixel beyond reach
    of the edit has changed; see :func:`viper.evaluate.scorers.edits.edit_verdict`.

    Source: CLOVA (Gao et al. 2024, sec. 4.1) asks people whether an edit is semantically correct;
    :mod:`viper.evaluate.judgements` asks them, too.

    Attributes:
        judge_of: looks at what was painted; None where rows that are judged already are counted.
    """

    judge_of: JudgeOf | None = None
    name: str = "editing"

    def judged_by(self, judge_of: JudgeOf) -> Editing:
        """The same metric with a judge, unless it has one."""
        return self if self.judge_of is not None else replace(self, judge_of=judge_of)

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """1 if all three hold, else 0; each of them in the details.

        Raises:
            UsageError: there is no judge, or the sample does not say what is right.
        """
        if not isinstance(sample.target, EditTarget):
            raise UsageError(
                f"sample {sample.sample_id} does not say what the edit must be; take the metric "
                "'mixed', or export pictures with --judgements"
            )
        if self.judge_of is None:
            raise UsageError("edits need a judge; give Editing one, as viper eval does")
        verdict = NOT_EDITED
        if prediction is not None and prediction.picture is not None:
            before = media_from(sample.load()).images[0]
            judge = self.judge_of(sample)
            verdict = edit_verdict(before, prediction.picture, sample.target, judge)
        found = {name: float(value) for name, value in verdict._asdict().items()}
        return Score(float(verdict.right), found)

    def figures(self, rows: Iterable[Row]) -> Figures:
        """The four shares; groups by ``edited``."""
        rows = list(rows)
        parts = {name: share_of(rows, name) for name in EditVerdict._fields}
        return figures_of(rows, {"edited": share_of(rows), **parts}, share_of)
