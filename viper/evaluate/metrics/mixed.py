"""Metric of a user's own set: several tasks, each with its own score."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from viper.data.sample import Sample
from viper.evaluate.metrics import accuracy
from viper.evaluate.metrics import figures as estimates
from viper.evaluate.metrics.grounding import Grounding
from viper.evaluate.metrics.tagging import Tagging
from viper.evaluate.sample_result import Prediction, SampleResult, Score

_OF_TASK: Mapping[str, estimates.Metric] = {
    "ground": Grounding(),
    "question": accuracy.answers(),
    "choice": accuracy.Accuracy("choice", accuracy.right_choice),
    "statement": accuracy.Accuracy("statement", accuracy.right_statement),
    "tag": Tagging(),
}

_EDIT = accuracy.Accuracy("edit", accuracy.came_out)


class Mixed:
    """``mean_score`` over all samples but edits, and every task's own figures as ``TASK.FIGURE``.

    Scores: the IoU of a box, 0 or 1 of an answer, a choice, a statement, the F1 of tags.
    ``edit.came_out`` only says how often there was a picture. Its content is not judged, so it is
    not part of the mean.
    """

    name = "mixed"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return the score of the sample's task; for an edit, whether there is a picture."""
        return _OF_TASK.get(sample.task, _EDIT).score(sample, prediction)

    def figures(self, results: Iterable[SampleResult]) -> estimates.Figures:
        """Return ``mean_score``, the tasks' figures and ``edit.came_out``; groups without edits."""
        results = list(results)
        judged = [result for result in results if result.task in _OF_TASK]
        edits = [result for result in results if result.task not in _OF_TASK]
        overall = {"mean_score": estimates.mean_of(judged)}
        for task, scorer in _OF_TASK.items():
            if mine := [result for result in judged if result.task == task]:
                of_task = scorer.figures(mine).overall
                overall |= {f"{task}.{name}": estimate for name, estimate in of_task.items()}
        if edits:
            overall["edit.came_out"] = estimates.share_of(edits)
        figures = estimates.figures_of(judged, overall, estimates.mean_of)
        return replace(figures, failures=estimates.failure_shares(results), n=len(results))
