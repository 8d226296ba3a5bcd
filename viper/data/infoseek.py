"""InfoSeek: questions about pictures of named things, answered from Wikidata or by people.

Files: ``infoseek_SPLIT.jsonl`` (lines of ``{data_id, image_id, question, answer, answer_eval,
data_split}``) and, of ``val``, ``infoseek_val_qtype.jsonl`` (lines of ``{data_id, question_type}``:
``String``, ``Numerical`` or ``Time``). Pictures are those of OVEN,
``images/04/oven_04925662.jpg`` or without the folder of two digits, ``.jpg``, ``.JPEG`` or
``.png``. Where no file says the type of a question, an ``answer_eval`` with a range is numerical,
and all others are compared as texts.

The id of a sample is its ``data_id``, its cluster the picture; ``split`` groups unseen entities and
unseen questions. The target is a mapping of ``kind`` and ``answers`` or ``range``.

Source: Chen et al., EMNLP 2023; https://open-vision-language.github.io/infoseek/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viper.data.layout import check_official, first_there, root_of, split_of, unique
from viper.data.record import Record
from viper.data.sample import DatasetSpec, Finding, MediaFiles, Sample
from viper.data.source import SourceFile

ORIGIN = "https://github.com/open-vision-language/infoseek"
PICTURES = "https://github.com/edchengg/oven_eval (OVEN's images)"

KINDS = ("string", "numerical", "time")

_IMAGE = re.compile(r"oven_(\d{8})")
_ENDINGS = (".jpg", ".JPEG", ".jpeg", ".png")


@dataclass(frozen=True)
class InfoSeek:
    """Data set InfoSeek; see the module."""

    name: str = "infoseek"
    splits: tuple[str, ...] = ("val", "train", "test", "human")
    metric: str = "infoseek"
    summary: str = "facts about named things in pictures (Chen et al. 2023)"

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return one sample per line, in the order of the file."""
        root, split = root_of(self, spec), split_of(self, spec)
        source = SourceFile(root, f"infoseek_{split}.jsonl", ORIGIN)
        kinds = _kinds(root, split)
        records = (Record.of(value, source, at) for at, value in source.json_lines())
        return unique((_sample(record, kinds) for record in records), source)

    def check(self, spec: DatasetSpec) -> Sequence[Finding]:
        """Check questions, their types, samples and pictures."""
        root, split = root_of(self, spec), split_of(self, spec)
        sources = [SourceFile(root, f"infoseek_{split}.jsonl", ORIGIN)]
        if split == "val":
            sources.append(_typed(root, split))
        return check_official(sources, lambda: self.samples(spec), PICTURES)


def _typed(root: Path, split: str) -> SourceFile:
    return SourceFile(root, f"infoseek_{split}_qtype.jsonl", ORIGIN)


def _kinds(root: Path, split: str) -> Mapping[str, str]:
    """Return the type of each question, if a file states it."""
    source = _typed(root, split)
    if not source.path.is_file():
        return {}
    kinds = {}
    for at, value in source.json_lines():
        record = Record.of(value, source, at)
        kind = record.text("question_type").lower()
        if kind not in KINDS:
            raise record.wrong("question_type", "String, Numerical or Time")
        kinds[record.text("data_id")] = kind
    return kinds


def _sample(record: Record, kinds: Mapping[str, str]) -> Sample:
    data_id, image = record.text("data_id"), record.text("image_id")
    numbered = _IMAGE.fullmatch(image)
    if numbered is None:
        raise record.wrong("image_id", "a picture of OVEN as 'oven_04925662'")
    names = [
        f"images/{folder}{image}{ending}"
        for folder in (f"{numbered[1][:2]}/", "")
        for ending in _ENDINGS
    ]
    name = first_there(record.source.root, names)
    target = _target(record, kinds.get(data_id, ""))
    split = record.text("data_split") if "data_split" in record.values else ""
    groups = {"question_type": str(target["kind"])}
    for ending in ("unseen_question", "unseen_entity"):
        if split.endswith(ending):
            groups["split"] = ending
    return Sample(
        data_id,
        record.text("question"),
        task="question",
        media="image",
        target=target,
        load=MediaFiles(record.source.root, (name,)),
        groups=groups,
        cluster=image,
        files=(name,),
    )


def _target(record: Record, kind: str) -> dict[str, Any]:
    """Return what answers are compared with; nothing for a test set without public answers."""
    if "answer_eval" not in record.values:
        answers = record.items("answer") if "answer" in record.values else []
        if not all(isinstance(item, str) for item in answers):
            raise record.wrong("answer", "a list of texts")
        return {"kind": kind or "string", "answers": list(answers)}
    value = record.values["answer_eval"]
    listed = value if isinstance(value, list) else [value]
    ranges = [item for item in listed if isinstance(item, Mapping)]
    if kind == "numerical" or (not kind and ranges):
        return {"kind": "numerical", "range": _range(record, ranges)}
    if not listed or not all(isinstance(item, str) for item in listed):
        raise record.wrong("answer_eval", "a list of texts, or of a number the range")
    return {"kind": kind or "string", "answers": list(listed)}


def _range(record: Record, ranges: Sequence[Mapping[str, Any]]) -> list[float]:
    bounds = ranges[0].get("range") if ranges else None
    if (
        not isinstance(bounds, list)
        or len(bounds) != 2
        or not all(isinstance(end, int | float) and not isinstance(end, bool) for end in bounds)
    ):
        raise record.wrong("answer_eval", "of a numerical question the range, two numbers")
    return [float(end) for end in bounds]
