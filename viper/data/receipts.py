"""Scanned receipts: read the company, the date and the total.

Files: a picture ``N.jpg`` and its fields ``N.json`` (``company``, ``date``, ``address``,
``total``) for each receipt; the lines of text in ``N.csv`` are not read. The splits are ``held``,
the third that judges, ``rest`` and ``all``, by :func:`viper.data.registry.is_held_back` of N.

Source: Huang et al. 2019, ICDAR 2019 SROIE, task 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from viper.api.written import field_types
from viper.data.layout import OfficialSet, of_files
from viper.data.registry import is_held_back
from viper.data.sample import Sample
from viper.data.source import Record, SourceFile

ORIGIN = "https://rrc.cvc.uab.es/?ch=13"

FIELDS = ("company:text", "date:date", "total:money")


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
