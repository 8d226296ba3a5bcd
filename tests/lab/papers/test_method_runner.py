"""Methods answer with what they learned themselves, and with nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.ace.demonstrated import demonstrated
from tests.lab.papers.fake_study import Questions
from tests.tuning.prompt_fakes import learned
from viper.evaluate.campaign import SampledEvaluation
from viper.evaluate.sample_result import SampleResult
from viper.models.vision.prompt_pool import FOLDER as PROMPTS
from viper.models.vision.prompt_pool import PromptPool
from viper.profiles import load_profile
from viper.schema import to_json
from viper.strategies.base import Components
from viper.strategies.demonstration_pool import FOLDER as DEMONSTRATIONS
from viper.strategies.demonstration_pool import DemonstrationPool
from viper.tuning.loop import LearningProgress
from viper_lab.papers import method_runner
from viper_lab.papers.clova import AGREED, BASELINE, FULL, TOOLS_ALONE, vague_table
from viper_lab.papers.clova import DEMONSTRATIONS as EXAMPLES_ALONE
from viper_lab.papers.method_runner import Method, MethodRunner, Subject, Terms


class Answers(list[tuple[set[str], set[str]]]):
    """What the components of every answering know: concepts, and samples demonstrated to them."""

    def answer_all(
        self, components: Components, sampled: SampledEvaluation, folder: Path, *_: Any
    ) -> list[SampleResult]:
        prompts = components.toolbox.soft_prompts
        pool = components.demonstrations
        concepts = {one.concept for one in prompts.kept()} if hasattr(prompts, "kept") else set()
        samples = {one.example.sample_id for one in pool.items()} if pool is not None else set()
        self.append((concepts, samples))
        return [SampleResult(one.sample_id, 0, 1.0) for one in sampled.samples]


class Runner(MethodRunner):
    """Learns one concept and one sample at once, both named after method and seed."""

    def _learn(self, method: Method, subject: Subject, seed: int) -> LearningProgress:
        name, state = f"{method.name} {seed}", self.state(method, seed)
        if method.tools is not None:
            prompts = PromptPool(state / PROMPTS)
            prompts.add("loc", name.lower(), [learned(1.0)])
        if method.demonstrations is not None:
            DemonstrationPool(state / DEMONSTRATIONS).add([demonstrated(sample_id=name)])
        return LearningProgress(1, 1, 1, updates=seed, demonstrations=1)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    made = Answers()
    monkeypatch.setattr(method_runner, "answer_all", made.answer_all)
    return made


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    questions = Questions(tmp_path)
    profile = load_profile(questions.profile)
    writers: Mapping[str, Components] = {"main": profile.components()}
    subjects: Sequence[Subject] = [
        Subject("new", questions.part.ask, "all", "all"),
        Subject("old", questions.part.ask, "all"),
    ]
    made = Runner(
        writers, to_json(profile.document), tmp_path / "out", Terms(2, 2, (0, 1)), subjects
    )
    with closing(made):
        yield made


def test_a_method_answers_with_its_own_pools(runner: Runner, answers: Answers) -> None:
    for method in (BASELINE, EXAMPLES_ALONE, TOOLS_ALONE, FULL):
        for subject in runner.subjects:
            assert len(runner.results(method, subject, 0)) == 2
    examples, tools, full = (f"{each.name} 0" for each in (EXAMPLES_ALONE, TOOLS_ALONE, FULL))
    known = [
        (set(), set()),
        (set(), {examples}),
        ({tools.lower()}, set()),
        ({full.lower()}, {full}),
    ]
    assert answers == [each for each in known for _ in runner.subjects]


def test_seeds_learn_apart(runner: Runner, answers: Answers) -> None:
    for seed in (0, 1):
        runner.results(FULL, runner.subjects[0], seed)
    assert [samples for _, samples in answers] == [{f"{FULL.name} {seed}"} for seed in (0, 1)]
    assert runner.note(FULL, runner.subjects[0]) == "0 to 1 updates of tools, 1 demonstrations"


def test_methods_learn_from_their_own_course_alone(runner: Runner, answers: Answers) -> None:
    (subject, _) = runner.subjects
    other = replace(subject, name="world-a", course="world-a")
    runner.subjects = [subject, other]
    before, greedy, agreed = vague_table(["world-a"]).cells.values()
    assert [each.course for each in (before, greedy, agreed)] == ["world-a"] * 3
    assert agreed.mined is not None and agreed.mined.programs == 4 and agreed.mined.agree
    assert len(runner.progress(greedy, 0)) == len(runner.progress(EXAMPLES_ALONE, 0)) == 1
    runner.results(greedy, other, 0)
    assert answers == [(set(), {f"{greedy.name} 0"})]


def test_mined_demonstrations_are_those_that_other_programs_bear_out(tmp_path: Path) -> None:
    questions = Questions(tmp_path)
    profile = load_profile(questions.profile)
    stream = Subject("new", questions.part.mine, "all", "all", course="vague")
    terms = Terms(4, 2, (0,))
    made = MethodRunner(
        {"main": profile.components()}, to_json(profile.document), tmp_path / "out", terms, [stream]
    )
    method = replace(AGREED, course="vague", mined=replace(AGREED.mined, programs=2))
    with closing(made):
        (progress,) = made.progress(method, 0)
        pool = made.components(method, 0).demonstrations
        assert pool is not None and progress.answered == 4
        assert len(pool.items()) == progress.demonstrations > 0
        assert {item.example.part for item in pool.items()} == {"program"}
        assert all(item.example.score > 0.5 for item in pool.items())


def test_the_stream_is_answered_untaught_by_the_baseline(runner: Runner, answers: Answers) -> None:
    runner.baseline_results(BASELINE, runner.subjects[0], 0)
    assert answers == [(set(), set())]
