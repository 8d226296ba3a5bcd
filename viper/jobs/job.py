"""A job's folder: labels, what was tried, the program that is kept, and what is promised.

- ``labels.jsonl``: the labels (:mod:`viper.jobs.cases`)
- ``tried-…/``: for each profile and version, ``replies.jsonl`` and ``outcomes.jsonl``: what the
  writer wrote and candidates answered, so that no request and no run is repeated
- ``program.py``: the program as a script (:mod:`viper.profiles.exported`)
- ``profile.toml``: the profile with the program's thresholds
- ``report.html``, ``example.html``: the figures, and one case step by step
- ``job.json``: `JobRecord`, written last

A killed process leaves a folder that the same command continues. A job is data: its programs run
in the sandbox, and its profile names no backend but shipped ones, unless the user trusts it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from viper.errors import UsageError
from viper.evaluate.intervals import Estimate
from viper.evaluate.runs.manifest import PACKAGES
from viper.evaluate.sample_result import Prediction
from viper.jobs.candidates import Candidate
from viper.jobs.cases import Label, latest, same_answer
from viper.jobs.choice import Risk, signs
from viper.jobs.likeness import Likeness
from viper.profiles.exported import deciding_facts
from viper.profiles.wiring import Profile
from viper.record import RecordError, record_from_json
from viper.storage.files import WriterLock, file_errors
from viper.storage.json_lines import append_line, dumps, read_lines
from viper.strategies.confidence import probability

LOCK = ".lock"
JOB, PROGRAM, LABELS, REPLIES = "job.json", "program.py", "labels.jsonl", "replies.jsonl"
PROFILE, REPORT, EXAMPLE = "profile.toml", "report.html", "example.html"

# Version of the folder's files.
FORMAT = 2


@dataclass(frozen=True)
class FitSettings:
    """Settings of a fit.

    Attributes:
        requests: most requests to the program writer.
        risk: largest share of wrong answers among those given, to be promised with 90 %; None
            gives every answer.
        minutes: time after which no further program begins.
        rounds: most rewritings of the best program by a writer that converses.
    """

    requests: int = 24
    risk: float | None = None
    seed: int = 0
    minutes: float | None = None
    rounds: int = 2


@dataclass(frozen=True)
class KeptProgram(Candidate):
    """A program whose answers are compared with those of the others.

    Attributes:
        votes: its weight in the comparison, 1 for the best.
    """

    votes: float = 1.0


@dataclass(frozen=True)
class JudgedCase:
    """A labelled case and the answer to it by a choice that did not know its label.

    Attributes:
        case: its id.
        answer: the answer in words; a box as ``x0,y0,x1,y1``; "none" if there was none.
        agreeing: how far the programs agreed that were kept then, in [0, 1].
    """

    case: str
    name: str
    label: str
    answer: str
    right: bool
    confidence: float
    agreeing: float


@dataclass(frozen=True)
class JobRecord:
    """What ``job.json`` says.

    Attributes:
        kept: programs, the one that answers first.
        weights: of the confidence, by feature.
        estimate: share of unseen cases that the program is expected to answer rightly.
        baselines: the same for other ways to answer.
        remarks: what a reader must know, such as a baseline that is as good.
        promise: what is promised about answers, if a risk was asked for.
        tried: number of different programs that were run.
        requests: number of requests to the writer.
    """

    query: str
    task: str
    kind: str
    kept: tuple[KeptProgram, ...]
    weights: Mapping[str, float]
    estimate: Estimate
    baselines: Mapping[str, Estimate]
    labelled: int
    options: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    promise: Risk | None = None
    likeness: Likeness = field(default_factory=Likeness)
    judged: tuple[JudgedCase, ...] = ()
    tried: int = 0
    requests: int = 0
    settings: FitSettings = field(default_factory=FitSettings)
    format: int = FORMAT
    viper: str = field(default_factory=lambda: version(PACKAGES["viper"]))

    def agreement(self, answers: Sequence[Prediction | None]) -> float:
        """Return how far the answers of the kept programs agree with the first, in [0, 1]."""
        votes = [kept.votes for kept in self.kept]
        same = [same_answer(answers[0], other, self) for other in answers]
        return sum(v for v, is_same in zip(votes, same, strict=True) if is_same) / sum(votes)

    def confidence(self, agreement: float) -> float:
        """Return the probability that an answer with this agreement is right."""
        return probability(self.weights, signs(agreement))


class Job:
    """A job's folder, held by one process.

    Raises:
        UsageError: the folder holds something else.
        StoreError: another process holds it, or it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        strange = folder.exists() and not (folder / LABELS).is_file()
        if strange and (not folder.is_dir() or {each.name for each in folder.iterdir()} - {LOCK}):
            raise UsageError(f"{folder}: there already, and no job; choose another --out")
        link = next((each for each in folder.rglob("*") if each.is_symlink()), None)
        if link is not None:
            raise UsageError(f"{link}: is a link, which no job has")
        with file_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._lock = WriterLock(folder / LOCK, "this job")

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def labels(self) -> list[Label]:
        """Return the labels that count."""
        return latest(read_lines(self.folder / LABELS, Label, "a label"))

    def tried(self, profile: Profile) -> Path:
        """Return the folder for what is tried with a profile, which is made."""
        path = self.folder / f"tried-{mark_of(profile)}"
        with file_errors(path):
            path.mkdir(exist_ok=True)
        return path

    def add(self, labels: Sequence[Label]) -> int:
        """Keep labels that say something new; return their number."""
        known = {label.case: label for label in self.labels()}
        fresh = [
            label
            for label in labels
            if label.case not in known or dumps(known[label.case].answer) != dumps(label.answer)
        ]
        for label in fresh:
            append_line(self.folder / LABELS, label)
        return len(fresh)


def mark_of(profile: Profile) -> str:
    """Return the same letters for profiles, and versions of viper, that answer alike."""
    facts = version(PACKAGES["viper"]), deciding_facts(profile)
    return hashlib.blake2b(dumps(facts).encode(), digest_size=4).hexdigest()


def for_jobs(profile: Profile) -> Profile:
    """Return a profile that takes answers of any kind: the labels say which one is right, and not
    the words of the question.
    """
    run = replace(profile.document.run, on_misfit="ask")
    return replace(profile, document=replace(profile.document, run=run))


def read_job(folder: Path) -> JobRecord:
    """Read what a fit left in a folder.

    Raises:
        UsageError: there is no finished job, or one of another version.
    """
    path = folder / JOB
    if not path.is_file():
        if (folder / LABELS).is_file():
            raise UsageError(
                f"{folder}: its fit has not ended; go on with viper fit --out {folder}"
            )
        raise UsageError(f"{folder}: no job of viper fit")
    with file_errors(path):
        text = path.read_bytes()
    try:
        values = json.loads(text)
        written = values["format"]
        if written != FORMAT:
            raise UsageError(
                f"{folder}: written by viper {values['viper']} in format {written}; this version "
                f"reads {FORMAT}. Its labels stay: viper fit --out {folder} fits them again"
            )
        record = record_from_json(JobRecord, values)
        votes = [each.votes for each in record.kept]
        if not votes or votes[0] <= 0 or min(votes) < 0:
            raise ValueError("no program with a weight above 0")
        return record
    except (RecordError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{path}: no record of viper fit ({str(error)[:100]})") from None
