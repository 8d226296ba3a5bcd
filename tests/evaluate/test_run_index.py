"""The index of a run: it agrees with the rows, old runs get it once, nobody holds the run."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_samples import INDEX, Hits, a_manifest, a_row, a_trace, aged, failed_row

from viper.data.sample import DatasetSpec, Sample
from viper.errors import StoreError
from viper.evaluate.metrics import Figures, metric
from viper.evaluate.metrics.figures import Results, clusters
from viper.evaluate.reports.report import report
from viper.evaluate.runs import index
from viper.evaluate.runs.manifest import SetDescription
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import Prediction, SampleResult
from viper.storage import sqlite
from viper.web.viewer.index import RowFilter, ViewerIndex

IN_ORDER = "SELECT sample_id FROM facts ORDER BY position"
ROOT = Path(__file__).parents[2]


def rows(count: int = 40) -> list[SampleResult]:
    """Answers with and without confidence, failures, fallbacks, and several tasks."""
    made = []
    for number in range(count):
        row = a_row(number, task=("question", "ground", "choice", "tag", "edit")[number % 5])
        if number % 4 == 1:
            row = failed_row(number, ("runtime", "abstained", "tool")[number % 3])
        if number % 7 == 0:
            row = replace(row, marks=("fallback:average_box", "warning:guessed"), cluster="")
        if row.prediction is not None and number % 3:
            row = replace(row, prediction=replace(row.prediction, confidence=number / count))
        made.append(replace(row, target=["a", "b"] if number % 2 else "red"))
    return made


def stored(folder: Path, results: list[SampleResult], **changes: Any) -> Path:
    described = SetDescription("world", None, 0, None, len(results), "ab" * 32)
    with RunStore.create(folder, a_manifest(set=described, **changes)) as store:
        for position, row in enumerate(results):
            store.add(position, row, a_trace(row))
    return folder


def version(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "samples.db")) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def index_of(store: RunStore) -> dict[str, list[Any]]:
    """All that the index holds, and how many results it finds by a text of all programs."""
    held = {name: store.query(f"SELECT * FROM {name} ORDER BY 1, 2") for name in INDEX[:3]}
    held["texts"] = store.query("SELECT rowid FROM texts WHERE texts MATCH '\"execute\"'")
    return held


@pytest.mark.parametrize(
    "name", ["gqa", "nextqa", "nlvr", "blink", "grounding", "tagging", "mixed", "okvqa", "editing"]
)
def test_figures_of_the_index_equal_those_of_the_rows(tmp_path: Path, name: str) -> None:
    made = rows(90)
    with RunStore.read(stored(tmp_path / "run", made, metric=name)) as store:
        judge = metric(name)
        assert judge.figures(store.results()) == judge.figures(list(store.rows()))
        assert report(store)["n"] == 90


def test_a_report_reads_no_row_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunStore.read(stored(tmp_path / "run", rows(), metric="gqa")) as store:
        whole = report(store)
        monkeypatch.setattr("viper.evaluate.runs.store.row_from", lambda line: 1 / 0)
        assert report(store) == whole


def test_a_metric_of_a_package_reads_whole_rows(tmp_path: Path) -> None:
    class Programs(Hits):
        def figures(self, results: Iterable[SampleResult]) -> Figures:
            assert all(result.program and result.text for result in results)
            return super().figures(results)

    with RunStore.read(stored(tmp_path / "run", rows())) as store:
        assert report(store, Programs())["fallbacks"]["answers"] > 0


def test_results_without_a_cluster_are_alone_in_each_part() -> None:
    made = [a_row(number, cluster="" if number % 2 else f"c{number}") for number in range(40)]
    part = Results.of(made).select(np.arange(30, 40))
    assert clusters(part).tolist() == list(range(10))


def test_a_run_of_the_version_before_is_indexed_once(tmp_path: Path) -> None:
    folder = stored(tmp_path / "run", rows(450), metric="gqa")
    with RunStore.read(folder) as store:
        before, made = index_of(store), report(store)
    steps: list[int] = []
    with RunStore.read(aged(folder)) as store:
        assert store.behind() == 450 and [*store.rows()] == rows(450)
        store.catch_up(steps.append)
        assert sum(steps) == 450 and len(steps) > 2 and store.behind() == 0
        assert index_of(store) == before and report(store) == made
        store.catch_up(lambda results: pytest.fail("indexed again"))
    assert version(folder) == 2


def test_a_resumed_run_of_the_version_before_is_indexed(tmp_path: Path) -> None:
    folder = aged(stored(tmp_path / "run", rows(5)))
    manifest = a_manifest(set=SetDescription("world", None, 0, None, 5, "ab" * 32))
    with RunStore.resume(folder, manifest) as store:
        store.add(5, a_row(77))
        assert store.behind() == 0 and len(store.results()) == 6


KILLED = """
import os, sys
from pathlib import Path
from viper.evaluate.runs import index
from viper.evaluate.runs.store import RunStore

add, left = index.add, int(sys.argv[2])

def killed(*arguments):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), 9)
    add(*arguments)

index.add = killed
with RunStore.read(Path(sys.argv[1])) as store:
    store.catch_up()
"""


@pytest.mark.parametrize("results", [0, 150, 401])
def test_a_kill_while_an_old_run_is_indexed_does_no_damage(tmp_path: Path, results: int) -> None:
    folder = stored(tmp_path / "run", rows(450))
    with RunStore.read(folder) as store:
        before = index_of(store)
    aged(folder)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), str(results)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    with RunStore.read(folder) as store:
        assert store.behind() == 450 - results // 200 * 200
        store.catch_up()
        assert index_of(store) == before


def test_a_folder_that_cannot_be_written_is_indexed_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stored(tmp_path / "run", rows(), metric="gqa")
    with RunStore.read(folder) as store:
        before, made = index_of(store), report(store)
    content = (aged(folder) / "samples.db").read_bytes()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with RunStore.read(folder) as store:
        assert report(store) == made and index_of(store) == before
        assert ViewerIndex([store]).find(RowFilter(text="cube 3?")).total == 1
    assert (folder / "samples.db").read_bytes() == content and version(folder) == 1


def test_a_result_and_its_index_are_stored_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunStore.create(tmp_path, a_manifest()) as store:
        with monkeypatch.context() as patched:
            patched.setattr(index, "_COUNT", "INSERT INTO labels VALUES (?, ?)")
            with pytest.raises(StoreError):
                store.add(0, a_row())
        assert store.count() == 0 and store.query("SELECT * FROM facts") == []
        store.add(0, a_row())
        assert store.count() == 1 and len(store.results()) == 1


def test_results_that_move_are_indexed_at_their_new_places(tmp_path: Path) -> None:
    samples = [
        Sample(f"s{n:05d}", "?", "question", "image", "red", lambda: None) for n in (3, 1, 2)
    ]
    described = SetDescription.of("world", DatasetSpec(None, "test", 0, None), samples)
    manifest = a_manifest(set=described)
    with RunStore.create(tmp_path, manifest) as store:
        for position, number in enumerate((1, 2, 3)):
            store.add(position, a_row(number))
    with RunStore.resume(tmp_path, manifest, samples) as store:
        assert [name for (name,) in store.query(IN_ORDER)] == ["s00003", "s00001", "s00002"]
        assert [row.sample_id for row in store.rows()] == ["s00003", "s00001", "s00002"]


def test_stored_keys_are_looked_up(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, a_manifest(seeds=(0, 1))) as store:
        for number in range(1_500):
            for seed in (0, 1):
                store.add(number, a_row(number, seed=seed))
        done = store.done()
        assert len(done) == 3_000 and ("s00007", 1) in done
        assert ("s00007", 2) not in done and "s00007" not in done
        assert set(done) == {(row.sample_id, row.seed) for row in store.rows()}
        store.add(1_500, a_row(1_500))
        assert ("s01500", 0) in done


@pytest.mark.parametrize(
    "change",
    [
        "details = '[1]'", "details = '{\"iou\": {}}'", "marks = 'x'",
        "marks = '3'", "groups = '[[]]'", "score = 'half'", "details = zeroblob(9)",
    ],
)  # fmt: skip
def test_an_index_of_a_stranger_is_not_trusted(tmp_path: Path, change: str) -> None:
    folder = stored(tmp_path / "run", rows(), metric="gqa")
    with closing(sqlite3.connect(folder / "samples.db")) as connection:
        connection.execute(f"UPDATE facts SET {change} WHERE sample = 5")
        connection.commit()
    with RunStore.read(folder) as store:
        if "half" in change:
            assert report(store)["n"] == 40  # a text as a number is 0
        else:
            with pytest.raises(StoreError, match="damaged"):
                report(store)


def test_an_index_of_another_form_is_refused(tmp_path: Path) -> None:
    folder = stored(tmp_path / "run", rows(3))
    with closing(sqlite3.connect(folder / "samples.db")) as connection:
        connection.execute("CREATE TRIGGER t AFTER INSERT ON facts BEGIN SELECT 1; END")
        connection.commit()
    with pytest.raises(StoreError, match="trigger"):
        RunStore.read(folder)


def test_only_files_of_usual_size_are_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stored(tmp_path / "run", rows(300))
    path = folder / "samples.db"
    data = bytearray(path.read_bytes())
    data[-4096 * 8 : -4096 * 7] = b"\xff" * 4096
    path.write_bytes(data)
    manifest = a_manifest(set=SetDescription("world", None, 0, None, 300, "ab" * 32))
    shutil.copy(path, tmp_path / "damaged.db")
    with pytest.raises(StoreError, match="damaged"):
        RunStore.resume(folder, manifest)
    monkeypatch.setattr(sqlite, "_EXAMINED_BYTES", 0)
    RunStore.resume(folder, manifest).close()


def test_a_short_text_is_a_whole_answer(tmp_path: Path) -> None:
    answers = ["no", "No", "north", "3", "33"]
    made = [a_row(n, prediction=Prediction(answer)) for n, answer in enumerate(answers)]
    with RunStore.read(stored(tmp_path / "run", made)) as store:
        viewer = ViewerIndex([store])
        totals = {text: viewer.find(RowFilter(text=text)).total for text in ("NO", "3", "33", "n")}
    assert totals == {"NO": 2, "3": 1, "33": 1, "n": 0}


@pytest.mark.parametrize(
    "text",
    ['"', '""', "'", "a AND", "* OR *", "NEAR(", "texts: cube", "-cube", "^", '" OR "', "\0\0\0",
     "cube\0", "); DROP TABLE facts; --", "%%%", "___", "\ud800\ud800\ud800", "{}[]()", "象象象"],
)  # fmt: skip
def test_no_text_is_a_query_of_its_own(tmp_path: Path, text: str) -> None:
    made = [a_row(0), a_row(1, text=f"a text with {text} in it")]
    with RunStore.read(stored(tmp_path / "run", made)) as store:
        viewer = ViewerIndex([store])
        found = viewer.find(RowFilter(text=text))
        assert found.total == (len(text) >= 3)
        assert viewer.find(RowFilter(text=f"with {text} in")).total == 1
        assert store.count() == 2
