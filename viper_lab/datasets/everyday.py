"""Questions in ordinary English about photographs, written by people who looked at them.

Files: ``everyday.jsonl``, lines of ``{id, media, kind, query, accept, objects}`` with the accepted
answers in lower case; ``boxes`` ([x0, y0, x1, y1]) and ``task`` where something is to be found,
``unanswerable`` where the picture does not tell. Pictures are in ``FOLDER/images/`` of any folder
beside the file. Several boxes are tags with the name of the object.

Unanswerable ones have the group ``unanswerable`` and no right answer: to give none is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from viper.data.layout import OfficialSet, first_there, of_files
from viper.data.sample import Sample
from viper.data.source import Record, SourceFile

ORIGIN = "https://cocodataset.org/#download (photographs; the questions are ours)"


def _files(root: Path, split: str) -> list[SourceFile]:
    return [SourceFile(root, "everyday.jsonl", ORIGIN)]


def _read(sources: Sequence[SourceFile], split: str) -> Iterator[Sample]:
    root = sources[0].root
    folders = [path.parent.name for path in sorted(root.glob("*/images"))] or ["images"]
    for record in sources[0].records():
        media, task = record.file_name("media"), "question"
        unanswerable = record.values.get("unanswerable") is True
        target: Any = record.texts("accept", "answer")
        if "boxes" in record.values:
            places = Record(dict(enumerate(record.items("boxes"))), record.source, record.at)
            name, boxes = (
                record.texts("objects", "object")[0],
                map(places.corner_box, places.values),
            )
            task, target = "tag", tuple((name, box) for box in boxes)
            if len(target) == 1:
                task, target = "ground", target[0][1]
        elif bool(target) == unanswerable:
            raise record.wrong("accept", "answers, or none of an unanswerable question")
        yield of_files(
            root,
            [first_there(root, [f"{folder}/images/{media}" for folder in folders])],
            sample_id=record.name("id"),
            text=record.text("query"),
            task=task,
            target=target,
            groups={"query_type": "unanswerable" if unanswerable else record.text("kind")},
            cluster=media,
        )


EVERYDAY = OfficialSet(
    "everyday", ("all",), "mixed", "everyday questions about photographs", ORIGIN, _files, _read
)
