"""Plans in words: every type has one, they tell meanings apart, wrong ones go wrong."""

from __future__ import annotations

from random import Random

import pytest

from viper.prompting.plans import numbered, read_plan
from viper_lab.world.queries.conventions import conventions_of
from viper_lab.world.queries.meaning import FAMILIES, Family, Meaning
from viper_lab.world.queries.plan_wordings import plan_steps, wrong_plan
from viper_lab.world.queries.programs import gold_program
from viper_lab.world.queries.sample import TextSample
from viper_lab.world.queries.texts import ambiguous_text_sample, text_sample


def samples(family: Family, count: int = 300) -> list[TextSample]:
    random = Random(f"plans {family}")
    plain = [text_sample(random, family=family) for _ in range(count)]
    ambiguous = [
        ambiguous_text_sample(random, conventions_of(0), family=family) for _ in range(count // 3)
    ]
    return plain + ambiguous


@pytest.mark.parametrize("family", FAMILIES)
def test_every_meaning_has_a_plan_that_reads_back(family: Family) -> None:
    random = Random(0)
    for sample in samples(family):
        plan = numbered(*plan_steps(sample.meaning, random))
        assert read_plan(f"{plan}\n\n") == plan
        assert "None" not in plan and "{" not in plan


@pytest.mark.parametrize("family", FAMILIES)
def test_one_plan_never_stands_for_two_programs(family: Family) -> None:
    """In the wording of one seed, equal plans mean equal programs; of a clip, equal questions."""
    programs: dict[str, set[str]] = {}
    for sample in samples(family, 900):
        plan = numbered(*plan_steps(sample.meaning, Random(0)))
        programs.setdefault(plan, set()).add(gold_program(sample.meaning, task=sample.task))
    doubled = {plan: found for plan, found in programs.items() if len(found) > 1}
    assert not doubled, next(iter(doubled.items()))


def test_wordings_differ_and_steps_name_earlier_ones() -> None:
    meaning = Meaning(
        "closest",
        {"kind": "thing", "anchor": Meaning("nth", {"kind": "cube", "side": "top", "rank": 2})},
    )
    told = {numbered(*plan_steps(meaning, Random(seed))) for seed in range(30)}
    assert len(told) > 3
    for plan in told:
        steps = plan.splitlines()
        named = len(steps) - 3
        assert steps[-1].endswith(f". take the one closest to the one of step {named}")
        assert f"leave out the one of step {named}" in plan


def test_a_wrong_plan_differs_in_the_step_that_it_names() -> None:
    random = Random(3)
    for sample in samples("question", 200):
        state = random.getstate()
        found = wrong_plan(sample.meaning, random)
        if found is None:
            continue
        wrong, why = found
        wording = Random()
        wording.setstate(state)
        right = plan_steps(sample.meaning, wording)
        step, _, said = why.removeprefix("step ").partition(" should ")
        assert right[int(step) - 1] == said != wrong[int(step) - 1]
        assert right[: int(step) - 1] == wrong[: int(step) - 1]


def test_nothing_can_be_misread_where_there_is_nothing() -> None:
    assert wrong_plan(Meaning("count", {"kind": "cube"}), Random(0)) is None
