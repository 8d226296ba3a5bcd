"""Part ``receipts``: fields of scanned receipts, and sums that show a wrong total.

The lines of text are read by RapidOCR, which takes seconds a receipt, and stored in
``out/receipts/lines.jsonl``. The shipped program of task ``extract`` then runs on them. Its rules
were chosen on the receipts that :func:`viper.data.registry.is_held_back` does not hold back.

Wrong totals are planted in the lines of the data set (``N.csv``), which have no misread letters:
in receipts whose printed amounts fix the true total by at least one sum.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from random import Random
from typing import Any

from viper.api.written import amounts_in, typed
from viper.data.receipts import RECEIPTS
from viper.data.registry import is_held_back
from viper.data.sample import DatasetSpec, Sample
from viper.evaluate.intervals import Estimate, over_seeds, proportion
from viper.evaluate.metrics.accuracy import Extraction
from viper.evaluate.sample_result import Prediction, SampleResult
from viper.models.media import read_picture
from viper.models.vision.ocr_rapid import RapidOcr
from viper.models.vision.roles import Pixels, TextLine
from viper.profiles import load_profile
from viper.reasoner import Reasoner, RunOptions
from viper.strategies.base import Components
from viper_lab.papers.result import Claim, TableCell, in_percent
from viper_lab.photographs.job import Measured, PhotographJob

PART = "receipts"

# Wrong totals that are planted in each receipt, one after the other.
PLANTS = 3

Lines = Sequence[TextLine]

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
        profile = load_profile("photo-lite")
        roles = {"ocr": profile.document.roles["ocr"]}
        profile = replace(profile, document=replace(profile.document, roles=roles))
        self._components: Components = profile.components()

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

    def printed(self, sample: Sample) -> list[TextLine]:
        """Return the lines of the data set."""
        lines = []
        text = (self.root / f"{sample.sample_id}.csv").read_text("utf-8", "replace")
        for cells in (row.split(",", 8) for row in text.splitlines()):
            if len(cells) == 9:
                x, y = [*map(float, cells[:8:2])], [*map(float, cells[1:8:2])]
                lines.append(TextLine(cells[8], (min(x), min(y), max(x), max(y)), 1.0))
        return lines

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
        results, silent, warned = list[SampleResult](), list[bool](), list[bool]()
        for sample, lines in receipts.read():
            fields = receipts.fields(sample, lines)
            score = Extraction().score(sample, Prediction([*fields.values()]))
            results.append(SampleResult.of(sample, 0, score.value, details=score.details))
            for name in ("total", "date"):
                is_wrong = not score.details.get(f"{name}.right", 1.0)
                has_doubt = name not in fields or bool(fields[name]["reason"])
                silent.append(is_wrong and not has_doubt)
                warned.append(has_doubt)
        planted = [each for sample in receipts.samples for each in _planted(receipts, sample)]
    finally:
        receipts.close()
    rows, claims = [], []
    parts = {"all": results} | {
        name: [each for each in results if is_held_back(each.sample_id) is held]
        for name, held in (("development", False), ("held back", True))
    }
    by_part = {name: Extraction().figures(part).overall for name, part in parts.items() if part}
    for part, figures in by_part.items():
        for name in ("total", "date", "company"):
            rows.append(_row(f"F1 of {name}", part, figures[name]))
    for name, least in (("total", 0.85), ("date", 0.90)):
        told = "; ".join(f"{part} {in_percent(each[name])}" for part, each in by_part.items())
        holds = by_part["all"][name].value >= least
        claims.append(Claim(f"exact F1 of {name} is at least {least:.2f}", holds, told))
    wrong = _share(silent)
    rows += [_row("fields with a warning", "all", _share(warned))]
    rows += [_row("wrong without a warning", "all", wrong)]
    text = f"{in_percent(wrong)}; {in_percent(_share(warned))} of fields have a warning"
    claims.append(
        Claim("at most 3 % of fields are wrong without a warning", wrong.value <= 0.03, text)
    )
    found = _share([hit for hit, _ in planted if hit is not None])
    alarms = _share([alarm for _, alarm in planted if alarm is not None])
    rows += [_row("planted totals found", "all", found), _row("false alarms", "all", alarms)]
    fixed = f"sums fix the total of {alarms.n} of {len(receipts.samples)} receipts"
    claims += [
        Claim("at least 95 % of planted totals are found", found.value >= 0.95,
              f"{in_percent(found)}, n = {found.n}; {fixed}"),
        Claim("at most 5 % of true totals raise an alarm", alarms.value <= 0.05,
              f"{in_percent(alarms)}, n = {alarms.n}; {fixed}"),
    ]  # fmt: skip
    return Measured(rows, (), claims)


def _planted(receipts: _Receipts, sample: Sample) -> Iterator[tuple[bool | None, bool | None]]:
    """Yield whether each planted total was found, after whether the true one raised an alarm."""
    lines = receipts.printed(sample)
    if not receipts.fixes_total(sample, lines):
        return
    entry = receipts.fields(sample, lines)["total"]
    yield None, bool(entry["reason"])
    total = typed("money", sample.target["total"])
    carriers = [
        each for each in lines if any(value == total for value, *_ in amounts_in(each.text))
    ]
    if entry["box"] and entry["value"] == total:
        x, y = (entry["box"][0] + entry["box"][2]) / 2, (entry["box"][1] + entry["box"][3]) / 2
        inside = [each for each in carriers
                  if each.box[0] <= x <= each.box[2] and each.box[1] <= y <= each.box[3]]  # fmt: skip
        carriers = inside or carriers
    for number in range(PLANTS if carriers else 0):
        draw = Random(f"{sample.sample_id} {number}")
        line = carriers[-1]
        other = replace(line, text=_wrong(line.text, str(total), draw))
        changed = [other if each is line else each for each in lines]
        yield bool(receipts.fields(sample, changed)["total"]["reason"]), None


def _wrong(text: str, total: str, draw: Random) -> str:
    """Return a line with one digit of the total changed, so that it is another amount."""
    start, end = next(span for value, *span in amounts_in(text) if value == total)
    places = [start + each.start() for each in re.finditer("[0-9]", text[start:end])]
    place = draw.choice(places)
    digits = [digit for digit in "123456789" if digit != text[place]]
    return text[:place] + draw.choice(digits) + text[place + 1 :]


def _share(hits: Sequence[bool]) -> Estimate:
    return proportion(sum(hits), len(hits))


def _row(name: str, family: str, figure: Estimate) -> TableCell:
    return TableCell(PART, name, family, over_seeds([figure.value]), figure.n)
