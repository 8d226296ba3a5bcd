"""Labelled cases of a job: read from a table, checked, and kept in ``labels.jsonl``.

A `Label` is one line: media by their whole paths, the question, and the right answer in the form
that metrics take. The last line about the same media and question counts, so a correction is one
more line, and nothing that a person typed is ever removed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from viper.agreement import is_correct, normalise_answer, same_box
from viper.data.own import OwnFile
from viper.data.sample import DatasetSpec, MediaFiles, Sample
from viper.errors import UsageError
from viper.evaluate.metrics import Metric, metric
from viper.evaluate.metrics.accuracy import truth_of
from viper.evaluate.sample_result import Prediction
from viper.storage.files import file_errors

# Fewer labels say next to nothing: of 8, 8 right ones still allow 25 % wrong (90 %).
LEAST_CASES = 8

# Tasks whose right answer is one value, a choice, a truth value or a box.
TASKS = ("question", "choice", "statement", "ground")

# Lines about contradictory labels, and more would not fit on a screen.
_NAMED = 5


class Asked(Protocol):
    """What is asked, by a label or a whole job."""

    @property
    def task(self) -> str: ...

    @property
    def options(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Label:
    """The right answer about one picture, several pictures, or a video.

    Attributes:
        media: whole paths.
        answer: text, texts that are all right, truth value, index of an option, or a box.
        source: ``table`` or ``review``; labels of a review were chosen, not drawn.
        given: time in UTC, ISO 8601.
    """

    media: tuple[str, ...]
    query: str
    task: str
    answer: Any
    options: tuple[str, ...] = ()
    kind: str = "image"
    source: str = "table"
    given: str = ""

    @classmethod
    def of(cls, sample: Sample) -> Label:
        """Return the label of a sample with files."""
        media = tuple(str(path.resolve()) for path in sample.load())
        now = datetime.now(UTC).isoformat(timespec="seconds")
        asked = sample.text, sample.task, sample.target, sample.options, sample.media
        return cls(media, *asked, given=now)

    @property
    def case(self) -> str:
        """Return the id of the case, which is the same on every run."""
        text = "\0".join((*self.media, self.query, self.task, *self.options))
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()

    @property
    def target(self) -> Any:
        """Return the right answer as metrics take it."""
        return tuple(self.answer) if isinstance(self.answer, list) else self.answer

    @property
    def words(self) -> str:
        """Return the class of the answer, equal for equal answers; a box as ``x0,y0,x1,y1``."""
        if self.task == "choice":
            return self.options[self.answer]
        if self.task == "ground":
            return ",".join(f"{side:g}" for side in self.answer)
        first = self.target[0] if isinstance(self.target, tuple) else self.target
        return normalise_answer(first)

    @property
    def name(self) -> str:
        """Return the name of the first file, for messages."""
        return Path(self.media[0]).name

    def is_right(self, answer: Prediction | None) -> bool:
        """Return whether an answer is the right one."""
        return is_correct(_metric().score(self.sample(), answer).value)

    def sample(self) -> Sample:
        """Return the label as a sample of metrics and runners."""
        return Sample(
            self.case,
            self.query,
            task=self.task,
            media=self.kind,
            target=self.target,
            load=MediaFiles(Path("/"), self.media),
            options=self.options,
            files=self.media,
        )


def read_table(path: Path, query: str | None, root: Path | None) -> list[Label]:
    """Return the labels of a CSV or JSON-lines file; see :mod:`viper.data.own`.

    Args:
        query: the question of lines that have none.
        root: folder of the media instead of that of the file.

    Raises:
        DataError: a line is wrong.
        UsageError: a task without right answers, or missing files.
    """
    samples = OwnFile(path, query=query or "").samples(DatasetSpec(root=root))
    for sample in samples:
        if sample.task not in TASKS:
            raise UsageError(
                f"{path}: task {sample.task!r} cannot be fitted; expected one of {', '.join(TASKS)}"
            )
    missing = [str(file) for each in samples for file in each.load() if not file.is_file()]
    if missing:
        raise UsageError(
            f"{path}: {len(missing)} files are missing, as {missing[0]}; --root names their folder"
        )
    return [Label.of(sample) for sample in samples]


def latest(labels: Iterable[Label]) -> list[Label]:
    """Return the label that counts of each case, in the order of their first lines.

    A label without an answer withdraws an earlier one.
    """
    known = {label.case: label for label in labels}
    return [label for label in known.values() if label.answer is not None]


def check_labels(labels: Sequence[Label]) -> None:
    """Check that a program can be fitted to the labels.

    Raises:
        UsageError: too few, contradictory ones, or all the same.
    """
    if len(labels) < LEAST_CASES:
        raise UsageError(
            f"{len(labels)} labelled cases; expected at least {LEAST_CASES}, better 20 to 60"
        )
    kinds = Counter((label.task, label.kind == "video") for label in labels)
    if len(kinds) > 1:
        names = ", ".join(f"{count} {task}" for (task, _), count in kinds.items())
        raise UsageError(f"labels of several kinds ({names}); fit one kind at a time")
    contradictions(labels)
    answers = {label.words for label in labels}
    if label_is_class(labels[0]) and len(answers) == 1:
        raise UsageError(
            f"all {len(labels)} labels are {answers.pop()!r}, which any program could say; label "
            "cases with other answers, too"
        )


def contradictions(labels: Sequence[Label]) -> None:
    """Check that equal files have equal labels, as far as answers are classes.

    Raises:
        UsageError: some have not; lists them.
    """
    by_content: dict[tuple[str, str], list[Label]] = {}
    for label in labels:
        by_content.setdefault((label.query, _content(label)), []).append(label)
    clashes = [
        f"{first.name} is {first.words!r}, {other.name} {other.words!r}"
        for first, *others in by_content.values()
        for other in others
        if other.words != first.words and label_is_class(first)
    ]
    if clashes:
        more = f"; and {len(clashes) - _NAMED} more" * (len(clashes) > _NAMED)
        raise UsageError(
            f"{len(clashes)} contradictory labels of equal files: "
            f"{'; '.join(clashes[:_NAMED])}{more}"
        )


def label_is_class(label: Label) -> bool:
    """Return whether equal answers make a class; boxes do not."""
    return label.task != "ground"


@cache
def _metric() -> Metric:
    return metric("mixed")


def _content(label: Label) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in label.media:
        with file_errors(Path(name)), Path(name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def with_answer(label: Label, answer: Any, source: str) -> Label:
    """Return a label with another answer, given now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return replace(label, answer=answer, source=source, given=now)


def words_of(answer: Prediction, asked: Asked) -> str:
    """Return an answer in words; see :attr:`Label.words`."""
    if answer.box is not None:
        return ",".join(f"{side:g}" for side in answer.box)
    if asked.task == "choice" and answer.choice_index is not None:
        return asked.options[answer.choice_index]
    if asked.task == "statement" and (truth := truth_of(answer.value)) is not None:
        return normalise_answer(truth)
    return normalise_answer(answer.value)


def same_answer(one: Prediction | None, other: Prediction | None, asked: Asked) -> bool:
    """Return whether two answers are the same; no answer is like no other."""
    if one is None or other is None:
        return False
    if one.box is not None and other.box is not None:
        return same_box(one.box, other.box)
    return words_of(one, asked) == words_of(other, asked)
