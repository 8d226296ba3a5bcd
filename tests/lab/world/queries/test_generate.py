"""Drawn queries: true, balanced, reproducible."""

from __future__ import annotations

from collections import Counter

import pytest

from viper.errors import UnknownNameError
from viper_lab.world.queries.generate import generate
from viper_lab.world.queries.programs import gold_program
from viper_lab.world.queries.sample import WorldSample

from .from_json import sample_from_json
from .oracle_run import execute, is_right, oracle_of

Drawn = dict[str, list[WorldSample]]


@pytest.mark.parametrize("family", ["referring", "question", "video"])
def test_canonical_programs_answer_rightly_with_perfect_tools(drawn: Drawn, family: str) -> None:
    for sample in drawn[family]:
        oracle = oracle_of(sample)
        for api in ("abstract", "vipergpt"):
            program = gold_program(sample.meaning, api)
            value = execute(program, sample, oracle)
            assert is_right(sample, value), (sample.text, sample.answer_text, value, program)


def test_samples_survive_json(drawn: Drawn) -> None:
    for samples in drawn.values():
        for sample in samples:
            assert sample_from_json(sample.to_json()) == sample


def test_samples_are_well_formed(drawn: Drawn) -> None:
    for family, samples in drawn.items():
        assert len({sample.sample_id for sample in samples}) == len(samples)
        assert len({sample.media_index for sample in samples}) == len(samples)
        for sample in samples:
            assert ":s" not in sample.template
            assert sample.query.task == sample.task
            if family == "video":
                assert len(sample.options) in (4, 5)
                assert sample.options[int(sample.answer)] == sample.answer_text
            if family == "referring":
                assert sample.box is not None and sample.box[0] < sample.box[2]


def test_at_least_half_take_two_steps_and_few_are_yes_or_no(drawn: Drawn) -> None:
    for family in ("referring", "question"):
        samples = drawn[family]
        assert sum(sample.steps >= 2 for sample in samples) >= len(samples) / 2
    answers = Counter(sample.answer_text for sample in drawn["question"])
    assert answers["yes"] + answers["no"] <= 0.25 * len(drawn["question"])


def test_the_same_seed_gives_the_same_samples() -> None:
    first = generate("referring", "val", 3, 3)
    assert first == generate("referring", "val", 3, 3)
    assert first != generate("referring", "val", 4, 3)


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="known: question, referring, video"):
        generate("riddle", "test", 0, 1)
