"""A run's folder: what goes in comes out, and nothing else gets in."""

from __future__ import annotations

import json
import sqlite3
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_samples import a_manifest, a_row, a_trace, failed_row

from tests.test_record import TRACE
from viper.data.registry import choose
from viper.data.sample import DatasetSpec, Sample
from viper.errors import StoreError, UsageError
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.runs.manifest import MANIFEST_VERSION, Manifest, SetDescription
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import Prediction
from viper.schema import ToolCall, Trial, Usage, to_json


def filled(folder: Path, count: int) -> RunStore:
    store = RunStore.create(folder, a_manifest())
    for number in range(count):
        store.add(number, a_row(number), None)
    return store


def a_sample(number: int) -> Sample:
    return Sample(a_row(number).sample_id, "?", "question", "image", "red", lambda: None)


def described(samples: list[Sample], limit: int) -> Manifest:
    spec = DatasetSpec(None, "test", 3, limit)  # this seed draws samples 1 and 3
    description = SetDescription.of("world", spec, samples)
    return a_manifest(set=description, arguments=("eval", "--limit", str(limit)))


def positions(store: RunStore) -> dict[str, int]:
    return dict(store.query("SELECT sample_id, position FROM samples"))


def test_a_row_and_its_trace_come_back_as_they_were(tmp_path: Path) -> None:
    row = a_row(
        prediction=Prediction(None, (1.5, 2.0, 3.0, 4.0), 2),
        target=[1, 2, 3, 4],
        options=("a", "b"),
        marks=("fallback:average_box",),
        message="zero \x00, ünïcödé, 象",
        usage=Usage(1, 2, 3, 4, None),
    )
    with RunStore.create(tmp_path / "run", a_manifest()) as store:
        store.add(3, row, a_trace(row))
        assert list(store.rows()) == [row]
        assert store.trace(row.sample_id, 0) == to_json(a_trace(row))
        assert store.trace("nothing", 0) is None
        assert set(store.done()) == {(row.sample_id, 0)}
    with RunStore.read(tmp_path / "run") as store:
        assert list(store.rows()) == [row] and store.manifest == a_manifest()


def test_every_field_of_a_trace_is_stored(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, a_manifest()) as store:
        store.add(0, a_row(), TRACE)
        stored = store.trace(a_row().sample_id, 0)
    assert stored == json.loads(json.dumps(to_json(TRACE)))


def test_rows_come_in_the_order_of_the_set_and_by_seed(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, a_manifest(seeds=(0, 1))) as store:
        for number in reversed(range(450)):
            store.add(number, a_row(number, seed=number % 2))
        assert [row.sample_id for row in store.rows()] == [a_row(n).sample_id for n in range(450)]
        assert [row.seed for row in store.rows(1)] == [1] * 225


def test_a_sample_on_two_pages_keeps_all_its_seeds(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, a_manifest(seeds=(0, 1, 2))) as store:
        for number in range(70):  # a page has 200 rows and ends after a sample's second seed
            for seed in range(3):
                store.add(number, a_row(number, seed=seed))
        assert len({(row.sample_id, row.seed) for row in store.rows()}) == 210
        assert set(store.done()) == {(row.sample_id, row.seed) for row in store.rows()}


def test_a_row_names_the_tools_of_all_its_trials(tmp_path: Path) -> None:
    def trial(index: int, *tools: str) -> Trial:
        calls = tuple(ToolCall(n, tool, (), {}, None, 0.0) for n, tool in enumerate(tools))
        return replace(TRACE.trials[0], index=index, tool_calls=calls)

    trace = replace(TRACE, trials=(trial(0, "find", "find"), trial(1, "find", "exists")))
    with RunStore.create(tmp_path, a_manifest()) as store:
        store.add(0, a_row(), trace)
        ((tools,),) = store.query("SELECT tools FROM samples")
        assert json.loads(tools) == ["find", "exists"]


def test_a_start_that_fails_admits_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr("viper.evaluate.runs.store.open_to_write", fail)
        with pytest.raises(StoreError) as failed:
            RunStore.create(tmp_path, a_manifest())
    with RunStore.resume(tmp_path, a_manifest()) as store:
        assert store.count() == 0 and "no space" in str(failed.value)


def test_the_worst_rows_are_failures_then_wrong_answers(tmp_path: Path) -> None:
    with RunStore.create(tmp_path, a_manifest()) as store:
        for number, row in enumerate([a_row(0), a_row(1), failed_row(2), a_row(3)]):
            store.add(number, row)
        assert [row.sample_id for row in store.worst(3)] == ["s00002", "s00001", "s00003"]


@pytest.mark.parametrize(
    ("changes", "stored"),
    [
        ({"text": "half \ud800 a pair"}, {"text": "half ? a pair"}),
        ({"prediction": Prediction(float("nan"))}, {"prediction": Prediction("nan")}),
        ({"prediction": Prediction(2**20_000)}, {"prediction": Prediction(hex(2**20_000))}),
        ({"target": {1: (2, 3)}}, {"target": {"1": [2, 3]}}),
        ({"text": "'); DROP TABLE samples; --"}, {}),
        ({"sample_id": "../../etc\n\x1b[31m"}, {}),
    ],
)
def test_odd_values_are_stored_as_something_readable(
    tmp_path: Path, changes: dict[str, Any], stored: dict[str, Any]
) -> None:
    row = a_row(**changes)
    with RunStore.create(tmp_path, a_manifest()) as store:
        store.add(0, row, None)
        assert list(store.rows()) == [replace(row, **stored)]


def test_a_value_nested_without_end_is_cut(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    with RunStore.create(tmp_path, a_manifest()) as store:
        store.add(0, a_row(prediction=Prediction(deep)))
        (row,) = store.rows()
    assert row.prediction is not None and "…" in str(row.prediction.value)


def test_stored_text_is_never_more_than_text(tmp_path: Path) -> None:
    """An object's pickle hooks are not asked; what is read back are JSON values."""

    class Hostile:
        def __reduce__(self) -> Any:
            raise AssertionError("pickled")

        def __repr__(self) -> str:
            return "<hostile>"

    with RunStore.create(tmp_path, a_manifest()) as store:
        store.add(0, a_row(prediction=Prediction(Hostile())))
        (row,) = store.rows()
    assert row.prediction == Prediction("<hostile>")


def test_the_same_sample_is_refused_twice(tmp_path: Path) -> None:
    with filled(tmp_path, 2) as store:
        with pytest.raises(StoreError, match="'s00000' under seed 0.* stored already"):
            store.add(7, a_row(0, score=0.5))
        with pytest.raises(StoreError, match="stored already"):
            store.add(1, a_row(9))
        store.add(2, a_row(2))
        assert [row.score for row in store.rows()] == [1.0, 0.0, 1.0]


def test_a_score_that_is_no_number_is_a_mistake_of_ours(tmp_path: Path) -> None:
    with filled(tmp_path, 0) as store, pytest.raises(ValueError, match="no number"):
        store.add(0, a_row(score=float("nan")))


def test_resume_keeps_what_is_there_and_notes_the_session(tmp_path: Path) -> None:
    filled(tmp_path, 3).close()
    again = a_manifest(arguments=("eval", "--resume"), created="later", execution={"workers": 9})
    with RunStore.resume(tmp_path, again) as store:
        assert len(store.done()) == 3 and store.manifest.created != "later"
        store.add(3, a_row(3))
        assert [item["arguments"] for item in store.sessions()] == [[], ["eval", "--resume"]]


def test_the_pace_is_of_the_sessions_that_stored_it(tmp_path: Path) -> None:
    with filled(tmp_path, 3) as store:
        assert store.pace() is None
        store.add_pace(3, 1.5)
    with RunStore.resume(tmp_path, a_manifest()) as store:
        store.add_pace(1, 0.5)
    with RunStore.read(tmp_path) as store:
        assert store.pace() == {"answers": 4, "seconds": 2.0}


def test_resume_of_an_absent_folder_starts_the_run(tmp_path: Path) -> None:
    with RunStore.resume(tmp_path / "deep" / "run", a_manifest()) as store:
        assert set(store.done()) == set()
    assert json.loads((tmp_path / "deep/run/run.json").read_text())["strategy"] == "program"


def test_an_extension_that_broke_off_can_be_continued_or_left(tmp_path: Path) -> None:
    """Results that stand at the places of another limit move when the run is resumed."""
    samples = [a_sample(number) for number in range(4)]
    small = choose(samples, 2, 3)
    assert small == [samples[1], samples[3]]
    with RunStore.create(tmp_path, described(small, 2)) as store:
        store.add(0, a_row(1))
        store.add(1, a_row(3))
    manifest = (tmp_path / "run.json").read_bytes()
    RunStore.resume(tmp_path, described(samples, 4), samples).close()
    (tmp_path / "run.json").write_bytes(manifest)  # as if the process had ended before this file
    with RunStore.resume(tmp_path, described(small, 2), small) as store:
        assert positions(store) == {"s00001": 0, "s00003": 1}
    with RunStore.resume(tmp_path, described(samples, 4), samples) as store:
        assert positions(store) == {"s00001": 1, "s00003": 3}
        assert store.manifest.set.limit == 4 and store.manifest.arguments[-1] == "4"
        store.add(0, a_row(0))
        store.add(2, a_row(2))
        assert [row.sample_id for row in store.rows()] == [each.sample_id for each in samples]


def test_resume_of_another_configuration_shows_the_differences(tmp_path: Path) -> None:
    filled(tmp_path, 1).close()
    other = a_manifest(settings={"trials": 3, "temperature": 0.4}, seeds=(0, 1))
    with pytest.raises(UsageError) as caught:
        RunStore.resume(tmp_path, other)
    lines = str(caught.value).splitlines()
    assert "another configuration" in lines[0]
    assert lines[1:] == [
        "  seeds: [0] in the run, [0,1] now",
        "  temperature: 0.0 in the run, 0.4 now",
    ]
    RunStore.resume(tmp_path, a_manifest()).close()


@pytest.mark.parametrize("opened", [RunStore.create, RunStore.resume])
def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, opened: Any) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="other files \\(thesis.tex\\)"):
        opened(tmp_path, a_manifest())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(UsageError, match="a file"):
        opened(tmp_path / "thesis.tex", a_manifest())


def test_create_refuses_a_run(tmp_path: Path) -> None:
    filled(tmp_path, 1).close()
    with pytest.raises(UsageError, match="--resume"):
        RunStore.create(tmp_path, a_manifest())


def test_what_a_killed_start_leaves_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "run.lock").write_text("123")
    (tmp_path / ".run.json.tmp").write_text('{"half')
    filled(tmp_path, 1).close()
    (tmp_path / "samples.db").unlink()
    assert list(RunStore.read(tmp_path).rows()) == []
    (tmp_path / "samples.db").touch()
    assert list(RunStore.read(tmp_path).rows()) == []
    with RunStore.resume(tmp_path, a_manifest()) as store:
        store.add(0, a_row(0))


def test_reading_says_in_one_line_what_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not the folder of a run"):
        RunStore.read(tmp_path)
    for text in ("", "[]", '{"schema": 1}', "{" * 50_000, "[" * 200_000, '{"schema": "x"}'):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(StoreError) as caught:
            RunStore.read(tmp_path)
        assert "\n" not in str(caught.value) and "manifest" in str(caught.value)
    newer = {**a_manifest().to_json(), "schema": MANIFEST_VERSION + 1}
    (tmp_path / "run.json").write_text(json.dumps(newer))
    with pytest.raises(StoreError, match="newer viper"):
        RunStore.read(tmp_path)


@pytest.mark.parametrize("opened", [lambda f: RunStore.resume(f, a_manifest()), RunStore.read])
def test_a_database_that_is_damaged_or_not_ours_is_one_line(tmp_path: Path, opened: Any) -> None:
    filled(tmp_path, 300).close()
    path = tmp_path / "samples.db"
    good = path.read_bytes()
    path.write_bytes(b"not a database, only long enough to be one" * 100)
    with pytest.raises(StoreError, match="damaged, or not an SQLite file"):
        opened(tmp_path)
    path.unlink()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE recipes (name)")
    other.commit()
    other.close()
    with pytest.raises(StoreError, match="another program"):
        opened(tmp_path)
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(StoreError, match="damaged"), opened(tmp_path) as store:
        list(store.rows())


def test_resume_finds_damage_inside_the_file(tmp_path: Path) -> None:
    filled(tmp_path, 300).close()
    path = tmp_path / "samples.db"
    data = bytearray(path.read_bytes())
    data[8192:16384] = b"\xff" * 8192
    path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        RunStore.resume(tmp_path, a_manifest())


def test_what_is_opened_for_reading_is_not_written(tmp_path: Path) -> None:
    filled(tmp_path, 1).close()
    with RunStore.read(tmp_path) as store, pytest.raises(StoreError, match="opened for reading"):
        store.add(1, a_row(1))


def test_reports_are_whole_files(tmp_path: Path) -> None:
    with filled(tmp_path, 1) as store:
        store.write_report({"n": 1})
        store.write_report({"n": 2})
    assert json.loads((tmp_path / "report.json").read_text()) == {"n": 2}
    assert not list(tmp_path.glob(".*.tmp"))


def test_threads_share_a_store(tmp_path: Path) -> None:
    with filled(tmp_path, 0) as store:

        def write(first: int) -> None:
            for number in range(first, 400, 4):
                store.add(number, a_row(number))
                assert sum(1 for _ in store.rows()) <= 400

        threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store.done()) == 400


def test_reading_ten_thousand_rows_keeps_a_page_in_memory(tmp_path: Path) -> None:
    with filled(tmp_path, 0) as store:
        trace = a_trace(a_row())
        for number in range(10_000):
            store.add(number, a_row(number), trace)
        list(zip(store.rows(), range(500), strict=False))
        tracemalloc.start()
        try:
            early, count = 0, 0
            for count, _ in enumerate(store.rows(), start=1):
                if count == 1_000:
                    early = tracemalloc.get_traced_memory()[1]
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert count == 10_000 and peak < early * 1.5


@pytest.mark.parametrize("limit", [9, 12, 16, 24])
def test_a_run_of_a_drawn_set_is_extended_to_a_larger_limit(limit: int, tmp_path: Path) -> None:
    """Of these sets, each family has a part of the limit, one family after the other."""
    evaluation = Evaluation("world", DatasetSpec(None, "val", 0), 8)

    def draw(limit: int | None) -> list[Sample]:
        return replace(evaluation, limit=limit).samples()

    def manifest(limit: int) -> Manifest:
        spec = replace(evaluation, limit=limit).located()
        return a_manifest(set=SetDescription.of("world", spec, draw(limit)))

    before, after = draw(8), draw(limit)
    with RunStore.create(tmp_path, manifest(8)) as store:
        for place, sample in enumerate(before):
            store.add(place, replace(a_row(place), sample_id=sample.sample_id))
    with RunStore.resume(tmp_path, manifest(limit), after, draw) as store:
        names = [sample.sample_id for sample in after]
        assert positions(store) == {each.sample_id: names.index(each.sample_id) for each in before}
        assert store.manifest.set.limit == limit
