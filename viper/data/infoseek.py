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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from viper.data.layout import OfficialSet, first_there, of_files
from viper.data.sample import Sample
from viper.data.source import Record, SourceFile

ORIGIN = "https://github.com/open-vision-language/infoseek"
PICTURES = "https://github.com/edchengg/oven_eval (OVEN's images)"

KINDS = ("string", "numerical", "time")

_IMAGE = re.compile(r"oven_(\d{8})")
_ENDINGS = (".jpg", ".JPEG", ".jpeg", ".png")


def _files(root: Path, split: str) -> list[SourceFile]:
    suffixes = ("", "_qtype") if split == "val" else ("",)
    return [SourceFile(root, f"infoseek_{split}{suffix}.jsonl", ORIGIN) for suffix in suffixes]


def _read(sources: Sequence[SourceFile], split: str) -> Iterator[Sample]:
    root = sources[0].root
    types = SourceFile(root, f"infoseek_{split}_qtype.jsonl", ORIGIN)
    kinds = {}
    for record in types.records() if types.path.is_file() else ():
        kind = record.text("question_type").lower()
        if kind not in KINDS:
            raise record.wrong("question_type", "String, Numerical or Time")
        kinds[record.text("data_id")] = kind
    for record in sources[0].records():
        image = record.text("image_id")
        numbered = _IMAGE.fullmatch(image)
        if numbered is None:
            raise record.wrong("image_id", "a picture of OVEN as 'oven_04925662'")
        folders = (f"images/{numbered[1][:2]}/", "images/")
        names = [f"{folder}{image}{ending}" for folder in folders for ending in _ENDINGS]
        target = _target(record, kinds.get(record.text("data_id"), ""))
        groups = {"question_type": str(target["kind"])}
        part = record.text("data_split") if "data_split" in record.values else ""
        for ending in ("unseen_question", "unseen_entity"):
            if part.endswith(ending):
                groups["split"] = ending
        yield of_files(
            root,
            [first_there(root, names)],
            sample_id=record.text("data_id"),
            text=record.text("question"),
            task="question",
            target=target,
            groups=groups,
            cluster=image,
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
        bounds = ranges[0].get("range") if ranges else None
        is_pair = isinstance(bounds, list) and len(bounds) == 2
        if not bounds or not is_pair or not {type(end) for end in bounds} <= {int, float}:
            raise record.wrong("answer_eval", "of a numerical question the range, two numbers")
        return {"kind": "numerical", "range": [float(end) for end in bounds]}
    if not listed or not all(isinstance(item, str) for item in listed):
        raise record.wrong("answer_eval", "a list of texts, or of a number the range")
    return {"kind": kind or "string", "answers": list(listed)}


INFOSEEK = OfficialSet(
    "infoseek",
    ("val", "train", "test", "human"),
    "infoseek",
    "facts about named things in pictures (Chen et al. 2023)",
    PICTURES,
    _files,
    _read,
)
