"""Parts ``counting`` and ``existence``: does the confidence of answers about photographs hold?

Programs that are known to be right ask the detector of the data: how many of each category that
occurs there are, and whether there are any, half of them absent. What is left to err is what the
profile ``photo-lite`` sees. :func:`calibrated` fits the confidence on the development pictures,
cross-validated by picture, and writes it as a profile; the pictures that are held back and another
folder judge it. --quick leaves nothing out: both take some two minutes of two cores, and fewer
pictures fit a confidence that promises little.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tomlkit

from viper.agreement import is_correct
from viper.data.sample import DatasetSpec
from viper.errors import UsageError
from viper.evaluate.calibration import fit_confidence, labelled_answers, risk_coverage
from viper.evaluate.campaign import SampledEvaluation, answer_all
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.intervals import Estimate, Floats, OverSeeds, cluster_numbers, share
from viper.evaluate.runs.store import RunStore
from viper.profiles.backends import ONNX
from viper.profiles.files import with_values
from viper.profiles.wiring import Profile, load_profile
from viper.reasoner import RunOptions
from viper.schema import Trace, to_json
from viper.storage.files import write_file
from viper.strategies.confidence import CHECKED
from viper_lab.papers.result import Claim, Gain, TableCell, in_percent
from viper_lab.photographs.job import DEVELOPMENT, ELSEWHERE, Measured, PhotographJob

PROGRAMS = {
    "count": """
def execute_command(image, question):
    name = question.removeprefix("How many ").removesuffix(" are there?")
    return len(ImagePatch(image).find(name))
""",
    "exists": """
def execute_command(image, question):
    name = question.removeprefix("Are there any ").removesuffix(" in the picture?")
    return bool_to_yesno(ImagePatch(image).exists(name))
""",
}

DETECTOR = "detector.threshold"

# Most times the model calls of a run that agreement checks may cost.
MOST_COST = 3.0


@dataclass(frozen=True)
class Kind:
    """What must hold for a kind of question.

    Attributes:
        answers: the calibration of its answers, see :func:`viper.strategies.confidence.kind_of`.
    """

    name: str
    answers: str
    risk: float
    coverage: float


COUNT, EXISTS = Kind("count", "number", 0.25, 0.30), Kind("exists", "truth", 0.10, 0.50)


@dataclass(frozen=True)
class Judged:
    """An answered question; ``score`` is that of the detector alone."""

    cluster: str
    right: bool
    confidence: float
    score: float


def counting(job: PhotographJob) -> Measured:
    """Measure "how many", and what agreement checks cost."""
    measured, answers = _measured(job, COUNT)
    if not answers:
        return measured
    gain = _area_gain(answers)
    claim = "the confidence of counts has a smaller area of risk by coverage than the score"
    cost = _cost(job)
    reason = f"{cost:.2f} x the model calls of a run without"
    return replace(
        measured,
        gains=[Gain("counting", "area by confidence", "all", gain)],
        claims=[
            *measured.claims,
            Claim.of_gain(claim, gain),
            Claim("agreement checks cost at most 3 x one run", cost <= MOST_COST, reason),
        ],
    )


def existence(job: PhotographJob) -> Measured:
    """Measure "are there any", half of them absent."""
    return _measured(job, EXISTS)[0]


def calibrated(job: PhotographJob) -> Profile:
    """Return the profile of the job if calibrated, else fit it on the development pictures."""
    if job.calibration is not None:
        return job.profile()
    path = job.out / "calibration.toml"
    profile = job.profile()
    stores = [_answers(job, profile, kind, DEVELOPMENT, "rest") for kind in (COUNT, EXISTS)]
    fitted, _ = fit_confidence([each for store in stores for each in labelled_answers(store)])
    own = job.out / "photo-lite.toml"
    detector = {"backend": ONNX, "model": profile.document.roles["detector"].model}
    write_file(own, tomlkit.dumps({"extends": "photo-lite", "roles": {"detector": detector}}))
    write_file(path, with_values(own, path.stem, confidence={CHECKED: fitted}))
    return load_profile(str(path))


def _measured(job: PhotographJob, kind: Kind) -> tuple[Measured, list[Judged]]:
    profile = calibrated(job)
    calibration = profile.document.confidence.get(CHECKED)
    if calibration is None:
        raise UsageError(f"--calibration {job.calibration}: has no [confidence.{CHECKED}]")
    limit = calibration.kinds.get(kind.answers, calibration).limit(kind.risk)
    table, rows, everything = f"{kind.name}, photographs", [], list[Judged]()
    split = "held" if job.calibration is None else "all"
    for folder, part in ((DEVELOPMENT, split), (ELSEWHERE, "all")):
        answers = _judged(_answers(job, profile, kind, folder, part))
        rows += _rows(table, folder, answers, limit)
        everything += answers
    rows += _rows(table, "together", everything, limit)
    claims = _claims(kind, everything, limit)
    return Measured(rows, (), claims), everything


def _answers(job: PhotographJob, profile: Profile, kind: Kind, folder: str, part: str) -> RunStore:
    """Answer the questions of a kind about the pictures of a part of a folder, once."""
    spec = DatasetSpec(job.folder(folder), f"{part}:{kind.name}")
    evaluation = Evaluation("coco", spec, programs=PROGRAMS)
    return _answered(profile, evaluation, job.out / kind.name / f"{Path(folder).name}-{part}")


def _answered(profile: Profile, evaluation: Evaluation, folder: Path) -> RunStore:
    with closing(profile.components()) as components:
        sampled = SampledEvaluation.of(evaluation)
        document = to_json(replace(profile.document, path=None))
        answer_all(components, sampled, folder, document)
    return RunStore.read(folder)


def _judged(store: RunStore) -> list[Judged]:
    """Return the answered questions; an answer without a confidence is the least confident."""
    answers = []
    for row in store.rows():
        trace = store.read_trace(row.sample_id, row.seed)
        confidence = None if row.prediction is None else row.prediction.confidence
        answers.append(
            Judged(
                row.cluster,
                is_correct(row.score),
                0.0 if confidence is None else confidence,
                0.0 if trace is None else _score(trace),
            )
        )
    return answers


def _score(trace: Trace) -> float:
    """Return the score of the weakest box that counts, 0 without one."""
    trial = trace.answering
    calls = () if trial is None else trial.tool_calls
    scores = [score for call in calls if call.judged_by for score in call.scores]
    least = 0.0 if trial is None else max(trial.thresholds.get(DETECTOR, 0.0), 0.0)
    return min((score for score in scores if score >= least), default=0.0)


def _rows(
    table: str, family: str, answers: Sequence[Judged], limit: float | None
) -> list[TableCell]:
    given = [each for each in answers if limit is not None and each.confidence >= limit]
    measured = risk_coverage([a.confidence for a in answers], [a.right for a in answers])
    cells = {
        "all answers right": share([a.right for a in answers], [a.cluster for a in answers]),
        "answered at the risk asked": _coverage(answers, given),
        "wrong among these": share([not a.right for a in given], [a.cluster for a in given]),
        "area of risk by coverage": measured.area,
        "calibration error": measured.calibration_error,
    }
    return [
        TableCell(table, name, family, OverSeeds(each.value, None, 1), each.n,
                  f"[{100 * each.low:.1f}, {100 * each.high:.1f}]")
        for name, each in cells.items()
    ]  # fmt: skip


def _coverage(answers: Sequence[Judged], given: Sequence[Judged]) -> Estimate:
    chosen = {id(each) for each in given}
    return share([id(each) in chosen for each in answers], [each.cluster for each in answers])


def _claims(kind: Kind, answers: Sequence[Judged], limit: float | None) -> list[Claim]:
    given = [each for each in answers if limit is not None and each.confidence >= limit]
    risk = share([not each.right for each in given], [each.cluster for each in given])
    coverage = _coverage(answers, given)
    half = (risk.high - risk.low) / 2
    reason = f"{in_percent(risk)}, half-width {100 * half:.1f}, n = {risk.n:,}"
    return [
        Claim(
            f"{kind.name}: with a risk of {kind.risk:g} asked, the risk is at most that and the "
            "half-width of its interval",
            None if not given else risk.value <= kind.risk + half,
            reason if given else "no answer at this risk",
        ),
        Claim(
            f"{kind.name}: at least {kind.coverage:.0%} are answered",
            coverage.value >= kind.coverage,
            f"{in_percent(coverage)}, n = {coverage.n:,}",
        ),
    ]


def _area(confidence: Floats, wrong: Floats) -> float:
    falling = wrong[np.argsort(-confidence, kind="stable")]
    return float((np.cumsum(falling) / np.arange(1, len(falling) + 1)).mean())


def _area_gain(answers: Sequence[Judged], resamples: int = 1_000) -> Estimate:
    """Return by how much the area is smaller than by the score; bootstrap over pictures."""
    wrong = np.array([not each.right for each in answers], dtype=float)
    ours, score = (
        np.array([getattr(each, name) for each in answers]) for name in ("confidence", "score")
    )
    clusters = cluster_numbers([each.cluster for each in answers], len(answers))
    of_cluster = [np.flatnonzero(clusters == number) for number in range(clusters.max() + 1)]
    random = np.random.default_rng(0)
    draws = []
    for _ in range(resamples):
        picked = random.integers(0, len(of_cluster), len(of_cluster))
        rows = np.concatenate([of_cluster[number] for number in picked])
        draws.append(_area(score[rows], wrong[rows]) - _area(ours[rows], wrong[rows]))
    low, high = np.percentile(draws, [2.5, 97.5])
    gain = _area(score, wrong) - _area(ours, wrong)
    return Estimate(gain, len(answers), float(low), float(high))


def _cost(job: PhotographJob) -> float:
    """Return the model calls of runs with checks by those without, one question a picture."""
    spec = DatasetSpec(job.folder(ELSEWHERE), "all")
    of_picture: dict[str, list[str]] = {}
    for sample in Evaluation("coco", spec, programs=PROGRAMS).samples():
        of_picture.setdefault(sample.cluster, []).append(sample.sample_id)
    ids = [own[number % len(own)] for number, own in enumerate(of_picture.values())]
    calls = []
    for name, checks in (("with", True), ("without", False)):
        options = RunOptions(checks=checks)
        evaluation = Evaluation("coco", spec, ids=(*ids,), options=options, programs=PROGRAMS)
        store = _answered(job.profile(), evaluation, job.out / "cost" / name)
        calls.append(sum(row.usage.model_calls for row in store.rows()))
    return calls[0] / calls[1]
