"""Scanned receipts: read the company, the date and the total; and the metric of fields.

Files: a picture ``N.jpg`` and its fields ``N.json`` (``company``, ``date``, ``address``,
``total``) for each receipt; the lines of text in ``N.csv`` are not read. The splits are ``held``,
the third that judges, ``rest`` and ``all``, by :func:`.held_back.is_held_back` of N.

Source: Huang et al. 2019, ICDAR 2019 SROIE, task 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from viper.api.written import field_types, typed
from viper.data.layout import OfficialSet, of_files
from viper.data.sample import Sample
from viper.data.source import Record, SourceFile
from viper.evaluate.intervals import ratio
from viper.evaluate.metrics.accuracy import answer_correct
from viper.evaluate.metrics.figures import Figures, clusters, figures_of, mean_of, scores
from viper.evaluate.sample_result import Prediction, SampleResult, Score
from viper_lab.datasets.held_back import is_held_back

ORIGIN = "https://rrc.cvc.uab.es/?ch=13"

FIELDS = ("company:text", "date:date", "total:money")


class Extraction:
    """``f1`` over the fields of all documents, and that of each field by its name.

    A field is right if money is the same number, a date the same day, and a text the same words
    after :func:`~viper.agreement.normalise_answer`. A field without a value is not predicted, and
    one without a target is not scored.
    """

    name = "extraction"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        """Return the F1 of the fields; in the details, 1 for each right and each predicted one."""
        entries = () if prediction is None else prediction.value
        values = {each["field"]: each["value"] for each in entries}
        types, right, read = field_types(sample.fields), dict[str, float](), dict[str, float]()
        for name, wanted in sample.target.items():
            is_right = answer_correct(values.get(name), typed(types[name], wanted) or "")
            right[f"{name}.right"] = float(is_right)
            read[f"{name}.read"] = float(values.get(name) is not None)
        both = len(right) + sum(read.values())
        return Score(2 * sum(right.values()) / both if both else 1.0, {**right, **read})

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        """Return ``f1`` and that of each field."""
        results = list(results)
        overall, units = {"f1": mean_of(results)}, clusters(results)
        for name in {name: 0 for result in results for name in result.target}:
            right = [2 * value for value in scores(results, f"{name}.right")]
            labelled = [float(name in result.target) for result in results]
            both = [*map(sum, zip(labelled, scores(results, f"{name}.read"), strict=True))]
            overall[name] = ratio(right, both, units)
        return figures_of(results, overall, mean_of)


def _files(root: Path, split: str) -> list[SourceFile]:
    of_split = {"all": (True, False), "held": (True,), "rest": (False,)}[split]
    paths = (each for each in sorted(root.glob("*.json")) if is_held_back(each.stem) in of_split)
    names = [each.name for each in paths] or ["000.json"]
    return [SourceFile(root, name, ORIGIN) for name in names]


def _read(sources: Sequence[SourceFile], split: str) -> Iterator[Sample]:
    for source in sources:
        record = Record.of(source.read_json(), source, "")
        named = [name for name in field_types(FIELDS) if record.values.get(name) != ""]
        target, stem = {name: record.text(name) for name in named}, source.path.stem
        facts = {"sample_id": stem, "text": "read the receipt", "task": "extract"}
        yield of_files(source.root, [f"{stem}.jpg"], **facts, target=target, fields=FIELDS)


_ABOUT = "extraction", "company, date and total of receipts (Huang et al. 2019)"

RECEIPTS = OfficialSet("receipts", ("rest", "held", "all"), *_ABOUT, ORIGIN, _files, _read)
