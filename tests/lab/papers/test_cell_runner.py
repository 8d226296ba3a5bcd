"""Cells become rows once: stored, resumed, with the examples that were mined for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.evaluate.engine_doubles import a_sample
from tests.lab.papers.fake_study import FilePart, Noted, Questions
from viper.ace.bank import read_bank
from viper.ace.mining import WARM
from viper.errors import UsageError
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.reasoner import RunOptions
from viper.strategies.base import Components
from viper_lab.papers import cell_runner
from viper_lab.papers.cell_runner import Cell, CellRunner, Mining, mined_from

PLAIN = RunOptions(api="abstract", examples=0, trials=1, self_tune=False)
ZERO = Cell("zero-shot", PLAIN)
MINED = Cell("with examples", replace(PLAIN, examples=4), Mining("abstract"))


@pytest.fixture
def questions(tmp_path: Path) -> Questions:
    return Questions(tmp_path)


def test_a_cell_is_answered_once_and_stored(questions: Questions) -> None:
    with questions.runner() as runner:
        runner.tell = noted = Noted()
        rows = runner.results(ZERO, questions.part, 0)
        assert runner.results(ZERO, questions.part, 0) is rows and len(rows) == 3
        assert noted.answers == 3 and noted.counts == [3] and noted.steps[0].name == "zero-shot"
        with runner.store_of(ZERO, questions.part, 0) as store:
            assert len(store.done()) == 3 and store.trace(rows[0].sample_id, 0) is not None
    written = questions.written()
    with questions.runner() as runner:
        runner.tell = noted = Noted()
        again = runner.results(ZERO, questions.part, 0)
        assert [(row.sample_id, row.score) for row in again] == [
            (row.sample_id, row.score) for row in rows
        ]
        assert noted.answers == 0 and noted.steps == []
    assert questions.written() == written


def test_evaluations_that_name_other_samples_share_nothing(questions: Questions) -> None:
    with questions.runner() as runner:
        whole = questions.part.evaluation(0, 3)
        ids = [sample.sample_id for sample in runner.sampled(whole).samples]
        named = [runner.sampled(replace(whole, ids=(each,))).samples for each in ids]
    assert [[sample.sample_id for sample in own] for own in named] == [[each] for each in ids]


def test_cells_that_ask_alike_share_the_programs(questions: Questions) -> None:
    with questions.runner() as runner:
        runner.results(ZERO, questions.part, 0)
        written = questions.written()
        other = Cell("the same with votes", replace(PLAIN, trials=2))
        assert len(runner.results(other, questions.part, 0)) == 3
        assert questions.written() == written
    assert {path.name for path in (questions.folder / "out" / "runs" / "question-0").iterdir()} == {
        "zero-shot", "the-same-with-votes",
    }  # fmt: skip


def test_examples_are_mined_from_the_pool_alone(questions: Questions) -> None:
    with questions.runner() as runner:
        runner.tell = noted = Noted()
        runner.results(MINED, questions.part, 0)
        bank = runner.bank(Mining("abstract"), questions.part, 0)
        runner.bank(Mining("abstract", shots=2, scored=False), questions.part, 0)
        # every third question is answered wrong
        assert [step.name for step in noted.steps] == ["mining abstract, main", "with examples"]
        assert noted.counts == [4, 3] and noted.steps[0].mines
        assert 1 <= len(bank.items) <= 4
        assert all(one.set == questions.part.mine and one.score == 1.0 for one in bank.items)
        assert runner.note(MINED, questions.part) == f"{len(bank.items)} examples mined"
        assert runner.note(ZERO, questions.part) == ""
    folder = questions.folder / "out" / "banks" / "question-0-main-abstract"
    assert read_bank(folder / "100-random-16-best.jsonl").items == bank.items
    assert (folder / "2-random-16-at-random.jsonl").exists()


def test_a_bank_comes_from_its_own_shots_by_score_or_at_random(questions: Questions) -> None:
    with questions.runner(pool=8) as runner:
        pool = runner.pool(questions.part, 0).samples
        few = Mining("abstract", shots=4, scored=False)
        drawn, best = (
            runner.bank(mining, questions.part, 0).items for mining in (few, Mining("abstract"))
        )
    shots = {sample.sample_id for sample in mined_from(pool, few, 0)}
    assert {one.sample_id for one in drawn} == shots and len(shots) == 4
    assert {one.score for one in drawn} == {0.0, 1.0} and {one.score for one in best} == {1.0}


def test_a_cell_is_answered_with_its_thresholds_and_its_bank(
    questions: Questions, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = '"detector.threshold" = { start = 0.4, step = 0.1, floor = 0.1 }'
    profile = Path(questions.profile)
    profile.write_text(profile.read_text() + f"[sensitivities]\n{schedule}\n")
    with questions.runner() as runner:
        runner.bank(Mining("abstract"), questions.part, 0)
        given: list[Components] = []

        def answer_all(components: Components, *_: object) -> list[SampleResult]:
            given.append(components)
            return []

        monkeypatch.setattr(cell_runner, "answer_all", answer_all)
        strict = replace(ZERO, name="strict", thresholds={"detector.threshold": 0.7})
        for cell in (ZERO, strict, MINED):
            runner.results(cell, questions.part, 0)
        bank = runner.bank(Mining("abstract"), questions.part, 0)
    starts = [one.toolbox.settings.start_thresholds(self_tune=False) for one in given]
    assert [each["detector.threshold"] for each in starts] == [0.4, 0.7, 0.4]
    assert [one.examples is bank for one in given] == [False, False, True] and bank.items


def test_banks_of_several_sizes_are_told(questions: Questions) -> None:
    with questions.runner(seeds=(0, 1)) as runner:
        banks = [runner.bank(Mining("abstract"), questions.part, seed) for seed in (0, 1)]
        sizes = sorted(len(bank.items) for bank in banks)
        said = str(sizes[0]) if sizes[0] == sizes[1] else f"{sizes[0]} to {sizes[1]}"
        assert runner.note(MINED, questions.part) == f"{said} examples mined"


def test_another_pool_or_scale_is_another_run(questions: Questions) -> None:
    with questions.runner() as runner:
        runner.results(MINED, questions.part, 0)
    with (
        questions.runner(pool=5) as runner,
        pytest.raises(UsageError, match="another configuration"),
    ):
        runner.results(MINED, questions.part, 0)
    with (
        questions.runner(samples=2) as runner,
        pytest.raises(UsageError, match="another configuration"),
    ):
        runner.results(MINED, questions.part, 0)


def test_samples_are_never_asked_and_mined_from(questions: Questions) -> None:
    leaking = FilePart(questions.part.ask, questions.part.ask)
    with questions.runner(samples=8) as runner:
        assert (
            len(runner.results(ZERO, leaking, 0)) == 8
        )  # a cell without examples may ask them all
        with pytest.raises(UsageError, match="4 of 4 samples to mine from are asked, too"):
            runner.step(MINED, leaking, 0)


def test_both_apis_mine_from_the_same_labelled_samples(questions: Questions) -> None:
    asked = {}
    with questions.runner() as runner:
        for api in ("vipergpt", "abstract"):
            mining = Mining(api, programs=2)
            runner.bank(mining, questions.part, 0)
            step = runner.mining_step(mining, questions.part, 0)
            with RunStore.read(step.folder) as store:
                asked[api] = {(row.sample_id, row.seed) for row in store.rows()}
    assert asked["vipergpt"] == asked["abstract"] and len(asked["abstract"]) == 8


def mining_temperature(runner: CellRunner, part: FilePart, programs: int) -> float:
    mining = Mining("abstract", programs=programs)
    runner.bank(mining, part, 0)
    with RunStore.read(runner.mining_step(mining, part, 0).folder) as store:
        return float(store.manifest.settings["temperature"])


def test_programs_are_mined_at_the_profiles_temperature(questions: Questions) -> None:
    with questions.runner() as runner:
        assert mining_temperature(runner, questions.part, 1) == 0.0
        assert mining_temperature(runner, questions.part, 4) == WARM  # else four equal ones
    questions.set_temperature(0.7)
    questions.folder = questions.folder / "warm"
    with questions.runner() as runner:
        assert mining_temperature(runner, questions.part, 1) == 0.7
        assert mining_temperature(runner, questions.part, 4) == 0.7


@dataclass(frozen=True)
class FixedPart(FilePart):
    """Asks the same samples under every seed, whatever the limit."""

    def evaluation(self, seed: int, limit: int) -> Evaluation:
        return replace(super().evaluation(0, limit), seeds=(seed,))


def test_several_seeds_that_cannot_differ_are_refused(questions: Questions) -> None:
    part = FixedPart(questions.part.ask, questions.part.mine)
    several = MINED, replace(MINED, name="warm", mining=Mining("abstract", programs=4))
    with questions.runner(seeds=(0, 1, 2)) as runner:
        with pytest.raises(UsageError) as caught:
            runner.check_seeds([(ZERO, part)])
        said = str(caught.value)
        assert "3 seeds ask the same samples" in said and "--seeds 1" in said and "\n" not in said
        runner.check_seeds([(ZERO, questions.part)])  # each seed draws its samples
        runner.check_seeds([(cell, part) for cell in several])  # or its shots
        sampled = replace(ZERO, options=PLAIN.changed(temperature=0.4))
        runner.check_seeds([(sampled, part)])  # or its programs
    with questions.runner(seeds=(0, 1), pool=8) as runner:
        with pytest.raises(UsageError, match="2 seeds ask the same samples"):
            runner.check_seeds([(MINED, part)])  # all labelled samples are shots of every seed
        runner.check_seeds([(several[1], part)])
    with questions.runner(seeds=(0,)) as runner:
        runner.check_seeds([(ZERO, part)])
    questions.set_temperature(0.4)
    with questions.runner(seeds=(0, 1, 2)) as runner:
        runner.check_seeds([(ZERO, part)])


def test_a_model_alone_whose_seeds_cannot_differ_says_so(questions: Questions) -> None:
    """Its deviation over seeds of fixed samples is 0 whatever the model."""
    part = FixedPart(questions.part.ask, questions.part.mine)
    alone = Cell("baseline", RunOptions(strategy="vqa"))
    with questions.runner(seeds=(0, 1)) as runner:
        assert runner.note(alone, part) == "the same under every seed"
        assert runner.note(alone, questions.part) == runner.note(ZERO, part) == ""
    with questions.runner() as runner:
        assert runner.note(alone, part) == ""


def test_a_cell_may_ask_more_samples(questions: Questions) -> None:
    with questions.runner() as runner:
        more = replace(ZERO, name="more", times=2)
        assert runner.step(more, questions.part, 0).answers == 6
        assert len(runner.results(more, questions.part, 0)) == 6


def test_random_shots_grow_and_chosen_ones_take_kinds_in_turn() -> None:
    kinds = ["count"] * 6 + ["color"] * 3 + ["size"]
    samples = [a_sample(n, groups={"query_type": kind}) for n, kind in enumerate(kinds)]

    def ids(mining: Mining, seed: int = 0) -> list[str]:
        return [sample.sample_id for sample in mined_from(samples, mining, seed)]

    few, more = Mining("abstract", shots=3), Mining("abstract", shots=5)
    assert len(ids(few)) == 3 and set(ids(few)) < set(ids(more))
    assert {tuple(ids(few, seed)) for seed in range(9)} != {tuple(ids(few))}
    assert ids(Mining("abstract")) == [sample.sample_id for sample in samples]
    chosen = Mining("abstract", shots=5, chosen=True)
    assert ids(chosen) == ids(chosen, seed=7) == ["s0", "s6", "s9", "s1", "s7"]


def test_chosen_expressions_are_of_different_kinds_by_their_words() -> None:
    """RefCOCO groups its expressions by the category of the object alone."""
    texts = ["left man", "right cup", "the red cup", "second from left", "man behind the dog",
             "middle cup", "woman nearest to us", "top shelf", "blue one"]  # fmt: skip
    samples = [
        replace(a_sample(n, groups={"category": "x"}), text=text, task="ground")
        for n, text in enumerate(texts)
    ]
    chosen = mined_from(samples, Mining("abstract", shots=7, chosen=True), 0)
    assert [sample.text for sample in chosen] == [texts[n] for n in (0, 2, 3, 4, 5, 6, 7)]
    world = [replace(one, groups={"query_type": "a"}) for one in samples]
    assert mined_from(world, Mining("abstract", shots=2, chosen=True), 0) == world[:2]
