"""The viewer: what filters find, what pages show, who gets in."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.commands.test_bad_input import refused
from tests.evaluate.fake_backends import a_set
from tests.evaluate.run_samples import a_manifest, a_row, a_trace, aged, failed_row
from tests.web.test_trace_page import HOSTILE, Reader
from viper.api.library import Library
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec
from viper.evaluate.reports.report import headline_of
from viper.evaluate.runs.index import SORTS, verdict_of
from viper.evaluate.runs.manifest import SetDescription
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import Prediction, SampleResult, row_from
from viper.schema import ToolCall
from viper.serve.gate import AccessRules
from viper.strategies.replay import Replayer
from viper.web.viewer.app import ViewedRun, Viewer, _headline, create_viewer, filter_from
from viper.web.viewer.gallery import RunGallery
from viper.web.viewer.index import PAGE_ROWS, RowFilter, ViewerIndex

TOKEN = "the-token"
ACCESS = AccessRules("127.0.0.1", TOKEN, in_path=True)


def write(
    folder: Path, rows: list[SampleResult], set_name: str = "world", **changes: Any
) -> RunStore:
    described = SetDescription(set_name, None, 0, None, len(rows), "ab" * 32)
    with RunStore.create(folder, a_manifest(set=described, metric="gqa", **changes)) as store:
        for position, row in enumerate(rows):
            trace = a_trace(row)
            tool = "find" if position % 2 else "simple_query"
            call = ToolCall(0, tool, (), {}, "red", 0.1, line=2)
            trial = replace(trace.trials[0], tool_calls=(call,), ok=row.failure is None)
            store.add(position, row, replace(trace, trials=(trial,)))
    return RunStore.read(folder)


def rows() -> list[SampleResult]:
    """Forty: every fourth failed, every second of the others right."""
    found = [failed_row(n) if n % 4 == 0 else a_row(n) for n in range(39)]
    return [*found, replace(failed_row(39), failure="below_threshold")]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[ViewerIndex]:
    with write(tmp_path / "run", rows()) as store:
        yield ViewerIndex([store])


def numbers(index: ViewerIndex, **wanted: Any) -> list[int]:
    found: list[int] = []
    wanted = {"sort": "order", **wanted}
    pages = index.find(RowFilter(**wanted)).pages
    for page in range(pages):
        found += [int(name[1:]) for name, _ in index.find(RowFilter(**wanted, page=page)).keys]
    return found


def test_filters_find_what_they_say(index: ViewerIndex) -> None:
    assert numbers(index) == list(range(40))
    assert numbers(index, failure="runtime") == list(range(0, 39, 4))
    assert numbers(index, failure="below_threshold") == [39]
    assert numbers(index, failure="answered") == [n for n in range(39) if n % 4]
    assert numbers(index, tool="find") == list(range(1, 40, 2))
    assert numbers(index, kind=("family", "spatial")) == [n for n in range(40) if n % 3]
    assert numbers(index, low=0.5) == [n for n in range(39) if n % 4 == 2]
    assert numbers(index, high=0.4, failure="answered") == list(range(1, 39, 2))
    assert numbers(index, part="IoU above 0.7") == [n for n in range(39) if n % 4 == 2]
    assert numbers(index, text="CUBE 3?") == [3] and numbers(index, text="return 17") == [17]
    assert numbers(index, text="e%e") == numbers(index, text="e_ecute") == []
    assert len(numbers(index, text="execute_command")) == 40
    assert numbers(index, seed=1) == []
    assert numbers(index, failure="runtime", tool="find", kind=("family", "spatial")) == []


def test_sorting_and_pages(index: ViewerIndex) -> None:
    first, second = index.find(RowFilter()), index.find(RowFilter(page=1))
    assert first.total == 40 and first.pages == 2
    assert (len(first.keys), len(second.keys)) == (PAGE_ROWS, 40 - PAGE_ROWS)
    assert index.find(RowFilter(page=99)).keys == ()
    worst = numbers(index, sort="worst")
    assert worst[:11] == [*range(0, 39, 4), 39]
    assert numbers(index, sort="best")[:2] == [2, 6]
    for name in SORTS:
        assert sorted(numbers(index, sort=name)) == list(range(40))
    assert numbers(index, sort="score; DROP TABLE rows") == numbers(index, sort="wrong first")


def test_it_opens_with_the_wrong_then_the_doubtful_then_the_right(tmp_path: Path) -> None:
    found = [replace(a_row(n), score=score, marks=marks, failure=failure)
             for n, (score, marks, failure) in enumerate([
                 (1.0, (), None),
                 (0.5, ("fallback:average_box", "warning:weak_evidence"), None),
                 (1.0, ("fallback:average_box",), None),
                 (0.49, (), None),
                 (1.0, (), "runtime"),
                 (0.0, ("warning:guessed",), None),
             ])]  # fmt: skip
    assert [verdict_of(row) for row in found] == [
        "right", "doubtful", "right", "wrong", "wrong", "wrong"
    ]  # fmt: skip
    with write(tmp_path / "run", found) as store:
        index = ViewerIndex([store])
        opening = filter_from({})
        assert [int(name[1:]) for name, _ in index.find(opening).keys] == [3, 4, 5, 1, 0, 2]
        assert numbers(index, sort="order") == list(range(6))


def test_facets_count(index: ViewerIndex) -> None:
    facets = index.facets
    assert facets.rows == 40 and facets.seeds == (0,)
    assert facets.failures == (("answered", 29), ("runtime", 10), ("below_threshold", 1))
    assert dict(facets.tools) == {"find": 20, "simple_query": 20}
    assert dict(facets.kinds["family"]) == {"spatial": 26, "temporal": 14}
    assert sum(count for _, count in facets.parts) == 40 and facets.changes == ()


def test_a_run_that_grows_is_right_at_once(tmp_path: Path) -> None:
    manifest = a_manifest(metric="accuracy")
    with RunStore.create(tmp_path / "run", manifest) as writer:
        writer.add(0, a_row(0))
        with RunStore.read(tmp_path / "run") as store:
            index = ViewerIndex([store])
            writer.add(1, a_row(1))
            assert index.find(RowFilter()).total == index.facets.rows == 2


def test_a_page_reads_the_rows_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []

    def counted(line: Any) -> SampleResult:
        read.append(line)
        return row_from(line)

    with write(tmp_path / "run", rows()) as store, Replayer(Library()) as replayer:
        monkeypatch.setattr("viper.evaluate.runs.store.row_from", counted)
        viewer_index = ViewerIndex([store])
        for wanted in ({}, {"text": "cube"}, {"tool": "find", "sort": "best"}, {"page": 1}):
            viewer_index.find(RowFilter(**wanted))
        assert viewer_index.facets.rows == 40 and not read
        viewed = ViewedRun("run", store, RunGallery(store, None))
        viewer = Viewer((viewed,), viewer_index, replayer, ACCESS)
        client = TestClient(create_viewer(viewer), base_url="http://127.0.0.1")
        assert client.get(f"/{TOKEN}/").status_code == 200
    assert len(read) == PAGE_ROWS


def test_runs_that_grow_are_compared_on(tmp_path: Path) -> None:
    with ExitStack() as stack:
        folders = [tmp_path / name for name in "ab"]
        writers = [stack.enter_context(RunStore.create(each, a_manifest())) for each in folders]
        stores = [stack.enter_context(RunStore.read(each)) for each in folders]
        index = ViewerIndex(stores)
        assert index.facets.rows == 0 and set(dict(index.facets.changes).values()) == {0}
        for number in (1, 3, 5):
            writers[0].add(number, a_row(number))
        writers[1].add(1, a_row(1, score=1.0))
        index.refresh()
        assert numbers(index, change="to right") == [1]
        writers[1].add(3, a_row(3, score=1.0, program="p"))
        index.refresh()
        index.refresh()
        assert numbers(index, change="to right") == [1, 3]
        assert numbers(index, change="another program") == [3]
        assert dict(index.facets.changes)["to right"] == 2


def test_kinds_that_are_too_many_leave_the_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viper.web.viewer.index._MOST_LABELS", 10)
    made = [a_row(n, groups={"example": str(n // 3)}) for n in range(60)]
    with write(tmp_path / "run", [*made, failed_row(99)]) as store:
        facets = ViewerIndex([store]).facets
    assert dict(facets.failures) == {"answered": 60, "runtime": 1}
    assert 0 < len(facets.kinds["example"]) < 10


def test_a_text_that_too_many_hold_finds_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viper.web.viewer.index.MOST_WITH_TEXT", 10)
    with write(tmp_path / "run", rows()) as store:
        index = ViewerIndex([store])
        found = index.find(RowFilter(text="execute_command"))
        assert found.is_cut and found.total == 10
        assert not index.find(RowFilter(text="return 17")).is_cut


def test_an_old_run_and_one_being_written_are_compared(tmp_path: Path) -> None:
    with ExitStack() as stack:
        old = write(tmp_path / "a", [a_row(n) for n in range(6)])
        old.close()
        aged(tmp_path / "a")
        writer = stack.enter_context(RunStore.create(tmp_path / "b", a_manifest()))
        writer.add(3, a_row(3, score=1.0))
        names = [tmp_path / "a", tmp_path / "b"]
        index = ViewerIndex([stack.enter_context(RunStore.read(name)) for name in names])
        assert numbers(index, change="to right") == [3] and index.facets.rows == 6


def test_changes_from_one_run_to_another(tmp_path: Path) -> None:
    before = [a_row(n) for n in range(12)]
    after = [replace(a_row(n), score=1.0, program="p" if n == 3 else a_row(n).program)
             for n in range(12)]  # fmt: skip
    after[2] = failed_row(2)
    with ExitStack() as stack:
        stores = [
            stack.enter_context(write(tmp_path / name, its))
            for name, its in (("a", before), ("b", after))
        ]
        index = ViewerIndex(stores)
        assert numbers(index, change="to right") == list(range(1, 12, 2))
        assert numbers(index, change="to wrong") == [2] == numbers(index, change="another failure")
        assert numbers(index, change="another program") == [3]
        assert dict(index.facets.changes)["to right"] == 6
        assert numbers(index, change="nonsense") == list(range(12))


def test_samples_of_one_run_alone_are_shown_but_did_not_change(tmp_path: Path) -> None:
    with ExitStack() as stack:
        stores = [
            stack.enter_context(write(tmp_path / name, [a_row(n) for n in range(count)]))
            for name, count in (("a", 6), ("b", 4))
        ]
        index = ViewerIndex(stores)
        assert numbers(index) == list(range(6)) and index.facets.rows == 6
        assert dict(index.facets.changes)["another program"] == 0


class Site:
    """The viewer of one run or two over questions about real pictures."""

    def __init__(self, folder: Path, stack: ExitStack, runs: int = 1) -> None:
        self.file, _ = a_set(folder / "set", 8)
        samples = data_set(str(self.file)).samples(DatasetSpec())
        judged = [
            SampleResult.of(one, 0, n % 2, prediction=Prediction("red"), program=f"answer = {n}")
            for n, one in enumerate(samples)
        ]
        names = ["before", "after"][:runs]
        stores = [
            stack.enter_context(write(folder / name, judged, str(self.file))) for name in names
        ]
        shelves = tuple(
            ViewedRun(name, store, RunGallery(store, None))
            for name, store in zip(names, stores, strict=True)
        )
        for shelf in shelves:
            assert shelf.gallery.wait(10)
        replayer = stack.enter_context(Replayer(Library()))
        self.viewer = Viewer(shelves, ViewerIndex(stores), replayer, ACCESS)
        self.client = TestClient(create_viewer(self.viewer), base_url="http://127.0.0.1")

    def get(self, path: str) -> Any:
        return self.client.get(f"/{TOKEN}/{path}")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack, runs=2)


def test_the_grid_shows_and_filters(site: Site) -> None:
    page = Reader(site.get("").text)
    assert "8 samples" in page.words and "what color is thing 7?" in page.words
    links = [its["href"] for _, its in page.elements if (its.get("href") or "").startswith("trace")]
    assert len(links) == 8
    assert "1 sample" in Reader(site.get("?text=thing+7").text).words
    assert "Nothing passes this filter." in Reader(site.get("?text=zebra").text).words
    assert "4 samples" in Reader(site.get("?low=0.5").text).words


def test_cards_say_what_is_wrong_in_words_and_class(tmp_path: Path) -> None:
    marks = ("warning:weak_evidence", "warning:unknown_words")
    found = [a_row(0), replace(a_row(2), marks=marks), a_row(1), replace(a_row(4), target=None)]
    with write(tmp_path / "run", found) as store, Replayer(Library()) as replayer:
        viewed = ViewedRun("run", store, RunGallery(store, None))
        viewer = Viewer((viewed,), ViewerIndex([store]), replayer, ACCESS)
        client = TestClient(create_viewer(viewer), base_url="http://127.0.0.1")
        page = Reader(client.get(f"/{TOKEN}/").text)
    shown = [its["class"] for tag, its in page.elements if tag == "li" and its.get("class")]
    assert shown == ["wrong", "doubtful", "right", "right"]
    assert re.findall(r"✗ wrong|\? doubtful: [a-z, ]+? red|✓ \w+", page.words) == [
        "✗ wrong", "? doubtful: weak evidence, unknown words red", "✓ right", "✓ answered"
    ]  # fmt: skip


def test_a_picture_and_a_trace(site: Site) -> None:
    small = site.get("small?id=q3&seed=0")
    assert small.status_code == 200 and small.content[:3] == b"\xff\xd8\xff"
    trace = site.get("trace?id=q3&seed=0")
    assert trace.status_code == 200 and "what color is thing 3?" in trace.text
    assert 'href="./"' in trace.text and "Right is:" in trace.text


def test_pictures_of_a_large_run_are_loaded_for_the_pages_that_show_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viper.web.viewer.gallery._MOST_LOADED", 3)
    with ExitStack() as stack:
        site = Site(tmp_path, stack)
        gallery = site.viewer.shelves[0].gallery
        assert not gallery._samples
        assert site.get("?text=thing+7").status_code == 200 and gallery.wait(10)
        assert [*gallery._samples] == ["q7"]
        for sample in ("q7", "q3"):  # the second as by an address from elsewhere
            assert site.get(f"small?id={sample}&seed=0").status_code == 200


def test_a_figure_that_takes_long_is_shown_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = threading.Event()

    def slow(store: RunStore) -> Any:
        ready.wait(20)
        return headline_of(store)

    monkeypatch.setattr("viper.web.viewer.app._PATIENCE_S", 0)
    monkeypatch.setattr("viper.web.viewer.app.headline_of", slow)
    with ExitStack() as stack:
        site = Site(tmp_path, stack)
        assert "n = 8 (its figure is being computed" in Reader(site.get("").text).words
        ready.set()
        _headline(site.viewer.shelves[0].store)._thread.join(20)
        assert "accuracy 0.500 [" in Reader(site.get("").text).words


def test_what_is_not_there(site: Site) -> None:
    for path in ("small?id=nobody", "trace?id=nobody", "trace?id=q3&run=5", "static/../app.py",
                 "static/app.py", "nowhere"):  # fmt: skip
        assert site.get(path).status_code == 404, path
    for path in ("?page=zz", "?page=99999999999999", "?low=nan&high=-3", "?kind=x", "?sort=zz"):
        assert site.get(path).status_code == 200, path


def test_pictures_that_are_gone_leave_the_rest(site: Site) -> None:
    for picture in (site.file.parent / "pictures").iterdir():
        picture.unlink()
    assert site.get("").status_code == 200
    assert site.get("small?id=q1&seed=0").status_code == 404
    answer = site.get("trace?id=q1&seed=0")
    assert answer.status_code == 404 and "pictures are not here" in answer.text


def test_only_who_knows_the_token_gets_in(site: Site) -> None:
    for path in ("/", "/small?id=q1", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/", "/static/viewer.css", "//"):
        assert site.client.get(path).status_code == 404, path
    for method in ("post", "put", "delete", "patch"):
        assert getattr(site.client, method)("/").status_code == 404
        assert getattr(site.client, method)(f"/{TOKEN}/").status_code == 405


def test_pages_say_what_browsers_may_do(site: Site) -> None:
    for path in ("", "trace?id=q1&seed=0", "static/viewer.js"):
        headers = site.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in site.get("").headers["content-security-policy"]


def test_two_runs_stand_side_by_side(two: Site) -> None:
    page = Reader(two.get("").text)
    assert "before → after" in page.words and "to right 0" in page.words
    compared = Reader(two.get("sample?id=q3&seed=0").text)
    frames = [its["src"] for tag, its in compared.elements if tag == "iframe"]
    assert frames == ["trace?id=q3&seed=0&run=0", "trace?id=q3&seed=0&run=1"]
    assert all(two.get(frame or "").status_code == 200 for frame in frames)


def test_nothing_that_a_run_holds_is_markup(tmp_path: Path) -> None:
    hostile = [
        replace(a_row(n), sample_id=f"{n}{HOSTILE}", text=HOSTILE, target=HOSTILE,
                prediction=Prediction(HOSTILE), program=HOSTILE, groups={HOSTILE: HOSTILE},
                failure=HOSTILE if n else None, message=HOSTILE)
        for n in range(2)
    ]  # fmt: skip
    with ExitStack() as stack:
        stores = [stack.enter_context(write(tmp_path / name, hostile)) for name in "ab"]
        shelves = tuple(ViewedRun(HOSTILE, store, RunGallery(store, None)) for store in stores)
        replayer = stack.enter_context(Replayer(Library()))
        viewer = Viewer(shelves, ViewerIndex(stores), replayer, ACCESS)
        client = TestClient(create_viewer(viewer), base_url="http://127.0.0.1")
        grid = client.get(f"/{TOKEN}/", params={"text": "script", "kind": f"a={HOSTILE}"}).text
        key = {"id": hostile[0].sample_id, "seed": "0"}
        compared = client.get(f"/{TOKEN}/sample", params=key).text
        filtered = client.get(f"/{TOKEN}/", params={"part": HOSTILE, "change": HOSTILE}).text
    for page in (grid, compared, filtered):
        assert "<script>window" not in page
        found = Reader(page)
        assert not [name for _, its in found.elements for name in its if name.startswith("on")]
        sources = [its.get("src") or "" for tag, its in found.elements if tag in ("img", "script")]
        assert all(re.match(r"(small\?|static/)", source) for source in sources), sources
    assert HOSTILE in Reader(compared).text


def test_an_address_is_read_without_trust() -> None:
    wanted = filter_from({"text": "x" * 9_999, "low": "inf", "page": "-4", "seed_is": "1e9"})
    assert len(wanted.text) == 500 and wanted.low is None and wanted.page == 0
    assert wanted.seed is None and filter_from({"kind": "a=b=c"}).kind == ("a", "b=c")


def test_bad_input_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "not the folder of a run" in refused(capsys, "view", str(tmp_path))
    write(tmp_path / "run", rows()).close()
    run = str(tmp_path / "run")
    assert "one run or compares two; got 3" in refused(capsys, "view", run, run, run)
    line = refused(capsys, "view", run, "--host", "203.0.113.7", "--no-open")
    assert "cannot listen on 203.0.113.7" in line and "another --port" in line


def test_the_list_opens_with_what_ran_and_how_well(two: Site) -> None:
    page = Reader(two.get("").text)
    about = "· profile embedded · program · 2026-01-01 00:00 UTC"
    for name in ("before", "after"):
        assert re.search(rf"{name}: accuracy 0\.500 \[0\.\d+, 0\.\d+\], n = 8 ", page.words)
    assert page.words.count(about) == 2, page.words[:300]


def test_an_unfinished_run_and_a_missing_metric_are_named(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "run", a_manifest()) as store, Replayer(Library()) as replayer:
        store.add(0, a_row(0))
        viewed = ViewedRun("run", store, RunGallery(store, None))
        viewer = Viewer((viewed,), ViewerIndex([store]), replayer, ACCESS)
        client = TestClient(create_viewer(viewer), base_url="http://127.0.0.1")
        words = Reader(client.get(f"/{TOKEN}/").text).words
    assert "n = 1 of 40, unfinished (metric hits is not installed)" in words
