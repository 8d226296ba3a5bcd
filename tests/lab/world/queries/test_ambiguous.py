"""Ambiguous queries: true by the conventions of their data set, and silent about them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from viper.data.registry import data_set
from viper.data.sample import DatasetSpec
from viper.errors import UnknownNameError
from viper_lab.world.queries.ambiguous import SELECTIONS, WEIGHTS, wording
from viper_lab.world.queries.conventions import (
    CHOICES,
    Conventions,
    conventions_of,
    draw_conventions,
)
from viper_lab.world.queries.generate import generate
from viper_lab.world.queries.meaning import FAMILIES
from viper_lab.world.queries.programs import gold_program
from viper_lab.world.queries.texts import ambiguous_text_sample
from viper_lab.world.queries.wording import SIDES

from .oracle_run import execute, is_right, oracle_of

EXPLICIT = {word for side in SIDES.values() for word in (side.most, side.edge)}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("edition", [0, 1, 2])
def test_programs_that_follow_the_conventions_answer_correctly(family: str, edition: int) -> None:
    samples = generate(family, "val", 3, 24, conventions=conventions_of(edition), edition="x")
    assert {wording(sample.meaning) is None for sample in samples} == {True, False}
    for sample in samples:
        oracle = oracle_of(sample)
        for api in ("abstract", "vipergpt"):
            program = gold_program(sample.meaning, api, sample.task)
            value = execute(program, sample, oracle)
            assert is_right(sample, value), (sample.text, sample.answer_text, value, program)


def test_editions_differ_in_every_habit_and_three_show_all_of_each() -> None:
    editions = [conventions_of(number) for number in range(3)]
    for name, choices in CHOICES.items():
        values = [getattr(conventions, name) for conventions in editions]
        assert set(values) == set(choices)
        assert values[0] != values[1] != values[2]


def test_a_value_that_a_habit_cannot_have_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="'sideways'"):
        replace(conventions_of(0), before="sideways")


def program_of(conventions: Conventions, family: str, sort: str, seed: int) -> tuple[str, str]:
    sample = ambiguous_text_sample(Random(seed), conventions, "val", family=family, sorts=[sort])
    return sample.text, sample.program


@pytest.mark.parametrize(
    ("family", "sort", "convention"),
    [
        ("referring", "counted", "counted_from"),
        ("referring", "last", "counted_from"),
        ("referring", "any", "singled_out"),
        ("referring", "before", "before"),
        ("referring", "after", "before"),
        ("referring", "large", "large"),
        ("question", "looks", "looks"),
        ("question", "several", "several"),
        ("question", "comes_first", "counted_from"),
        ("video", "do", "deed"),
        ("video", "which", "deed"),
        ("video", "do_when", "when"),
        ("video", "happens_when", "when"),
        ("video", "meets", "meets"),
    ],
)
def test_one_text_means_another_program_under_another_habit(
    family: str, sort: str, convention: str
) -> None:
    texts, programs = {}, {}
    for value in CHOICES[convention]:
        conventions = replace(conventions_of(0), **{convention: value})
        for seed in range(300):
            text, program = program_of(conventions, family, sort, seed)
            texts.setdefault(text, {})[value] = program
            programs[value] = program
    shared = [found for found in texts.values() if len(found) > 1]
    assert shared
    assert all(len(set(found.values())) == len(found) for found in shared)


def test_ambiguous_phrases_name_no_side() -> None:
    random = Random(0)
    for sort in ("counted", "last", "any", "large"):
        for _ in range(40):
            conventions = draw_conventions(random)
            sample = ambiguous_text_sample(
                random, conventions, "val", family="referring", sorts=[sort]
            )
            assert not EXPLICIT & set(sample.text.split()), sample.text


def test_the_sets_with_conventions_draw_other_samples_and_say_which_are_ambiguous() -> None:
    spec = DatasetSpec(None, "val:referring", 0, 20)
    first, second = (data_set(name).samples(spec) for name in ("world-a", "world-b"))
    assert {s.sample_id for s in first} & {s.sample_id for s in second} == set()
    assert first[0].sample_id.startswith("a-val-0-referring-")
    vague = [s for s in first if s.groups["wording"] == "vague"]
    assert 8 <= len(vague) <= 12
    names = {f"vague {sort}" for sort in SELECTIONS}
    assert {s.groups["query_type"] for s in vague} <= names
    plain = data_set("world").samples(spec)
    assert all("wording" not in s.groups for s in plain)


def test_every_family_has_ambiguous_queries() -> None:
    assert set(WEIGHTS) == set(FAMILIES)
    assert all(sum(weights.values()) == pytest.approx(1.0) for weights in WEIGHTS.values())
