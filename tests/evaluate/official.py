"""The official counting, restated from its definitions, and real files to count on.

Nothing here shares code with the package: figures are counted from the files' own text.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"


def real(name: str) -> Path:
    """A folder of real files; skips the test where there is none."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not here; see shared/data/README.md")
    return path


def nlvr_counts(examples: str, predictions: str) -> tuple[float, float]:
    """Accuracy and consistency of NLVR predictions.

    A prediction is named by its PNG; of the name counts what follows the split, up to the suffix.
    The last one counts. All six pictures of every example must be there.
    """
    said = {}
    for line in predictions.split("\n"):
        if line.strip():
            cells = line.strip().split(",")
            stem = cells[0].partition(".")[0]
            said[stem.partition("-")[2]] = cells[1].casefold()
    right = asked = 0
    whole: dict[str, set[bool]] = {}
    for example in map(json.loads, examples.splitlines()):
        for permutation in range(6):
            hit = said[f"{example['identifier']}-{permutation}"] == example["label"].casefold()
            whole.setdefault(example["identifier"].partition("-")[0], set()).add(hit)
            right, asked = right + hit, asked + 1
    return right / asked, sum(hits == {True} for hits in whole.values()) / len(whole)


def nlvr2_counts(examples: str, predictions: str) -> tuple[float, float]:
    """Accuracy and consistency of NLVR2: a sentence is its set's and its own number."""
    said = dict(line.split(",")[:2] for line in predictions.splitlines())
    labels = {e["identifier"]: e["label"].lower() for e in map(json.loads, examples.splitlines())}
    hits = {name: said[name].lower() == label for name, label in labels.items()}
    sentences = {(*name.split("-")[:2], name.split("-")[3]) for name in hits}
    spoiled = {(*name.split("-")[:2], name.split("-")[3]) for name, hit in hits.items() if not hit}
    return sum(hits.values()) / len(hits), len(sentences - spoiled) / len(sentences)


def nextqa_counts(table: str, predictions: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Right and asked for every type, group and ``overall`` of NExT-QA.

    Right is an index that equals ``answer``; a question about what came before (TP) counts as
    one about what came next (TN).
    """
    count: dict[str, list[int]] = {}
    for row in csv.DictReader(io.StringIO(table)):
        hit = predictions[f"{row['video']}_{row['qid']}"]["prediction"] == int(row["answer"])
        kind = row["type"].replace("TP", "TN")
        for name in (kind, kind[0], "overall"):
            entry = count.setdefault(name, [0, 0])
            entry[0] += hit
            entry[1] += 1
    return {name: (right, asked) for name, (right, asked) in count.items()}
