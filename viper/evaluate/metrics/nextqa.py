"""NExT-QA multiple choice."""

from __future__ import annotations

from collections.abc import Iterable

from viper.data.sample import Sample
from viper.evaluate.metrics.accuracy import right_choice
from viper.evaluate.metrics.figures import Figures, figures_of, share_of
from viper.evaluate.sample_result import Prediction, SampleResult, Score

TYPES = ("CW", "CH", "TN", "TC", "DC", "DL", "DO")
"""Causal (why, how), temporal (next and previous, current), descriptive (count, place, other)."""

LETTERS = ("C", "T", "D")


class NextQA:
    """Accuracy by type, by the type's first letter, and ``overall``; TP is counted as TN.

    The type is the sample's group ``type``. A type that does not occur has n = 0.
    Source: ``eval_mc.py`` of NExT-QA (Xiao et al. 2021). Differs: what is right stands in
    ``val.csv`` alone, the script reads it from the predictions.
    """

    name = "nextqa"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return 1 if the index is the target's, else 0."""
        return Score(float(prediction is not None and right_choice(sample, prediction)))

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return ``CW`` to ``DO``, ``C``, ``T``, ``D``, ``overall``; other groups by accuracy."""
        results = list(results)
        of_type: dict[str, list[SampleResult]] = {name: [] for name in (*TYPES, *LETTERS)}
        for result in results:
            kind = type_of(result)
            for name in {kind, kind[:1]} & of_type.keys():
                of_type[name].append(result)
        estimates = {name: share_of(mine) for name, mine in of_type.items()}
        return figures_of(results, {**estimates, "overall": share_of(results)}, share_of)


def type_of(result: SampleResult) -> str:
    """Return the question's type. Previous (TP) counts as next (TN), as in the official report."""
    kind = result.groups.get("type", "")
    return "TN" if kind == "TP" else kind
