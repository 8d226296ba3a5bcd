"""Endless everyday questions: by number, by level, with scenes that are known."""

from __future__ import annotations

from collections import Counter

import pytest

from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, EndlessSet
from viper.env.episode import Episode, Rules
from viper.env.tasks import Tasks
from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper.strategies.exact import KnowsScenes
from viper_lab.world.everyday.meaning import groups
from viper_lab.world.everyday.programs import program_of

WORLD = data_set("world-everyday")


def test_a_sample_is_drawn_by_its_number_alone():
    assert isinstance(WORLD, EndlessSet)
    samples = WORLD.samples(DatasetSpec(None, "val", 3, 6))
    assert samples == [WORLD.sample(DatasetSpec(None, "val", 3), number) for number in range(6)]
    assert len({sample.cluster for sample in samples}) == 6
    found = WORLD.by_id(DatasetSpec(), [samples[4].sample_id, "everyday-val-3-9-1", "other"])
    assert found == {samples[4].sample_id: samples[4]}


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_level_is_the_number_of_groups_named(level):
    for number in range(12):
        sample = WORLD.sample(DatasetSpec(None, f"train:{level}", 0), number)
        assert min(groups(sample.load.ask), 3) == level
        assert sample.groups["level"] == str(level)


def test_yes_and_no_are_equally_frequent():
    answers = Counter(
        WORLD.sample(DatasetSpec(None, "train", 1), number).target for number in range(150)
    )
    both = answers["yes"] + answers["no"]
    assert 0.35 < answers["yes"] / both < 0.65


def test_seeds_and_splits_differ():
    texts = {
        WORLD.sample(DatasetSpec(None, split, seed), 0).text
        for split in ("train", "val", "test")
        for seed in range(3)
    }
    assert len(texts) == 9


def test_no_answer_is_right_in_most_of_the_cases():
    for number in range(8):
        load = WORLD.sample(DatasetSpec(None, "val", 5), number).load
        assert isinstance(load, KnowsScenes)
        targets = [target for _, target in load.cases(8)]
        assert max(Counter(targets).values()) <= 4
        assert targets == [target for _, target in load.cases(8)]


def test_an_anchor_with_two_relations_is_found():
    """Number 14 asks for the thing nearest to a ball that two other objects describe."""
    task = Tasks("world-everyday", split="train", seed=2)[14]
    ask = task.sample.load.ask
    tests = ask.one.things.tests if ask.one.anchor is None else ask.one.anchor.things.tests
    assert sum(test.anchor is not None for test in tests) == 2
    with Reasoner(load_profile("embedded"), preload=False) as reasoner:
        episode = Episode(task, reasoner, Rules(exact=True))
        episode.reset()
        episode.act(program_of(ask))
        assert episode.reward().parts["answer"] == 1
        episode.close()
