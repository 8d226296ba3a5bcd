"""Workflows of a set's samples: made, judged, kept, gone on with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.strategies.bench import Bench, picture
from viper.data.sample import Sample
from viper.errors import CancelledError, StoreError, UsageError
from viper.evaluate.campaign import Budget
from viper.evaluate.sample_result import SampleResult
from viper.models.llm.scripted import ScriptedLLM
from viper.reasoner import RunOptions
from viper.strategies.explore.workflow import Workflow
from viper.tuning.agent.workflows import (
    WORKFLOWS,
    WorkflowSettings,
    _unanswered,
    _WorkflowStore,
    make_workflows,
    read_workflows,
    utilisation,
)

GUESS = "<code>answer = image_patch.simple_query('how many?')"
LOOK = "<code>answer = str(len(image_patch.find('cube')))"
STORE = "<code>final_answer = answer"
COPY = "<code>final_answer = '{}'"
DONE = "<done>"


def agent(prompt: str) -> str:
    """Asks the weak model first; looks where that was doubted; copies what it is told."""
    steps = prompt.split("# caption: ")[1]
    if "# answer: " in steps:
        told = steps.split("# answer: ")[1].splitlines()[0]
        return DONE if "final_answer" in steps else COPY.format(told)
    if "final_answer" in steps:
        return DONE
    if "Rethink" in steps.split("</code>")[-1]:
        return LOOK
    return STORE if "answer =" in steps else GUESS


def samples(count: int = 6, target: str = "2") -> list[Sample]:
    return [
        Sample(f"s{n}", f"how many cubes, {n}?", "question", "image", target, picture,
               groups={"type": "count"})
        for n in range(count)
    ]  # fmt: skip


@pytest.fixture
def bench() -> Bench:
    llm = ScriptedLLM(agent)
    return Bench(
        [], parts={"models": {"explorer": llm}, "styles": {"explorer": "compact"}}, max_turns=8
    )


def making(mode: str, **more: object) -> WorkflowSettings:
    return WorkflowSettings("world", mode, **more)  # type: ignore[arg-type]


def test_the_three_manners(bench: Bench, tmp_path: Path) -> None:
    with bench:
        shares = {}
        for mode in ("standard", "given", "discrepancy"):
            made = make_workflows(bench.reasoner, samples(), making(mode), tmp_path, workers=3)
            share, copied = utilisation(made)
            shares[mode] = (share.value, copied)
    assert shares == {"standard": (0.0, 0.0), "given": (0.0, 1.0), "discrepancy": (1.0, 0.0)}
    kept = read_workflows(tmp_path)
    assert len(kept) == 18 and {one.manner for one in kept} == {"standard", "given", "discrepancy"}
    (doubted,) = [one for one in kept if one.manner == "discrepancy" and one.id == "s0"]
    assert [turn.kind for turn in doubted.turns] == ["code", "thought", "code", "code", "done"]
    assert doubted.turns[1].by == "checker" and "2" not in doubted.turns[1].text
    assert doubted.kind == "count" and doubted.captions and doubted.label == "2"
    assert doubted.usage.llm_calls == 4


def test_what_is_there_is_not_made_again(bench: Bench, tmp_path: Path) -> None:
    with bench:
        first = make_workflows(bench.reasoner, samples(4), making("standard"), tmp_path)
        told: list[str] = []
        again = make_workflows(
            bench.reasoner,
            samples(6),
            making("standard"),
            tmp_path,
            on_made=lambda one: told.append(one.id),
        )
    assert sorted(told) == ["s4", "s5"] and again[:4] == first


def test_a_torn_line_is_made_again(bench: Bench, tmp_path: Path) -> None:
    with bench:
        make_workflows(bench.reasoner, samples(3), making("standard"), tmp_path)
        file = tmp_path / WORKFLOWS
        whole = file.read_bytes()
        file.write_bytes(whole[:-40])
        made = make_workflows(bench.reasoner, samples(3), making("standard"), tmp_path)
    assert [one.id for one in made] == ["s0", "s1", "s2"]
    assert sorted(one.id for one in read_workflows(tmp_path)) == ["s0", "s1", "s2"]


def test_cancelled_it_keeps_what_has_ended(bench: Bench, tmp_path: Path) -> None:
    cancel = threading.Event()
    with bench, pytest.raises(CancelledError):
        make_workflows(
            bench.reasoner,
            samples(),
            making("standard"),
            tmp_path,
            cancel=cancel,
            on_made=lambda one: cancel.set(),
        )
    assert 1 <= len(read_workflows(tmp_path)) < 6


def failing_at(*numbers: int) -> dict[str, object]:
    def failing(prompt: str) -> str:
        if any(f"cubes, {number}?" in prompt for number in numbers):
            raise RuntimeError("lost")
        return agent(prompt)

    return {"models": {"explorer": ScriptedLLM(failing)}, "styles": {"explorer": "compact"}}


def test_a_sample_that_cannot_be_explored_ends_nothing(tmp_path: Path) -> None:
    with Bench([], parts=failing_at(1, 2, 5)) as bench:
        made = make_workflows(bench.reasoner, samples(), making("discrepancy"), tmp_path)
    assert [one.id for one in made] == [f"s{n}" for n in range(6)]
    broken = [one for one in made if one.error]
    assert [one.id for one in broken] == ["s1", "s2", "s5"]
    assert {(one.outcome, one.error) for one in broken} == {("unanswered", "RuntimeError: lost")}
    assert read_workflows(tmp_path) == made


@pytest.mark.parametrize(
    ("numbers", "kept"), [((3, 4, 5), ["s0", "s1", "s2"]), ((1, 3, 4, 5), ["s0", "s1", "s2"])]
)
def test_several_in_a_row_end_it_and_what_has_ended_is_kept(
    numbers: Sequence[int], kept: list[str], tmp_path: Path
) -> None:
    with Bench([], parts=failing_at(*numbers)) as bench, pytest.raises(RuntimeError, match="lost"):
        make_workflows(bench.reasoner, samples(), making("standard"), tmp_path)
    assert [one.id for one in read_workflows(tmp_path)] == kept


def test_all_of_few_that_fail_end_it(tmp_path: Path) -> None:
    with Bench([], parts=failing_at(0, 1)) as bench, pytest.raises(RuntimeError, match="lost"):
        make_workflows(bench.reasoner, samples(2), making("standard"), tmp_path)
    assert not (tmp_path / WORKFLOWS).exists()


def test_an_interrupt_stores_no_sample_twice(tmp_path: Path) -> None:
    def interrupted(workflow: Workflow) -> None:
        if workflow.id == "s1":
            raise KeyboardInterrupt

    store = _WorkflowStore(tmp_path, samples(3), making("standard"), "agent", interrupted)
    failed, first, second = (_unanswered(sample, making("standard")) for sample in samples(3))
    row = SampleResult("s0", 0, 0.0)
    store.add(0, row, (failed, RuntimeError("lost")))
    with pytest.raises(KeyboardInterrupt):
        store.add(1, row, (first, None))
    store.add(2, row, (second, None))
    assert [one.id for one in read_workflows(tmp_path)] == ["s0", "s1", "s2"]


def test_what_ends_beside_an_error_is_kept(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bench:
        (made,) = make_workflows(bench.reasoner, samples(1), making("standard"), tmp_path / "one")
    together = threading.Barrier(4)

    def ended(reasoner: object, sample: Sample, *rest: object) -> Workflow:
        together.wait(10)
        if sample.sample_id in ("s1", "s2"):
            raise StoreError("lost")
        return replace(made, id=sample.sample_id)

    monkeypatch.setattr("viper.tuning.agent.workflows.workflow_of", ended)
    with pytest.raises(StoreError, match="lost"):
        make_workflows(bench.reasoner, samples(4), making("standard"), tmp_path, workers=4)
    assert sorted(one.id for one in read_workflows(tmp_path)) == ["s0", "s3"]


def test_workflows_of_other_samples_are_not_taken_for_these(bench: Bench, tmp_path: Path) -> None:
    with bench:
        make_workflows(bench.reasoner, samples(1), making("standard"), tmp_path)
        other = [replace(samples(1)[0], text="what else?")]
        with pytest.raises(UsageError, match="another sample s0 .*give another folder"):
            make_workflows(bench.reasoner, other, making("standard"), tmp_path)
        elsewhere = WorkflowSettings("gqa", "standard")
        with pytest.raises(UsageError, match="holds workflows of world, not of gqa"):
            make_workflows(bench.reasoner, samples(1), elsewhere, tmp_path)


def test_one_budget_for_all_manners(bench: Bench, tmp_path: Path) -> None:
    budget = Budget(llm_calls=10, calls_an_item=3)
    with bench:
        first = make_workflows(
            bench.reasoner, samples(6), making("standard", budget=budget), tmp_path
        )
        second = make_workflows(
            bench.reasoner, samples(6), making("given", budget=budget), tmp_path
        )
    assert len(first) == 3 and second == []


def test_what_a_checking_model_costs_is_counted(tmp_path: Path) -> None:
    parts = {"models": {"explorer": ScriptedLLM(agent)}, "styles": {"explorer": "compact"}}
    with Bench(lambda prompt: "agrees", parts=parts) as bench:
        (made,) = make_workflows(
            bench.reasoner, samples(1), making("discrepancy", checks_by="llm"), tmp_path
        )
    own = sum(turn.writing.llm_calls for turn in made.turns)
    asked = sum(turn.kind in ("code", "done") for turn in made.turns)
    assert made.usage.llm_calls == own + asked > own


def test_the_budget_holds(bench: Bench, tmp_path: Path) -> None:
    bounded = making("standard", budget=Budget(llm_calls=14, calls_an_item=8))
    with bench:
        made = make_workflows(bench.reasoner, samples(), bounded, tmp_path)
    assert [one.id for one in made] == ["s0", "s1", "s2"]
    assert sum(one.usage.llm_calls for one in made) <= 14


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: making("best"), "mode is 'best'"),
        (lambda: read_workflows(Path("nowhere")), "no such file"),
    ],
)
def test_what_is_refused(call: Callable[[], object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        call()


def test_samples_without_a_label_to_compare_with_are_refused(bench: Bench, tmp_path: Path) -> None:
    edit = Sample("e", "make it red", "edit", "image", None, picture)
    with bench, pytest.raises(UsageError, match="of task edit"):
        make_workflows(bench.reasoner, [edit], making("standard"), tmp_path)


def test_workflows_of_another_agent_are_not_mixed_in(bench: Bench, tmp_path: Path) -> None:
    with bench:
        make_workflows(bench.reasoner, samples(2), making("standard"), tmp_path)
        warmer = making("standard", options=RunOptions(temperature=0.7))
        with pytest.raises(UsageError, match="of another agent or of other settings"):
            make_workflows(bench.reasoner, samples(3), warmer, tmp_path)
        assert len(make_workflows(bench.reasoner, samples(2), making("given"), tmp_path)) == 2
