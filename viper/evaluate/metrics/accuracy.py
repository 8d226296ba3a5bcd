"""Accuracy: the share of right answers, for plain answers and sets that count by groups.

`right_by_task` and its parts decide whether one answer is right; `Accuracy` and its subclasses
count. `Grounding` and `Tagging` score boxes, without and with labels. `Mixed` is the metric of a
user's own set, whose tasks have a score each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from viper.agreement import box_iou, is_correct, match_tags, normalise_answer, same_box
from viper.data.sample import Sample
from viper.evaluate.intervals import Estimate, proportion, ratio
from viper.evaluate.metrics import Metric
from viper.evaluate.metrics.figures import (
    Figures,
    Results,
    beside,
    clusters,
    figures_of,
    mean_of,
    scores,
    share_of,
)
from viper.evaluate.sample_result import Prediction, SampleResult, Score


@dataclass(frozen=True)
class Accuracy:
    """``accuracy``: right answers / all samples, overall and by every group.

    Attributes:
        right: returns whether a prediction is right.
        figure: the name of the share.
    """

    name: str
    right: Callable[[Sample, Prediction], bool]
    figure: str = "accuracy"

    # Groups with few results each. They get no breakdown.
    no_breakdown: ClassVar[tuple[str, ...]] = ()

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return 1 if the prediction is right, else 0.

        A sample without right answers (target ``()``) is right if it has no prediction.
        """
        if prediction is None:
            return Score(float(sample.target == ()))
        return Score(float(self.right(sample, prediction)))

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return the figures over all results; groups by their share of right answers."""
        results = Results.of(results)
        return figures_of(results, self.overall(results), share_of, self.no_breakdown)

    def overall(self, results: Results) -> Mapping[str, Estimate]:
        """Return the share of right answers."""
        return {self.figure: share_of(results)}


def answer_correct(prediction: Any, target: str | Iterable[str]) -> bool:
    """Return whether the prediction equals a target after :func:`normalised`.

    None is never right, and neither is an answer that normalisation leaves empty.
    Source: GQA (Hudson and Manning 2019) compares strings exactly, see :class:`ExactBeside`.
    Differs: both sides are normalised, because free answers of programs are compared with
    annotations of one fixed form; ViperGPT normalises the prediction alone, which makes
    ``the dog``, ``t-shirt`` or ``two`` wrong wherever the annotation says just that.
    """
    if prediction is None:
        return False
    answer = normalise_answer(prediction)
    return bool(answer) and any(answer == normalise_answer(text) for text in _texts(target))


def _texts(target: str | Iterable[str]) -> Iterable[str]:
    return [target] if isinstance(target, str) else target


def truth_of(value: Any) -> bool | None:
    """Return a truth value, or that of ``true`` or ``false`` in any case; None for anything else.

    Source: NLVR's ``metrics_images.py`` compares the predicted word with the label without
    case and strips nothing: ``" true"`` and ``yes`` are no right answers there.
    """
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def right_answer(sample: Sample, prediction: Prediction) -> bool:
    """Return whether a question's answer equals the target, or one of the targets."""
    return answer_correct(prediction.value, sample.target)


def right_choice(sample: Sample, prediction: Prediction) -> bool:
    """Return whether the chosen option is the target's."""
    return prediction.choice_index is not None and prediction.choice_index == sample.target


def right_statement(sample: Sample, prediction: Prediction) -> bool:
    """Return whether the truth value is the target's; see :func:`truth_of`."""
    truth = truth_of(prediction.value)
    return truth is not None and truth == truth_of(sample.target)


def right_by_task(sample: Sample, prediction: Prediction) -> bool:
    """Return whether a prediction of any task is right:

    IoU at least 0.5, equal words, right option.
    """
    if sample.task == "ground":
        return prediction.box is not None and same_box(prediction.box, sample.target)
    if sample.task == "choice":
        return right_choice(sample, prediction)
    if sample.task == "statement":
        return right_statement(sample, prediction)
    if sample.task == "tag":
        return match_tags(prediction.value or (), sample.target).f1 == 1.0
    return right_answer(sample, prediction)


def came_out(sample: Sample, prediction: Prediction) -> bool:
    """Return True: every prediction counts."""
    return True


# Causal (why, how), temporal (next and previous, current), descriptive (count, place, other).
TYPES = ("CW", "CH", "TN", "TC", "DC", "DL", "DO")

LETTERS = ("C", "T", "D")


class NextQA(Accuracy):
    """Accuracy by type, by the type's first letter, and ``overall``; TP is counted as TN.

    The type is the sample's group ``type``. A type that does not occur has n = 0.
    Source: ``eval_mc.py`` of NExT-QA (Xiao et al. 2021). Differs: what is right stands in
    ``val.csv`` alone, the script reads it from the predictions.
    """

    def overall(self, results: Results) -> Mapping[str, Estimate]:
        """Return ``CW`` to ``DO``, ``C``, ``T``, ``D``, ``overall``."""
        column, estimates = results.columns["groups"], {}
        types = [dict(groups).get("type", "") for groups in column.values]
        # Previous (TP) counts as next (TN), as in the official report.
        kinds = [each.replace("TP", "TN") for each in types]
        for name in (*TYPES, *LETTERS):
            is_one = column.of([name in (kind, kind[:1]) for kind in kinds]).astype(bool)
            estimates[name] = share_of(results.select(is_one))
        return {**estimates, "overall": share_of(results)}


class Consistency(Accuracy):
    """``accuracy``: right results / all. ``consistency``: clusters with only right results / all.

    A result without a cluster is its own cluster.
    """

    no_breakdown = ("example",)

    def overall(self, results: Results) -> Mapping[str, Estimate]:
        """Return ``accuracy`` and ``consistency``."""
        wrong = [not is_correct(score) for score in scores(results).tolist()]
        counts = np.bincount(clusters(results), weights=wrong)
        consistency = proportion(int((counts == 0).sum()), len(counts))
        return {"accuracy": share_of(results), "consistency": consistency}


class ExactBeside(Accuracy):
    """``accuracy`` with the official ``exact`` beside it: the share of answers in the very words.

    Source: ``eval.py`` of GQA (Hudson and Manning 2019): a prediction counts if the string equals
    the annotation. Differs: a number counts as its digits, which GQA's annotations never are.
    """

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return 1 if the prediction is right, else 0; ``exact`` in the details."""
        value = None if prediction is None else prediction.value
        is_exact = value is not None and str(value) in _texts(sample.target)
        return replace(super().score(sample, prediction), details={"exact": float(is_exact)})

    def overall(self, results: Results) -> Mapping[str, Estimate]:
        """Return ``accuracy`` and ``exact``."""
        return {**super().overall(results), **beside(results, "exact", share_of)}


@dataclass(frozen=True)
class Balanced(Accuracy):
    """``accuracy``: mean of the groups' accuracies. Groups without results do not count.

    Attributes:
        by: names of groups, the widest first. Accuracies of the last are averaged within a group
            of the one before.
    """

    by: tuple[str, ...] = ()

    def overall(self, results: Results) -> Mapping[str, Estimate]:
        """Return ``accuracy``."""
        values = scores(results)
        if not 0 < values.sum() < len(values):
            return super().overall(results)
        # The weight of a result is its share in the mean of means.
        paths, depths = Counter[tuple[str, ...]](), range(len(self.by) + 1)
        column = results.columns["groups"]
        for groups, count in column.counts().items():
            paths[self._path(groups)] += count
        parts = {path[:depth] for path in paths for depth in depths[1:]}
        members = Counter(part[:-1] for part in parts) + paths
        shares = [
            1 / math.prod(members[self._path(groups)[:depth]] or 1 for depth in depths)
            for groups in column.values
        ]
        weights = column.of(shares)
        right = values * weights
        return {self.figure: ratio(right, weights, clusters(results))}

    def _path(self, groups: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        return tuple(dict(groups).get(name, "") for name in self.by)


class Grounding:
    """``mean_iou``, ``acc@0.5``, ``acc@0.7``; intervals resample pictures, not expressions.

    Source: mean IoU as in Stanić et al. 2024, sec. 3; acc@0.5 (IoU at least 0.5) as in Yu et al.
    2016; acc@0.7 (IoU above 0.7) as in ViperGPT's ``datasets/refcoco.py``.
    Differs: without a box the IoU is 0; ViperGPT uses an average box instead.
    """

    name = "grounding"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return the IoU, with ``iou``, ``acc@0.5`` and ``acc@0.7`` in the details."""
        box = prediction.box if prediction is not None else None
        iou = box_iou(box, sample.target) if box is not None else 0.0
        # at least .5 but above .7: each as its source counts, see above
        return Score(iou, {"iou": iou, "acc@0.5": float(iou >= 0.5), "acc@0.7": float(iou > 0.7)})

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return the three figures; groups by mean IoU."""
        results = Results.of(results)
        shares = {name: share_of(results, name) for name in ("acc@0.5", "acc@0.7")}
        return figures_of(results, {"mean_iou": mean_of(results), **shares}, mean_of)


class Tagging:
    """``f1``: mean over pictures; ``f1_pooled``, ``precision``, ``recall`` over all tags.

    Source: :func:`viper.agreement.match_tags`. A picture that failed has F1 0, and
    its tags count as missed.
    """

    name = "tagging"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return F1, with ``matched``, ``predicted`` and ``expected`` in the details."""
        if prediction is None:
            return Score(0.0, {"expected": float(len(sample.target))})
        counts = match_tags(prediction.value or (), sample.target)
        return Score(counts.f1, {name: float(n) for name, n in counts._asdict().items()})

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return the four figures; groups by ``f1``."""
        results = Results.of(results)
        matched, predicted = scores(results, "matched"), scores(results, "predicted")
        expected, units = results.numbers["target"], clusters(results)
        overall = {
            "f1": mean_of(results),
            "f1_pooled": ratio(2 * matched, predicted + expected, units),
            "precision": ratio(matched, predicted, units),
            "recall": ratio(matched, expected, units),
        }
        return figures_of(results, overall, mean_of)


_OF_TASK: Mapping[str, Metric] = {
    "ground": Grounding(),
    "question": Accuracy("answers", right_by_task),
    "choice": Accuracy("choice", right_choice),
    "statement": Accuracy("statement", right_statement),
    "tag": Tagging(),
}


class Mixed:
    """``mean_score`` over all samples but edits, and every task's own figures as ``TASK.FIGURE``.

    Scores: the IoU of a box, 0 or 1 of an answer, a choice, a statement, the F1 of tags.
    ``edit.came_out`` only says how often there was a picture. Its content is not judged, so it is
    not part of the mean.
    """

    name = "mixed"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return the score of the sample's task; for an edit, whether there is a picture."""
        return _OF_TASK.get(sample.task, answered()).score(sample, prediction)

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return ``mean_score``, the tasks' figures and ``edit.came_out``; groups without edits."""
        results = Results.of(results)
        is_judged = results.where("task", lambda task: task in _OF_TASK)
        judged = results.select(is_judged)
        overall = {"mean_score": mean_of(judged)}
        for task, scorer in _OF_TASK.items():
            if mine := judged.select(judged.where("task", task.__eq__)):
                of_task = scorer.figures(mine).overall
                overall |= {f"{task}.{name}": estimate for name, estimate in of_task.items()}
        if edits := results.select(~is_judged):
            overall["edit.came_out"] = share_of(edits)
        return figures_of(results, overall, mean_of, grouped=judged)


# Source: Hudson and Manning 2019, sec. 4. Differs: the headline normalises both sides
# (answer_correct), because programs return truth values and numbers.
gqa = partial(ExactBeside, "gqa", right_answer)

nextqa = partial(NextQA, "nextqa", right_choice)

# A result is a PNG, a cluster the first number of its identifier. Source: metrics_images.py of NLVR
# (Suhr et al. 2017), which calls accuracy precision.
nlvr = partial(Consistency, "nlvr", right_statement)

# A result is a sentence with two pictures, a cluster the sentence: the identifier
# dev-SET-PAIR-SENTENCE without its PAIR. Source: nlvr2/eval/metrics.py (Suhr et al. 2019).
nlvr2 = partial(Consistency, "nlvr2", right_statement)

# A result is one order of the options, a cluster a question. Source: HRBenchDataset.evaluate of
# https://github.com/DreamMr/HR-Bench averages the accuracies of the four orders. That is the
# accuracy over all rows, since each order has every question. Differs: no language model judges
# whether an answer is right.
hrbench = partial(Consistency, "hrbench", right_choice)

# The mean of the subtasks' accuracies. Source: eval/evaluate.py of
# https://github.com/zeyofu/BLINK_Benchmark (Fu et al. 2024).
blink = partial(Balanced, "blink", right_choice, by=("subtask",))

# The mean of 2D, itself that of ADE20K and COCO, and 3D. Source: the card of
# https://huggingface.co/datasets/nyu-visionx/CV-Bench (Tong et al. 2024).
cvbench = partial(Balanced, "cvbench", right_choice, by=("type", "source"))

answers = partial(Accuracy, "answers", right_by_task)

answered = partial(Accuracy, "answered", came_out, "answered")
