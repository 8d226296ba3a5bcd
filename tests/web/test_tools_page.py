"""What tools' answers were worth, of one stored run and of two beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.evaluate.run_samples import a_manifest, a_row, a_trace
from tests.tuning.agent.turns import COUNT, DONE, FIND, STORE, WHOLE, code, workflow
from tests.web.test_trace_page import HOSTILE, Reader
from tests.web.test_viewer import ACCESS, TOKEN
from viper.api.library import Library
from viper.data.sample import DatasetSpec
from viper.evaluate.awareness import run_awareness
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.runs.manifest import SetDescription
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import Prediction, SampleResult
from viper.schema import ToolCall, Trace, Turn
from viper.strategies.replay import Replayer
from viper.web.viewer.app import ViewedRun, Viewer, create_viewer
from viper.web.viewer.gallery import RunGallery
from viper.web.viewer.index import ViewerIndex

WRONG = replace(WHOLE, calls=(0,))
FOUND = replace(FIND, calls=(0,))


def explored(
    number: int, *turns: Turn, tool: str, answer: str, kind: str
) -> tuple[SampleResult, Trace]:
    row = replace(
        a_row(number),
        target="2",
        score=float(answer == "2"),
        prediction=Prediction(answer),
        groups={"query_type": kind},
    )
    call = ToolCall(0, tool, (), {}, 1, 0.1, line=1)
    trace = a_trace(row)
    trial = replace(trace.trials[0], tool_calls=(call,))
    return row, replace(trace, trials=(trial,), turns=workflow(*turns).turns)


def write(folder: Path, *samples: tuple[SampleResult, Trace], **changes: Any) -> RunStore:
    manifest = a_manifest(strategy="explore", metric="accuracy", **changes)
    with RunStore.create(folder, manifest) as store:
        for position, (row, trace) in enumerate(samples):
            store.add(position, row, trace)
    return RunStore.read(folder)


def asked(number: int, kind: str = "count") -> tuple[SampleResult, Trace]:
    return explored(number, WRONG, replace(STORE, value="3"), DONE,
                    tool="simple_query", answer="3", kind=kind)  # fmt: skip


def stepped(number: int, kind: str = "count") -> tuple[SampleResult, Trace]:
    return explored(number, FOUND, COUNT, STORE, DONE, tool="find", answer="2", kind=kind)


def test_the_figures_of_a_run(tmp_path: Path) -> None:
    with write(tmp_path / "run", asked(0), asked(1), stepped(2)) as store:
        found = run_awareness(store)
    assert found is not None and found.samples == 3
    assert found.right.value == pytest.approx(1 / 3) and found.calls.value == 1
    tools = {one.tool: one for one in found.tools}
    assert (tools["simple_query"].answers, tools["simple_query"].right.value) == (2, 0)
    assert (tools["find"].answers, tools["find"].right.value) == (1, 1)
    assert {one.kind for one in found.tools} == {"count"} and found.causes == {"not told": 2}


def test_on_the_embedded_world_it_is_told_why_answers_are_wrong(tmp_path: Path) -> None:
    asked_of = [
        one
        for one in Evaluation("world", DatasetSpec(None, "val:question", 0), limit=40).samples()
        if str(one.target).isdigit()
    ][:3]
    explored = []
    for number, sample in enumerate(asked_of):
        wrong = str(int(str(sample.target)) + 1)
        whole = f"answer = image_patch.simple_query({sample.text!r})"
        turns = (
            code(whole if number else f"{whole}\nanswer = str(int(answer) + 1)", wrong),
            code("final_answer = answer", wrong),
            DONE,
        )
        row = a_row(
            number,
            sample_id=sample.sample_id,
            text=sample.text,
            target=sample.target,
            score=0.0,
            prediction=Prediction(wrong),
            groups=sample.groups,
        )
        query = replace(a_trace(row).query, sample_id=sample.sample_id)
        explored.append((row, replace(a_trace(row), query=query, turns=workflow(*turns).turns)))
    described = SetDescription("world", "val:question", 0, 40, 40, "ab" * 32)
    with write(tmp_path / "run", *explored, set=described) as store:
        found, few = run_awareness(store), run_awareness(store, max_reruns=1)
    assert found is not None and found.causes == {"wrong tool": 2, "wrong logic": 1}
    assert few is not None and few.causes == {"wrong logic": 1, "not told": 2}


def test_a_run_without_turns_has_none(tmp_path: Path) -> None:
    row = a_row(0)
    with write(tmp_path / "run", (row, a_trace(row))) as store:
        assert run_awareness(store) is None


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TestClient]:
    with ExitStack() as stack:
        stores = [
            stack.enter_context(write(tmp_path / "before", asked(0), asked(1, HOSTILE))),
            stack.enter_context(write(tmp_path / "after", stepped(0), stepped(1))),
        ]
        shelves = tuple(
            ViewedRun(name, store, RunGallery(store, None))
            for name, store in zip(("before", "after"), stores, strict=True)
        )
        for shelf in shelves:
            shelf.gallery.wait(10)
        replayer = stack.enter_context(Replayer(Library()))
        viewer = Viewer(shelves, ViewerIndex(stores), replayer, ACCESS)
        yield TestClient(create_viewer(viewer), base_url="http://127.0.0.1")


def test_the_page_shows_both_runs(two: TestClient) -> None:
    assert 'href="tools"' in two.get(f"/{TOKEN}/").text
    page = two.get(f"/{TOKEN}/tools")
    words = Reader(page.text).words
    assert page.status_code == 200
    assert "0.50 calls a question; 1 answers, right 0.0 %" in words
    assert "1.00 calls a question; 2 answers, right 100.0 %" in words
    assert "answered rightly" in words and HOSTILE not in page.text
