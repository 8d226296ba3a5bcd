"""Sheets of edited pictures for people to judge.

The sheet is a CSV file with one row per sample: ``id``, ``instruction``, ``before``, ``after``
(paths of PNG files, relative to the sheet; ``after`` is empty without an edited picture) and an
empty column ``correct``. The pictures lie beside it.

Source: CLOVA (Gao et al. 2024, sec. 4.1) has people check whether edits are semantically correct.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from viper.data.sample import Sample
from viper.data.source import SourceFile, brief
from viper.errors import DataError, UsageError
from viper.escape import csv_text, for_csv
from viper.evaluate.intervals import Estimate, proportion
from viper.evaluate.metrics import Figures, Metric
from viper.evaluate.metrics.editing import JudgeOf, NeedsEditJudge
from viper.evaluate.predictions import first_few
from viper.evaluate.sample_result import Prediction, SampleResult, Score
from viper.models.media import media_from
from viper.models.vision.roles import Pixels
from viper.storage.files import replace_file

COLUMNS = ("id", "instruction", "before", "after", "correct")

_WORDS = {
    **dict.fromkeys(("1", "yes", "y", "true", "t", "x", "correct", "right"), True),
    **dict.fromkeys(("0", "no", "n", "false", "f", "wrong", "incorrect"), False),
}


@dataclass(frozen=True)
class JudgementSheet:
    """Sheet at ``path``, with its pictures in the folder ``NAME-pictures`` beside it."""

    path: Path

    @property
    def folder(self) -> Path:
        """Return the folder of the pictures."""
        return self.path.with_name(f"{self.path.stem}-pictures")

    def keep(self, sample: Sample, after: Pixels) -> None:
        """Write the pictures of a sample; ``after`` is uint8 [H, W, 3].

        Raises:
            UsageError: they cannot be written.
        """
        from PIL import Image

        before = media_from(sample.load()).images[0]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for which, pixels in (("before", before), ("after", after)):
                Image.fromarray(pixels).save(self._picture(sample.sample_id, which))
        except OSError as error:
            raise UsageError(f"cannot write to {self.folder}: {error.strerror or error}") from None

    def write(self, rows: Iterable[SampleResult]) -> int:
        """Write the sheet of all edits among the results. Return their number.

        Raises:
            UsageError: it cannot be written.
        """
        edits = {row.sample_id: row for row in rows if row.task == "edit"}
        lines: list[Sequence[str]] = [COLUMNS]
        for row in edits.values():
            cells = [row.sample_id, row.text]
            for picture in (self._picture(row.sample_id, which) for which in ("before", "after")):
                cells.append(f"{self.folder.name}/{picture.name}" if picture.is_file() else "")
            lines.append([*map(for_csv, cells), ""])
        try:
            replace_file(self.path, csv_text(lines).encode(errors="backslashreplace"))
        except OSError as error:
            raise UsageError(f"cannot write {self.path}: {error.strerror or error}") from None
        return len(edits)

    def _picture(self, sample_id: str, which: str) -> Path:
        name = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in sample_id)
        return self.folder / f"{name}-{which}.png"


@dataclass(frozen=True)
class RecordingMetric:
    """Metric that scores as another one does, and writes edited pictures to a sheet."""

    metric: Metric
    sheet: JudgementSheet

    @property
    def name(self) -> str:
        """Return the name of the wrapped metric."""
        return self.metric.name

    def with_judge(self, judge_of: JudgeOf) -> RecordingMetric:
        """Return this metric with a judge for the wrapped metric, if that needs one."""
        if not isinstance(self.metric, NeedsEditJudge):
            return self
        return RecordingMetric(self.metric.with_judge(judge_of), self.sheet)

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return the score of the wrapped metric. Write the pictures of an edit.

        Raises:
            UsageError: they cannot be written.
        """
        if sample.task == "edit" and prediction is not None and prediction.picture is not None:
            self.sheet.keep(sample, prediction.picture)
        return self.metric.score(sample, prediction)

    def figures(self, rows: Iterable[SampleResult]) -> Figures:
        """Return the figures of the wrapped metric."""
        return self.metric.figures(rows)


@dataclass(frozen=True)
class SheetFigures:
    """Judgements of people on a sheet.

    Attributes:
        correct: share of correct rows; rows without a picture are wrong.
        without_picture: number of rows without a picture.
        unfilled: ids of rows without a judgement, which counted as wrong.
    """

    correct: Estimate
    without_picture: int
    unfilled: tuple[str, ...]


def read_judgements(path: Path, missing: Literal["error", "wrong"] = "error") -> SheetFigures:
    """Read a filled sheet: ``correct`` holds yes or no, true or false, 1 or 0.

    Args:
        missing: whether a row without a judgement is an error, or counts as wrong.

    Raises:
        DataError: no such file, no such sheet, a word that is neither, or rows without one.
    """
    source = SourceFile(path.parent, path.name)
    hits: list[bool] = []
    unfilled: list[str] = []
    without = 0
    for at, result in source.csv_rows(COLUMNS):
        word = str(result["correct"] or "").strip().lower()
        if word and word not in _WORDS:
            raise source.wrong(f"{at}: 'correct'", f"is {brief(word)}", "yes or no (1 or 0)")
        if not str(result["after"] or "").strip():
            without += 1
            word = "no"
        elif not word:
            unfilled.append(str(result["id"]))
        hits.append(_WORDS.get(word, False))
    if not hits:
        raise source.wrong("", "holds no rows", "a row a sample")
    if unfilled and missing == "error":
        raise DataError(
            f"{path}: {len(unfilled)} of {len(hits)} rows have no word in the column 'correct': "
            f"{first_few(unfilled)}; fill them in, or count them as wrong with --missing wrong"
        )
    return SheetFigures(proportion(sum(hits), len(hits)), without, tuple(unfilled))
