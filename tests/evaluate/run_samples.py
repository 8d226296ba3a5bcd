"""Manifests and judged samples made up for tests of the run store and its reports."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from viper.evaluate.intervals import Estimate, proportion
from viper.evaluate.metrics import Figures
from viper.evaluate.runs.manifest import Manifest, RunEnvironment, SetDescription
from viper.evaluate.sample_result import Prediction, SampleResult, Score
from viper.schema import Answer, Query, Trace, Trial, Usage


def a_manifest(**changes: Any) -> Manifest:
    manifest = Manifest(
        set=SetDescription("world", "test", 0, 40, 40, "ab" * 32),
        metric="hits",
        seeds=(0,),
        strategy="program",
        api="abstract",
        settings={"trials": 3, "temperature": 0.0},
        profile="embedded",
        document={"llm": {"backend": "transformers", "model": "embedded:writer", "options": {}}},
        models={"llm": "writer-1234"},
        prompt_hash="p1",
        environment=RunEnvironment({"viper": "0.1.0", "python": "3.11.9"}, "abc", "Linux"),
        created="2026-01-01T00:00:00+00:00",
    )
    return replace(manifest, **changes)


def a_row(number: int = 0, *, seed: int = 0, **changes: Any) -> SampleResult:
    right = number % 2 == 0
    row = SampleResult(
        sample_id=f"s{number:05d}",
        seed=seed,
        score=float(right),
        details={"iou": 0.9 if right else 0.1},
        prediction=Prediction("red" if right else "blue"),
        text=f"what color is cube {number}?",
        task="question",
        target="red",
        groups={"family": "spatial" if number % 3 else "temporal"},
        cluster=f"picture{number // 4}",
        files=(f"{number}.png",),
        program=f"def execute_command(image):\n    return {number}",
        seconds=0.25,
        usage=Usage(1, 100, 20, 3, 0.001),
    )
    return replace(row, **changes)


def failed_row(number: int, kind: str = "runtime", **changes: Any) -> SampleResult:
    values = {"score": 0.0, "details": {}, "prediction": None, "failure": kind, "message": "boom"}
    return replace(a_row(number), **{**values, **changes})


def a_trace(row: SampleResult) -> Trace:
    trial = Trial(0, row.program or "", "first", True, None, {"a": 0.5}, (), "", 0.1)
    query = Query(row.text, row.task, "image", (), row.sample_id)
    answer = Answer("red", "text")
    usage = row.usage
    return Trace(
        query, "question", "asked", answer, None, (trial,), usage, 0.2, "program", "e", "a", 0
    )


# Tables of the index of a run.
INDEX = ("facts", "labels", "tagged", "texts")


def aged(folder: Path) -> Path:
    """Make the run one of the version before, which had no index."""
    with closing(sqlite3.connect(folder / "samples.db")) as connection:
        for name in INDEX:
            connection.execute(f"DROP TABLE {name}")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    return folder


class Hits:
    """A metric whose figures are the share of right answers and of answers at all."""

    name = "hits"

    def score(self, sample: Any, prediction: Prediction | None) -> Score:
        return Score(float(prediction is not None))

    def figures(self, results: Iterable[SampleResult]) -> Figures:
        rows = list(results)
        groups: dict[str, dict[str, list[float]]] = {}
        for row in rows:
            for kind, name in row.groups.items():
                groups.setdefault(kind, {}).setdefault(name, []).append(row.score)
        failed = sum(row.failure is not None for row in rows)
        return Figures(
            "hits",
            {
                "hits": share([row.score for row in rows]),
                "answered": share([float(row.failure is None) for row in rows]),
            },
            {
                kind: {name: share(values) for name, values in found.items()}
                for kind, found in groups.items()
            },
            {"any": proportion(failed, len(rows))},
            len(rows),
        )


def share(values: list[float]) -> Estimate:
    return proportion(round(sum(values)), len(values))
