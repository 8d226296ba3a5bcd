"""Part ``questions``: are questions withheld that ``photo-lite`` cannot answer, and no others?

The questions are those of ``photos/everyday.jsonl`` of the data, and ``questions.jsonl`` here,
which we wrote by looking at the photographs of ``photos/coco128``; both files have one layout.
``replies.jsonl`` holds by the text of a question:

- ``program``: what a strong writer gives for it. We wrote them by hand from the API that the
  profile shows, without the picture. They were rewritten once after a first measurement, because
  the prompt tells writers to check what ``find`` returns.
- ``answerable_by``: ``detector`` if the answer follows from boxes of the detector's categories,
  their colors, sizes and places; ``none``; ``text``; ``partly`` if boxes happen to decide it
  although it names something that the profile cannot see; ``other``. The last three are not judged.
- ``why`` nothing answers it: a false ``premise``, something ``unknown`` to every viewer (a price,
  a name, a thought), or something ``unseen`` by boxes, text, colors and sizes.

A question that the data call unanswerable and that has no reply here is judged by its words alone.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from viper.agreement import is_correct
from viper.data.sample import DatasetSpec, Sample
from viper.data.source import SourceFile
from viper.evaluate.intervals import Estimate, share
from viper.evaluate.metrics.accuracy import Mixed
from viper.evaluate.sample_result import Prediction
from viper.models.llm.scripted import ScriptedLLM
from viper.reasoner import Reasoner
from viper.storage.json_lines import append_line, read_lines
from viper.strategies.base import Components
from viper_lab.datasets.everyday import EVERYDAY
from viper_lab.papers.result import Claim, TableCell, in_percent
from viper_lab.photographs.job import Measured, PhotographJob

PART, TABLE = "questions", "questions in ordinary English"
QUESTIONS, REPLIES = (
    Path(__file__).with_name(f"{name}.jsonl") for name in ("questions", "replies")
)

# Rows of the table by ``why``.
NOTHING = {
    "premise": "nothing answers: false premise",
    "unknown": "nothing answers: unknown to every viewer",
    "unseen": "nothing answers: unseen by the profile",
    "words": "nothing answers: no reply, by its words",
}

# Failures that say nothing about the question: a program that breaks has not been held back.
CRASHES = frozenset({"runtime", "return_type", "syntax", "no_program"})

# What must hold, and on how many questions at least.
LEAST_CAUGHT, MOST_WRONGLY, LEAST_QUESTIONS = 0.95, 0.10, 70


@dataclass(frozen=True)
class Reply:
    """A line of ``replies.jsonl``, see above. ``program`` is "" where none was written."""

    query: str
    answerable_by: str
    why: str = ""
    program: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a question came to.

    Attributes:
        answer: as text, "" without one.
        right: the answer is right.
        doubts: the kind of failure of a question without an answer, and the kinds of the warnings;
            empty if an answer stands without any.
    """

    sample_id: str
    program: str
    answer: str = ""
    right: bool = False
    doubts: tuple[str, ...] = ()


def measure(job: PhotographJob) -> Measured:
    """Ask every question once, as ``viper run`` does, and count what was withheld or warned."""
    asked = list(questions(job))[:: 2 if job.quick else 1]
    return judged(asked, answered(job, asked))


def questions(job: PhotographJob) -> Iterator[tuple[Sample, Reply]]:
    """Yield the questions that are judged, with their replies.

    Raises:
        UsageError: the data have no folder ``photos``.
        DataError: ``everyday.jsonl`` is missing or wrong.
    """
    root = job.folder("photos")
    own = EVERYDAY.read([SourceFile(root, str(QUESTIONS))], "all")
    pictured = (sample for sample in own if all(path.is_file() for path in sample.load()))
    replies = {reply.query: reply for reply in read_replies()}
    for sample in (*EVERYDAY.samples(DatasetSpec(root)), *pictured):
        unanswerable = sample.groups["query_type"] == "unanswerable"
        reply = replies.get(
            sample.text, Reply(sample.text, "none" if unanswerable else "", "words")
        )
        if reply.answerable_by in ("none", "detector"):
            yield sample, reply


def read_replies() -> list[Reply]:
    """Return the recorded replies."""
    return read_lines(REPLIES, Reply, "replies")


def answered(job: PhotographJob, asked: Iterable[tuple[Sample, Reply]]) -> list[Outcome]:
    """Return an outcome for each question; what an earlier run of the profile stored is kept."""
    profile = job.profile()
    digest = hashlib.sha256(repr(profile.document).encode()).hexdigest()[:12]
    store = job.out / PART / f"{digest}.jsonl"
    store.parent.mkdir(parents=True, exist_ok=True)
    stored = {(row.sample_id, row.program): row for row in read_lines(store, Outcome, "outcomes")}
    outcomes = []
    with closing(profile.components()) as components:
        for sample, reply in asked:
            outcome = stored.get((sample.sample_id, reply.program))
            if outcome is None:
                outcome = outcome_of(components, sample, reply.program)
                append_line(store, outcome)
            outcomes.append(outcome)
    return outcomes


def outcome_of(components: Components, sample: Sample, program: str) -> Outcome:
    """Answer a question by a writer that gives this program; by its words alone without one."""
    if not program:
        knows, domain = components.toolbox.settings.knows, components.domain
        words = () if domain is None else domain.unknown_words(sample.text, knows)
        return Outcome(sample.sample_id, "", doubts=("unknown_words",) if words else ())
    writer = ScriptedLLM(lambda prompt: program)
    reasoner = Reasoner(components.with_models(llm=writer), preload=False)
    result = reasoner.run(sample.load(), sample.text, task=sample.task).withheld()
    answer, failure = result.answer, result.failure
    doubts = [warning.kind for warning in result.warnings]
    right = False
    if answer is not None:
        right = is_correct(Mixed().score(sample, Prediction.of(answer)).value)
    elif failure is not None:
        doubts.insert(0, failure.kind)
    text = "" if answer is None else str(answer.value)
    return Outcome(sample.sample_id, program, text, right, tuple(doubts))


def judged(asked: Sequence[tuple[Sample, Reply]], outcomes: Sequence[Outcome]) -> Measured:
    """Return the shares on both sides with their reasons, the accuracy of answers, and claims."""
    rows: list[TableCell] = []
    every = [(*pair, outcome) for pair, outcome in zip(asked, outcomes, strict=True)]

    def row(name: str, family: str, chosen: Sequence[tuple[Sample, bool]], note: str) -> Estimate:
        """Add a cell of hits; questions about one picture are not independent."""
        hits = [hit for _, hit in chosen]
        estimate = share(hits, [sample.cluster for sample, _ in chosen])
        if hits:
            note = f"{in_percent(estimate)}{note and ': '}{note}"
            scores = [[float(hit) for hit in hits]]
            rows.append(TableCell.of_scores(TABLE, name, family, scores, note))
        return estimate

    def doubted(name: str, of: Sequence[tuple[Sample, Reply, Outcome]]) -> Estimate:
        kinds = Counter(outcome.doubts[0] for _, _, outcome in of if outcome.doubts)
        note = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        hits = [
            (sample, bool({*outcome.doubts} - (CRASHES if reply.why else frozenset())))
            for sample, reply, outcome in of
        ]
        return row(name, "withheld or warned", hits, note)

    for why, name in NOTHING.items():
        doubted(name, [each for each in every if each[1].why == why])
    caught = doubted("nothing answers", [each for each in every if each[1].why])
    answerable = [each for each in every if not each[1].why]
    wrongly = doubted("the detector answers", answerable)
    undoubted = [(sample, out.right) for sample, _, out in answerable if not out.doubts]
    row("the detector answers", "right of those undoubted", undoubted, "")
    claims = [
        _claim(
            f"nothing answers: {LEAST_CAUGHT:.0%} are withheld or warned",
            caught,
            caught.value >= LEAST_CAUGHT,
        ),
        _claim(
            f"the detector answers: at most {MOST_WRONGLY:.0%} are withheld or warned",
            wrongly,
            wrongly.value <= MOST_WRONGLY,
        ),
    ]
    return Measured(rows, claims=claims)


def _claim(text: str, share: Estimate, holds: bool) -> Claim:
    """Return the claim about a share of these questions, which too few of them leave open."""
    reason = f"{in_percent(share)}, n = {share.n}"
    if share.n < LEAST_QUESTIONS:
        return Claim(text, None, f"{reason}; expected {LEAST_QUESTIONS} questions at least")
    return Claim(text, holds, reason)
