"""Methods answer with what they learned themselves, and with nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ace.demonstrated import demonstrated
from tests.evaluate.fake_backends import a_set
from tests.lab.papers.fake_study import Questions
from tests.tuning.prompt_fakes import learned
from tests.tuning.test_coco_store import coco
from viper.errors import UsageError
from viper.evaluate.campaign import SampledEvaluation
from viper.evaluate.sample_result import SampleResult
from viper.models.vision.prompt_pool import FOLDER as PROMPTS
from viper.models.vision.prompt_pool import PromptPool
from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper.schema import to_json
from viper.strategies.base import Components
from viper.strategies.demonstration_pool import FOLDER as DEMONSTRATIONS
from viper.strategies.demonstration_pool import DemonstrationPool
from viper.strategies.examples import PARTS
from viper.tuning.loop import LearningProgress
from viper.tuning.wiring import Data
from viper_lab.papers import method_runner
from viper_lab.papers.clova import (
    AGREED,
    BASELINE,
    CASES,
    CASES_LEFT_OUT,
    FULL,
    TOOLS_ALONE,
    tables_for,
    vague_table,
)
from viper_lab.papers.clova import DEMONSTRATIONS as EXAMPLES_ALONE
from viper_lab.papers.method_runner import Method, MethodRunner, Subject, Terms
from viper_lab.world.annotated import WorldStore
from viper_lab.world.found import WorldPictureSearch


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
    assert runner.note(FULL, runner.subjects[0]) == (
        "0 to 1 updates of tools, 1 new demonstrations; "
        "without plans: the writer knows programs only"
    )


def test_methods_learn_from_their_own_course_alone(runner: Runner, answers: Answers) -> None:
    (subject, _) = runner.subjects
    other = replace(subject, name="world-a", course="world-a")
    runner.subjects = [subject, other]
    before, greedy, agreed = vague_table(["world-a"]).cells.values()
    assert [each.course for each in (before, greedy, agreed)] == ["world-a"] * 3
    assert {each.options.strategy for each in (before, greedy, agreed)} == {"program"}
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


@pytest.fixture
def planning(tmp_path: Path) -> Iterator[MethodRunner]:
    """A writer that plans, six questions to answer, and 24 others to learn from."""
    asked, profile = a_set(tmp_path / "ask", 6)
    mined, _ = a_set(tmp_path / "mine", 24)
    text = profile.read_text().replace('"compact"', '"chat"')
    text = text.replace(
        "tests.evaluate.fake_backends:Writer", "tests.commands.pool_backends:PlanningWriter"
    )
    profile.write_text(text.replace('model = "writer"', f'model = "{tmp_path / "notes"}"'))
    opened = load_profile(str(profile))
    subject = Subject("new", str(asked), "all", "all", stream_set=str(mined))
    terms = Terms(4, 6, (0,), start=12)
    runner = MethodRunner(
        {"main": opened.components()}, to_json(opened.document), tmp_path / "out", terms, [subject]
    )
    with closing(runner):
        yield runner


def test_pools_begin_alike_with_samples_outside_stream_and_test(planning: MethodRunner) -> None:
    pools = [
        planning.components(method, 0).demonstrations.items()  # type: ignore[attr-defined]
        for method in (BASELINE, FULL, TOOLS_ALONE)
    ]
    assert pools[0] == pools[1] == pools[2] and 10 <= len(pools[0]) <= 12
    kinds = Counter(item.kind for item in pools[0])
    assert set(kinds) == {
        "plan/correct", "plan/incorrect", "program/correct", "program/incorrect",
    }  # fmt: skip
    (subject,) = planning.subjects
    elsewhere = [subject.stream(0, 4), subject.evaluation(0, 6)]
    known = {each.sample_id for one in elsewhere for each in planning.sampled(one).samples}
    assert not known & {item.example.sample_id for item in pools[0]}


def test_without_a_start_pools_begin_empty(planning: MethodRunner) -> None:
    planning.scale = replace(planning.scale, start=0)
    assert planning.components(FULL, 0).demonstrations.items() == ()  # type: ignore[attr-defined]


def test_a_stream_that_takes_every_sample_leaves_none_to_begin_with(planning: MethodRunner) -> None:
    planning.scale = replace(planning.scale, stream=24)
    with pytest.raises(UsageError, match="--start 0"):
        planning.components(FULL, 0)


def test_what_was_mined_first_is_not_mined_again(planning: MethodRunner, tmp_path: Path) -> None:
    planning.components(BASELINE, 0)
    before = (tmp_path / "notes").read_text()
    again = MethodRunner(
        planning.writers, planning.document, planning.folder, planning.scale, planning.subjects
    )
    assert again.components(TOOLS_ALONE, 0).demonstrations.items()  # type: ignore[attr-defined]
    assert (tmp_path / "notes").read_text() == before


def prompts_of(runner: MethodRunner, method: Method) -> tuple[str, str]:
    """Return the prompts of the plan and of the program for the same question."""
    components, (subject,) = runner.components(method, 0), runner.subjects
    (sample, *_) = runner.sampled(subject.evaluation(0, 6)).samples
    options = runner.options(method).changed(task=sample.task, sample_id=sample.sample_id)
    (trial,) = (
        Reasoner(components, preload=False).run(sample.load(), sample.text, options).trace.trials
    )
    return str(trial.plan_prompt), str(trial.prompt)


def test_rows_with_and_without_incorrect_cases_have_different_prompts(
    planning: MethodRunner,
) -> None:
    of_plans, of_programs = zip(
        *(prompts_of(planning, method) for method in CASES.cells.values()), strict=True
    )
    shown = [("Plans that worked" in text, "Plans that did not" in text) for text in of_plans]
    assert shown == [(True, True), (True, False), (False, True)]
    assert ["Programs that did not work" in text for text in of_programs] == [True, False, True]


def test_a_small_planner_is_shown_incorrect_plans_and_only_plans(tmp_path: Path) -> None:
    runner = MethodRunner(
        {"main": load_profile("embedded").without_examples().components()},
        {},
        tmp_path,
        Terms(1, 1, (0,)),
        [Subject("new", "world-reserved", "val:new", "train:new")],
    )
    picture = np.zeros((8, 8, 3), np.uint8)
    texts = []
    with closing(runner):
        for method in CASES.cells.values():
            pool = DemonstrationPool(runner.state(method, 0) / DEMONSTRATIONS)
            pool.add([
                demonstrated(part=part, polarity=polarity, critique="it looks for balls",
                             task="question", query=f"a {polarity} {part}")
                for part in PARTS for polarity in ("correct", "incorrect")
            ])  # fmt: skip
            options = runner.options(method).changed(task="question")
            assert options.strategy == "plan"
            reasoner = Reasoner(runner.components(method, 0), preload=False)
            texts.append(reasoner.prompt(picture, "how many cubes are there?", options))
    assert [("a correct plan" in text, "# why: it looks for balls" in text) for text in texts] == [
        (True, True), (True, False), (False, True),
    ]  # fmt: skip


def test_rows_that_cannot_differ_are_left_out_and_named() -> None:
    names = {}
    for profile in ("embedded", "embedded-small"):
        components = load_profile(profile).components()
        tables = tables_for(components, has_second=False, quick=False)
        names[profile] = {table.name for table in tables}
        components.close()
    assert names["embedded"] - names["embedded-small"] == {"table 5", "plans"}
    assert CASES_LEFT_OUT.holds is None and "could not differ" in CASES_LEFT_OUT.reason


def test_sources_of_training_pictures_are_the_users_own(
    planning: MethodRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: Any, **__: Any) -> None:
        raise AssertionError("the world's data was asked for")

    monkeypatch.setattr(WorldStore, "__init__", denied)
    monkeypatch.setattr(WorldPictureSearch, "__init__", denied)
    file = coco(tmp_path / "coco", {7: ["person"], 9: ["car"]})
    own = Data(str(file), None, "none", positives=3)
    planning.scale = replace(planning.scale, data=own)
    sources = planning.sources(5)
    assert sources.positives == 3 and sources.search is None
    assert sources.store is not None and sources.store.vocabulary()[:2] == ("person", "car")
    assert planning.sources(6) is sources
    planning.scale = replace(planning.scale, data=Data())
    with pytest.raises(AssertionError, match="the world's"):
        planning.sources(5)
