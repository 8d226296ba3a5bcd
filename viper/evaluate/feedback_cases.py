"""What people said of a run's answers, as cases that were not learned from yet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.errors import UsageError, ViperError
from viper.evaluate.feedback import Feedback, read_feedback
from viper.evaluate.row import Row
from viper.evaluate.runs.kept import samples_of_run
from viper.evaluate.runs.lines import append_line, read_lines
from viper.evaluate.runs.manifest import Manifest
from viper.evaluate.runs.plain import dumps
from viper.evaluate.runs.store import RunStore
from viper.record import record_from_json
from viper.schema import Answer, Query, Trace
from viper.tools.media import media_from
from viper.tuning.case import Case, is_desired
from viper.tuning.comments import Families, Reading, read_comment
from viper.tuning.common_words import COMMON_FAMILIES
from viper.tuning.from_feedback import case_of

LEARNED = "learned-feedback.jsonl"
"""Name of the file, in the state's folder, that notes which remarks were learned from."""


class LearnedRemarks:
    """Ids of the remarks that were learned from; several processes may add at once.

    Args:
        path: of the file; need not exist.

    Raises:
        StoreError: the file cannot be read, or is something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ids = set(read_lines(path, _remark_id, "the id of a remark"))

    def __contains__(self, remark: str) -> bool:
        return remark in self._ids

    def add(self, remarks: Sequence[str]) -> None:
        """Notes that these were learned from; when this returns, it is on disk.

        Raises:
            StoreError: it cannot be written.
        """
        for one in remarks:
            if one not in self._ids:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                append_line(self._path, {"remark": one})
                self._ids.add(one)


@dataclass(frozen=True)
class FeedbackCase:
    """One answer with all that was said of it.

    Attributes:
        trace: of the run that answered.
        case: with the desired answer, where somebody said one, and all comments.
        remarks: ids, for :meth:`LearnedRemarks.add`.
        right: whether the desired answer is the one that was given; None where none is known.
    """

    sample_id: str
    seed: int
    trace: Trace
    case: Case
    remarks: tuple[str, ...]
    right: bool | None


@dataclass(frozen=True)
class Unreadable:
    """An answer with remarks from which no case can be made, and why."""

    sample_id: str
    seed: int
    why: str


def feedback_cases(
    store: RunStore,
    learned: LearnedRemarks,
    *,
    root: Path | None = None,
) -> Iterator[FeedbackCase | Unreadable]:
    """Every answer of a run with a remark that was not learned from, in the order of its first.

    All remarks about an answer are one case: who corrects a remark is believed in the end. Media
    are read one case at a time.

    Args:
        root: folder of the set's official files.

    Raises:
        StoreError: the remarks or the run cannot be read.
        DataError: files of the set are missing or broken.
    """
    said: dict[tuple[str, int], list[Feedback]] = {}
    for one in read_feedback(store.folder):
        said.setdefault((one.sample_id, one.seed), []).append(one)
    new = {
        key: remarks
        for key, remarks in said.items()
        if any(remark_id(store, one) not in learned for one in remarks)
    }
    samples = samples_of_run(store, root, [name for name, _ in new]) if new else {}
    families = families_of(store.manifest)
    for (name, seed), remarks in new.items():
        try:
            values = store.trace(name, seed)
            if values is None or name not in samples:
                raise UsageError("its trace or its picture is not there")
            media = media_from(samples[name].load())
            trace = record_from_json(Trace, values)
            case = case_of(trace, remarks, media, families)
            if case is None:
                raise UsageError("no program was written for it")
        except (ViperError, OSError, TypeError) as error:
            yield Unreadable(name, seed, str(error))
            continue
        ids = tuple(remark_id(store, one) for one in remarks)
        yield FeedbackCase(name, seed, trace, case, ids, _is_right(case))


def row_reading(row: Row, comment: str, manifest: Manifest) -> Reading:
    """How a comment on a row will be read; see :mod:`viper.tuning.comments`."""
    found = row.prediction
    answer = None
    if found is not None:
        answer = Answer(found.value, "", found.choice_index, found.box)
    query = Query(row.text, row.task, options=row.options)
    return read_comment(comment, query, answer, families_of(manifest))


def families_of(manifest: Manifest) -> Families:
    """The families of words of a run's profile; common English ones where it has none."""
    tools = manifest.document.get("tools")
    named = tools.get("attribute_families") if isinstance(tools, Mapping) else None
    if not isinstance(named, Sequence) or isinstance(named, str):
        return COMMON_FAMILIES
    words = [[word for word in its if isinstance(word, str)]
             for its in named if isinstance(its, Sequence)]  # fmt: skip
    return words or COMMON_FAMILIES


def remark_id(store: RunStore, remark: Feedback) -> str:
    """The id of a remark, another one for the same words about another run."""
    run = (store.manifest.created, store.manifest.fingerprint)
    said: list[Any] = [remark.sample_id, remark.seed, remark.answer, remark.comment, remark.given]
    return hashlib.sha256(dumps([*run, *said]).encode("utf-8", "replace")).hexdigest()[:16]


def _is_right(case: Case) -> bool | None:
    if case.desired is None:
        return None
    return is_desired(case.answer, case.desired, case.query.task)


def _remark_id(values: Any) -> str:
    if not isinstance(values, dict) or not isinstance(values.get("remark"), str):
        raise ValueError("no remark")
    found: str = values["remark"]
    return found
