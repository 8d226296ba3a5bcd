"""Agents are tuned on what the original one solved, and answer what nobody learned from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.strategies.bench import Bench
from tests.tuning.agent.test_workflows import GUESS, agent, samples
from viper.data.sample import Sample
from viper.errors import UsageError
from viper.models.llm.scripted import ScriptedLLM
from viper.tuning.agent.masking import MaskedWorkflow
from viper.tuning.agent.training import TunedAgent, TuneSettings
from viper_lab.papers import dwim_study
from viper_lab.papers.dwim_study import (
    CUT,
    FROZEN,
    MASKED,
    OTHERS,
    ROOM_FOR_TURNS,
    SFT,
    UNTUNED,
    DwimScale,
    DwimStudy,
    SampleSplits,
    steps_of,
)

TRAIN, TEST = "train:question", "test:question"


def looking(prompt: str) -> str:
    """Answer as the agent that was tuned: find the cubes first, whatever is asked."""
    steps = prompt.split("# caption: ")[1]
    if "final_answer" in steps:
        return "<done>"
    return "<code>final_answer = str(len(image_patch.find('cube')))"


def named(split: str, count: int, target: str = "2") -> list[Sample]:
    return [replace(one, sample_id=f"{split} {one.sample_id} {target}")
            for one in samples(count, target)]  # fmt: skip


class Tuned(list[Sequence[MaskedWorkflow]]):
    """The texts of every tuning, in place of a tuning."""

    def tune(
        self, agent: TunedAgent, texts: Sequence[MaskedWorkflow], settings: TuneSettings,
        model: Path, *_: Any, **__: Any,
    ) -> None:  # fmt: skip
        self.append(texts)
        model.mkdir(parents=True)

    def workflows(self) -> set[str]:
        """Return the ids of the workflows of the last tuning."""
        return {text.workflow for text in self[-1]}


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> Tuned:
    made = Tuned()
    monkeypatch.setattr(dwim_study, "tune", made.tune)
    monkeypatch.setattr(dwim_study, "TransformersLLM", lambda *_, **__: ScriptedLLM(looking))
    return made


@pytest.fixture
def study(tmp_path: Path) -> Iterator[DwimStudy]:
    """Four questions that the original agent solves once it is corrected, and two it does not."""
    parts = {"models": {"explorer": ScriptedLLM(agent)}, "styles": {"explorer": "compact"}}
    scale = DwimScale(6, 3, (0,), TuneSettings())
    with Bench([], parts=parts, max_turns=8) as bench:
        made = DwimStudy(
            bench.reasoner.components, TunedAgent("m"), "compact", tmp_path,
            SampleSplits(train=TRAIN, test=TEST), scale,
        )  # fmt: skip
        made._by_split[TRAIN, 0] = [*named("train", 4), *named("train", 2, "7")]
        made._by_split[TEST, 0] = named("test", 3)
        yield made


def test_only_right_workflows_are_learned_from(study: DwimStudy, tuned: Tuned) -> None:
    outcomes = [one.outcome for one in study.made(0, "discrepancy")]
    assert outcomes[:4] == ["right"] * 4 and "right" not in outcomes[4:]
    study.answers(MASKED, 0)
    assert tuned.workflows() == {f"train s{n} 2" for n in range(4)}


def test_the_tuned_agent_answers(study: DwimStudy, tuned: Tuned) -> None:
    answered = {each: study.answers(each, 0) for each in (UNTUNED, MASKED)}
    for agents in answered.values():
        assert [one.id for one in agents] == [f"test s{n} 2" for n in range(3)]
    assert {one.outcome for one in answered[MASKED]} == {"right"}
    assert {one.outcome for one in answered[UNTUNED]} == {"wrong"}
    assert len(tuned) == 1


def test_each_agent_learns_by_its_own_mode_and_variant(study: DwimStudy, tuned: Tuned) -> None:
    first = GUESS.removeprefix("<code>")
    has_guess = {}
    for each in (MASKED, SFT):
        study.answers(each, 0)
        has_guess[each.variant] = any(first in text.target for text in tuned[-1])
    assert has_guess == {"masking": False, "sft": True}
    study.answers(OTHERS[0], 0)
    assert OTHERS[0].mode == "standard" and tuned[-1] == []  # nothing is solved uncorrected


def test_doubts_may_be_cut_and_first_actions_are_learned_equally_often(
    study: DwimStudy, tuned: Tuned
) -> None:
    study.answers(CUT, 0)
    assert all("rethink" not in str(text.prompt).lower() for text in tuned[-1])
    assert sum(text.is_first for text in tuned[-1]) == 4  # one of each workflow
    cut, before = tuned[-1], [replace(text, is_first=False) for text in tuned[-1]]
    assert steps_of(100, cut, "compact") == 100
    half = [replace(text, is_first=text.is_first and number < len(cut) / 2)
            for number, text in enumerate(cut)]  # fmt: skip
    assert steps_of(100, half, "compact") == 200
    assert steps_of(100, cut, "chat") == 100 * len(cut) / 4
    assert steps_of(100, before, "compact") == 100
    (few, *_) = [text for text in cut if text.is_first]
    others = [replace(text, workflow=str(n)) for n, text in enumerate(before * 20)]
    assert steps_of(100, [few, *others], "compact") == 1000


def alone(prompt: str) -> str:
    """Answer without a correction: count the cubes, then end."""
    asked = prompt.rpartition("# question: ")[2]
    return "<done>" if "final_answer" in asked else COUNTS


COUNTS = "<code>final_answer = str(len(image_patch.find('cube')))"


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[tuple[DwimStudy, list[str]]]:
    """An agent that solves four of six training questions by itself, and its prompts."""
    prompts: list[str] = []

    def reply(prompt: str) -> str:
        prompts.append(prompt)
        return alone(prompt)

    parts = {"models": {"explorer": ScriptedLLM(reply)}, "styles": {"explorer": "compact"}}
    scale = DwimScale(6, 3, (0,), TuneSettings())
    with Bench([], parts=parts, max_turns=8) as bench:
        study = DwimStudy(
            bench.reasoner.components, TunedAgent("m"), "compact", tmp_path,
            SampleSplits(train=TRAIN, test=TEST), scale,
        )  # fmt: skip
        study._by_split[TRAIN, 0] = [*named("train", 4), *named("train", 2, "7")]
        study._by_split[TEST, 0] = [replace(one, text=f"test: {one.text}") for one in named("t", 3)]
        yield study, prompts


def test_the_frozen_agent_sees_its_own_right_training_workflows(
    shown: tuple[DwimStudy, list[str]],
) -> None:
    study, prompts = shown
    right = [one.query.text for one in study.made(0, "standard") if one.outcome == "right"]
    assert len(right) == 4
    prompts.clear()
    answered = study.answers(FROZEN, 0)
    assert [one.outcome for one in answered] == ["right"] * 3
    for prompt in prompts:
        *examples, question = prompt.split("# question: ")[1:]
        assert sorted(each.splitlines()[0] for each in examples) == sorted(right)
        assert all("<done></done>" in each and "test:" not in each for each in examples)
        assert question.startswith("test: ")
    prompts.clear()
    study.answers(UNTUNED, 0)
    assert all(prompt.count("# question: ") == 1 for prompt in prompts)


def test_examples_are_at_most_ten_and_leave_room_for_the_turns(
    shown: tuple[DwimStudy, list[str]],
) -> None:
    study, _ = shown
    every = study.examples(0, 10)
    assert len(every) == 4 and len(study.examples(0, 2)) == 2
    llm = study.components.models["explorer"]
    assert isinstance(llm, ScriptedLLM)
    first = llm.count_tokens(study._first_prompt(study.made(0, "standard")[0].query))
    for count in (0, 1, 3):
        llm.max_context = first + sum(map(llm.count_tokens, every[:count])) + ROOM_FOR_TURNS
        assert study.examples(0, 10) == every[:count]


def test_a_language_model_recognises_discrepancies_if_it_is_asked(tmp_path: Path) -> None:
    asked: list[str] = []

    def judge(prompt: str) -> str:
        asked.append(prompt)
        return "agrees"

    parts = {"models": {"explorer": ScriptedLLM(agent)}, "styles": {"explorer": "compact"}}
    scale = DwimScale(2, 1, (0,), TuneSettings())
    for checks_by in ("rules", "llm"):
        with Bench(judge, parts=parts, max_turns=8) as bench:  # type: ignore[arg-type]
            study = DwimStudy(
                bench.reasoner.components, TunedAgent("m"), "compact", tmp_path / checks_by,
                SampleSplits(train=TRAIN, test=TEST), scale, checks_by=checks_by,
            )  # fmt: skip
            study._by_split[TRAIN, 0] = named("train", 2)
            outcomes = [one.outcome for one in study.made(0, "discrepancy")]
        # the rules correct the agent; this judge lets its wrong answers pass
        assert outcomes == {"rules": ["right"] * 2, "llm": ["wrong"] * 2}[checks_by]
        assert bool(asked) is (checks_by == "llm")


def test_a_sample_to_learn_from_is_never_answered(study: DwimStudy) -> None:
    study._check_apart()
    study._by_split[TEST, 0] = [*study._by_split[TEST, 0], study._by_split[TRAIN, 0][0]]
    with pytest.raises(UsageError, match="1 of 4 samples of test:question would be learned from"):
        study._check_apart()
