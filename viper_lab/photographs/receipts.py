"""Part ``receipts``: fields of scanned receipts, and sums that show a wrong total.

The lines of text are read by RapidOCR, which takes seconds a receipt, and stored in
``out/receipts/lines.jsonl``. The shipped program of task ``extract`` then runs on them. Its rules
were chosen on the receipts that `datasets.held_back` does not hold back.

Wrong totals are planted in the lines of the data set (``N.csv``), which have no misread letters:
in receipts whose printed amounts fix the true total by at least one sum.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from viper.api.written import amounts_in, typed
from viper.data.sample import DatasetSpec, Sample
from viper.evaluate.intervals import Estimate, over_seeds, proportion
from viper.evaluate.sample_result import Prediction, SampleResult
from viper.models.media import read_picture
from viper.models.vision.ocr_rapid import RapidOcr
from viper.models.vision.roles import Pixels, TextLine
from viper.profiles import load_profile
from viper.reasoner import Reasoner, RunOptions
from viper.strategies.base import Components
from viper_lab.datasets.held_back import is_held_back
from viper_lab.datasets.receipts import RECEIPTS, Extraction
from viper_lab.papers.result import Claim, TableCell, in_percent
from viper_lab.photographs.job import Measured, PhotographJob

PART = "receipts"

# Wrong totals that are planted in each receipt, one after the other.
PLANTS = 3

Lines = Sequence[TextLine]

_ROWS = {
    "total": "F1 of total",
    "date": "F1 of date",
    "company": "F1 of company",
    "warned": "fields with a warning",
    "silent": "wrong without a warning",
    "found": "planted totals found",
    "alarms": "false alarms",
}

# By the name of the figure over all receipts: the claim, and when it holds.
_CLAIMS: Sequence[tuple[str, str, Callable[[float], bool]]] = (
    ("total", "exact F1 of total is at least .85", lambda value: value >= 0.85),
    ("date", "exact F1 of date is at least .90", lambda value: value >= 0.90),
    ("silent", "at most 3 % of fields are wrong without a warning", lambda value: value <= 0.03),
    ("found", "at least 95 % of planted totals are found", lambda value: value >= 0.95),
    ("alarms", "at most 5 % of true totals raise an alarm", lambda value: value <= 0.05),
)

_CHECK = """
def execute_command(image, question):
    return bool_to_yesno(any(check["holds"] for check in sums(ImagePatch(image), question)))
"""


@dataclass(frozen=True)
class _Stored:
    """The role ``ocr`` with lines that were read before."""

    lines: Lines
    model_id: str = "stored"

    def read(self, pixels: Pixels) -> list[TextLine]:
        return list(self.lines)


class _Receipts:
    """The receipts of the data, and the shipped program on given lines of them."""

    def __init__(self, job: PhotographJob) -> None:
        spec = DatasetSpec(job.folder(PART), "all")
        # half of them take two minutes to read
        self.samples: Sequence[Sample] = RECEIPTS.samples(spec)[:: 2 if job.quick else 1]
        self.root, self._file = job.folder(PART), job.out / PART / "lines.jsonl"
        profile = load_profile("photo-lite").with_ocr_alone()
        self._components: Components = profile.components()

    @property
    def parts(self) -> dict[str, set[str]]:
        """Return the ids of all receipts, and of those for development and those that judge."""
        ids = {sample.sample_id for sample in self.samples}
        held = {name for name in ids if is_held_back(name)}
        return {"all": ids, "development": ids - held, "held back": held}

    def read(self) -> Iterator[tuple[Sample, Lines]]:
        """Yield each receipt with the lines that RapidOCR reads, stored ones if there are any."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        reader = RapidOcr()
        stored: dict[str, Lines] = {}
        for line in self._file.read_text("utf-8").splitlines() if self._file.exists() else ():
            record = json.loads(line)
            if record["model"] == reader.model_id:
                stored[record["name"]] = [TextLine(**each) for each in record["lines"]]
        with self._file.open("a", encoding="utf-8") as file:
            for sample in self.samples:
                if sample.sample_id not in stored:
                    lines = reader.read(read_picture(self.root / sample.files[0]))
                    stored[sample.sample_id] = lines
                    record = {"name": sample.sample_id, "model": reader.model_id}
                    record["lines"] = [asdict(each) for each in lines]
                    file.write(json.dumps(record) + "\n")
                    file.flush()
                yield sample, stored[sample.sample_id]

    def fields(self, sample: Sample, lines: Lines) -> dict[str, Mapping[str, Any]]:
        """Return what the shipped program reads, by field."""
        options = RunOptions(fields=sample.fields)
        answer = self._ask(lines, lambda r, media: r.run(media, sample.text, options), sample)
        return {} if answer is None else {each["field"]: each for each in answer.value}

    def fixes_total(self, sample: Sample, lines: Lines) -> bool:
        """Return whether a sum of printed amounts is the true total."""
        total = typed("money", sample.target.get("total", "")) or ""
        answer = self._ask(lines, lambda r, media: r.execute(_CHECK, media, total or "-"), sample)
        return bool(total) and answer is not None and answer.value == "yes"

    def _ask(self, lines: Lines, ask: Callable[[Reasoner, Any], Any], sample: Sample) -> Any:
        toolbox = self._components.toolbox.with_roles({"ocr": partial(_Stored, lines)})
        reasoner = Reasoner(replace(self._components, toolbox=toolbox.with_caches(16, 64)))
        return ask(reasoner, read_picture(self.root / sample.files[0])).answer

    def close(self) -> None:
        self._components.close()


def measure(job: PhotographJob) -> Measured:
    """Measure the F1 of total and date, fields that are wrong without a warning, and sums."""
    receipts = _Receipts(job)
    try:
        read = [_judged(receipts, *each) for each in receipts.read()]
        planted = [_planted(receipts, sample) for sample in receipts.samples]
    finally:
        receipts.close()
    rows: list[TableCell] = []
    told: dict[str, dict[str, Estimate]] = {}
    for part, names in receipts.parts.items():
        mine = [each for each in read if each.result.sample_id in names]
        sums = [each for each in planted if each.name in names and each.alarm is not None]
        figures = {**Extraction().figures([each.result for each in mine]).overall}
        figures["warned"] = _share([doubt for each in mine for doubt in each.warned])
        figures["silent"] = _share([wrong for each in mine for wrong in each.silent])
        figures["found"] = _share([hit for each in sums for hit in each.found])
        figures["alarms"] = _share([bool(each.alarm) for each in sums])
        told[part] = figures
        rows += [
            TableCell(PART, words, part, over_seeds([figures[name].value]), figures[name].n)
            for name, words in _ROWS.items()
        ]
    fixed, every = told["all"]["alarms"].n, len(receipts.samples)
    claims = [
        Claim(
            claim,
            holds(told["all"][name].value),
            "; ".join(f"{part} {in_percent(each[name])}" for part, each in told.items())
            + (f"; sums fix {fixed} of {every} totals" if name in ("found", "alarms") else ""),
        )
        for name, claim, holds in _CLAIMS
    ]
    return Measured(rows, (), claims)


@dataclass(frozen=True)
class _Judged:
    """A receipt that was read: for total and date, whether they are doubted, and wrong without."""

    result: SampleResult
    warned: tuple[bool, ...]
    silent: tuple[bool, ...]


def _judged(receipts: _Receipts, sample: Sample, lines: Lines) -> _Judged:
    fields = receipts.fields(sample, lines)
    score = Extraction().score(sample, Prediction([*fields.values()]))
    names = ("total", "date")
    warned = tuple(name not in fields or bool(fields[name]["reason"]) for name in names)
    wrong = (not score.details.get(f"{name}.right", 1.0) for name in names)
    silent = tuple(bad and not doubt for bad, doubt in zip(wrong, warned, strict=True))
    result = SampleResult.of(sample, 0, score.value, details=score.details)
    return _Judged(result, warned, silent)


@dataclass(frozen=True)
class _Planted:
    """A receipt with wrong totals: whether each is found, and whether the true one is doubted.

    ``alarm`` is None if no sum of the printed amounts is the true total.
    """

    name: str
    found: tuple[bool, ...] = ()
    alarm: bool | None = None


def _planted(receipts: _Receipts, sample: Sample) -> _Planted:
    lines = printed_lines(receipts.root, sample.sample_id)
    if not receipts.fixes_total(sample, lines):
        return _Planted(sample.sample_id)
    entry, found = receipts.fields(sample, lines)["total"], list[bool]()
    total = str(typed("money", sample.target["total"]))
    line = _line_of(entry, total, lines)
    for number in range(0 if line is None else PLANTS):
        wrong = with_wrong(line.text, total, Random(f"{sample.sample_id} {number}"))
        changed = [replace(each, text=wrong) if each is line else each for each in lines]
        found.append(bool(receipts.fields(sample, changed)["total"]["reason"]))
    return _Planted(sample.sample_id, tuple(found), bool(entry["reason"]))


def _line_of(entry: Mapping[str, Any], total: str, lines: Lines) -> Any:
    """Return the line that the answer came from, else the last one with the true total, or None."""
    having = [each for each in lines if any(value == total for value, *_ in amounts_in(each.text))]
    if entry["box"] and entry["value"] == total:
        x0, y0, x1, y1 = entry["box"]
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        boxes = [(each, *each.box) for each in having]
        having = [
            each
            for each, left, top, right, bottom in boxes
            if left <= x <= right and top <= y <= bottom
        ] or having
    return having[-1] if having else None


def printed_lines(root: Path, name: str) -> list[TextLine]:
    """Return the lines of the data set; boxes are in pixels from the top-left corner."""
    lines = []
    text = (root / f"{name}.csv").read_text("utf-8", "replace")
    for cells in (row.split(",", 8) for row in text.splitlines()):
        if len(cells) == 9:
            x, y = [*map(float, cells[:8:2])], [*map(float, cells[1:8:2])]
            lines.append(TextLine(cells[8], (min(x), min(y), max(x), max(y)), 1.0))
    return lines


def with_wrong(text: str, total: str, draw: Random) -> str:
    """Return a line with one digit of the total changed, so that it is another amount."""
    start, end = next(span for value, *span in amounts_in(text) if value == total)
    places = [start + each.start() for each in re.finditer("[0-9]", text[start:end])]
    place = draw.choice(places)
    digits = [digit for digit in "123456789" if digit != text[place]]
    return text[:place] + draw.choice(digits) + text[place + 1 :]


def _share(hits: Sequence[bool]) -> Estimate:
    return proportion(sum(hits), len(hits))
