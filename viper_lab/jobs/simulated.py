"""A simulated reviewer, and an audit of planted labels, on the cases that the study has fitted.

What every candidate answers about a job's labelled cases is known by then, so both choose and fit
again many times without running a model.

- `reviewed` splits the cases at random into a folder and cases that judge, and labels the folder
  five at a time, in the order of ``viper review`` and at random. It counts the labels after which
  the surest 80 % of answers stay at 5 % risk.
- `audited` changes a tenth of the labels and asks for the most suspected tenth, by the programs
  that agree as ``viper audit`` does, and by a detector: cases in which the zero-shot program
  contradicts the label, those first whose weakest detection is surest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from viper.jobs.cases import Label
from viper.jobs.choice import agreement, kept_of, out_of_fold
from viper.jobs.evidence import Evidence, gather
from viper.jobs.fitting import Fitting
from viper.jobs.job import FitSettings, Job, for_jobs
from viper.jobs.outcomes import Outcomes, candidate_engine
from viper.models.media import media_from
from viper.storage.json_lines import append_line, read_lines
from viper.strategies.base import Components
from viper_lab.jobs.study import SILENT, StudyJob, folder_of

SIMULATED = "simulated.jsonl"

# With fewer labels there is nothing to choose from.
LEAST_LABELS = 60

# Random splits of a job's cases.
SPLITS = 10

# Labels to begin with, and labels between two fits.
FIRST, _STEP = 10, 5

# Share of the cases that judge.
_JUDGING = 1 / 3

# What is to be reached: the risk of the surest answers, and their share.
_RISK, _COVERAGE = 0.05, 0.80

# Share of labels that are planted, and of cases that are looked at.
_TENTH = 0.10


@dataclass(frozen=True)
class Simulated:
    """What a split of a job came to.

    Attributes:
        folder: labels that there were.
        review, random: labels from which on the risk was kept; more than ``folder`` if it never
            was.
        planted: number of planted labels, as many as are looked at.
        found, by_detector: planted ones among those that are looked at.
    """

    job: str
    group: str
    seed: int
    split: int
    folder: int
    review: int
    random: int
    planted: int
    found: int
    by_detector: int

    @property
    def key(self) -> tuple[str, int, int]:
        return self.job, self.seed, self.split


def read_simulated(out: Path) -> dict[Any, Simulated]:
    """Return what earlier sessions simulated."""
    return {row.key: row for row in read_lines(out / SIMULATED, Simulated, "a simulation")}


def simulate(job: StudyJob, seed: int, out: Path, known: dict[Any, Simulated]) -> None:
    """Add the splits of a job that the study has fitted, as far as they are not known."""
    folder = folder_of(job, seed, out)
    todo = [split for split in range(SPLITS) if (job.name, seed, split) not in known]
    if not todo or not folder.is_dir():
        return
    with Job(folder) as opened, closing(for_jobs(job.profile).components()) as components:
        labels = opened.labels()
        tried = opened.tried(for_jobs(job.profile))
        outcomes = Outcomes(tried)
        fitting = Fitting(tried, components, candidate_engine(components), labels,
                          FitSettings(seed=seed), outcomes, lambda text: None, SILENT)  # fmt: skip
        evidence = fitting.evidence()
        surest = [_weakest(components, label) for label in labels]
        of_labels = partial(gather, outcomes=outcomes, candidates=evidence.candidates,
                            measures=fitting.measures, measuring=fitting.measuring)  # fmt: skip
        for split in todo:
            draw = np.random.default_rng([seed, split])
            review, random, size = reviewed(evidence, draw)
            planted, found, by_detector = audited(labels, of_labels, surest, draw, seed)
            row = Simulated(job.name, job.group, seed, split, size, review, random, planted,
                            found, by_detector)  # fmt: skip
            append_line(out / SIMULATED, row)
            known[row.key] = row
        outcomes.close()


def reviewed(evidence: Evidence, draw: np.random.Generator) -> tuple[int, int, int]:
    """Return the labels that review and random order need, and how many there are."""
    order = draw.permutation(len(evidence.cases))
    judging = order[: round(_JUDGING * len(order))]
    folder = order[len(judging) :]
    by_random = folder.tolist()

    needed = []
    for is_review in (True, False):
        labelled, rest, since = by_random[:FIRST], by_random[FIRST:], 0
        while True:
            kept = kept_of(evidence.hypotheses(np.array(labelled)))
            agreeing = agreement(kept)
            surest = judging[np.argsort(-agreeing[judging], kind="stable")]
            given = surest[: int(np.ceil(_COVERAGE * len(judging)))]
            if (~kept[0].right[given]).mean() > _RISK:
                since = len(labelled) + _STEP
            if not rest:
                break
            if is_review:
                rest = sorted(rest, key=agreeing.__getitem__)
            labelled, rest = [*labelled, *rest[:_STEP]], rest[_STEP:]
        needed.append(max(FIRST, since))
    return needed[0], needed[1], len(folder)


def audited(
    labels: Sequence[Label],
    of_labels: Callable[[Sequence[Label]], Evidence],
    surest: Sequence[float],
    draw: np.random.Generator,
    seed: int,
) -> tuple[int, int, int]:
    """Return how many labels are planted, and how many of these both rankings put into a tenth."""
    count = max(1, round(_TENTH * len(labels)))
    planted = set(draw.choice(len(labels), count, replace=False).tolist())
    changed = [
        replace(label, answer=_another(label, labels, draw)) if index in planted else label
        for index, label in enumerate(labels)
    ]
    evidence = of_labels(changed)
    judged = out_of_fold(evidence, seed)
    suspected = [i for i in range(len(labels)) if not judged.right[i] and judged.agreeing[i] > 0]
    by_programs = sorted(suspected, key=lambda i: -judged.agreeing[i])
    contradicted = np.flatnonzero(~judged.zero_shot).tolist()
    by_detector = sorted(contradicted, key=lambda i: -surest[i])
    found, by_score = (len(planted & {*each[:count]}) for each in (by_programs, by_detector))
    return count, found, by_score


def _another(label: Label, labels: Sequence[Label], draw: np.random.Generator) -> Any:
    others = [other.answer for other in labels if other.words != label.words]
    return others[int(draw.integers(len(others)))]


def _weakest(components: Components, label: Label) -> float:
    """Return the least score of what is detected; 0 in clips, and where nothing is detected."""
    models = components.toolbox.models
    if label.kind != "image" or "detector" not in models.roles:
        return 0.0
    least = components.toolbox.settings.start_thresholds(self_tune=False)["detector.threshold"]
    vocabulary = models.trait("detector", "vocabulary", None)
    nouns = ["thing"] if vocabulary is None else list(vocabulary.nouns)

    def found(detector: Any) -> list[float]:
        encoding = detector.encode(media_from(label.media).images[:1])[0]
        boxes = [box for each in detector.detect(encoding, nouns) for box in each]
        return [box.score for box in boxes if box.score >= least]

    return min(models.run("detector", found), default=0.0)
