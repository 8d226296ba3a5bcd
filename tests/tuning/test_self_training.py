"""Which of a writer's own programs are lessons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.strategies.bench import Bench
from viper.data.sample import Sample
from viper.evaluate.sample_result import SampleResult
from viper.reasoner import Reasoner
from viper.tuning.self_training import (
    Draft,
    drafts_of,
    held_out_queries,
    lessons_of,
    query_key,
    reply_of,
)

COUNT = 'def execute_command(image):\n    return len(ImagePatch(image).find("{}"))'
CUBES, RINGS = COUNT.format("cube"), COUNT.format("ring")
ALWAYS_TWO = "def execute_command(image):\n    return 2"
BROKEN = "def execute_command(image):\n    return [2][int(image is None) + 1]"


def sample(name: str, text: str, shade: int = 0) -> Sample:
    picture = np.full((20, 30, 3), shade, np.uint8)
    return Sample(name, text, "question", "image", "2", lambda: picture)


def result(sample_id: str, program: str, score: float, seed: int = 0) -> SampleResult:
    return SampleResult(sample_id, seed, score, program=program)


def test_a_draft_is_right_on_every_picture_of_its_query() -> None:
    samples = [sample("a", "how many cubes?"), sample("b", "how many cubes?", 9)]
    results = [result("a", CUBES, 1.0), result("b", CUBES, 1.0),
               result("a", ALWAYS_TWO, 1.0, 1), result("b", ALWAYS_TWO, 0.0, 1)]  # fmt: skip
    assert drafts_of(results, samples) == {query_key(samples[0]): [Draft(CUBES, 0.5)]}


@pytest.fixture
def reasoner() -> Iterator[Reasoner]:
    with Bench([]) as bench:
        yield bench.reasoner


def test_programs_that_fail_or_differ_elsewhere_are_told_apart(reasoner: Reasoner) -> None:
    asked = sample("a", "how many cubes?")
    others = [sample("b", "how many balls?", 3), sample("c", "how many balls?", 4)]
    drafts = {query_key(asked): [Draft(BROKEN, 0.5), Draft(ALWAYS_TWO, 0.2), Draft(RINGS, 0.3)]}
    (lesson,) = lessons_of(drafts, [asked, *others], reasoner)
    assert (lesson.program, lesson.share) == (RINGS, 0.3)


def test_a_rare_program_needs_queries_that_share_a_phrase(reasoner: Reasoner) -> None:
    asked, alike = sample("a", "how many cubes are there"), sample("b", "how many balls are there")
    rare = {query_key(asked): [Draft(CUBES, 0.1)]}
    assert lessons_of(rare, [asked, alike], reasoner) == []
    phrase = replace(alike, text="and how many cubes are there")
    supported = rare | {query_key(phrase): [Draft(CUBES, 0.9)]}
    programs = {each.sample.text for each in lessons_of(supported, [asked, phrase], reasoner)}
    assert programs == {asked.text, phrase.text}


def test_queries_are_held_out_with_all_their_pictures() -> None:
    samples = [sample(f"{n}-{k}", f"query {n}", k) for n in range(10) for k in range(3)]
    chosen = held_out_queries(samples, 0.25, seed=1)
    assert len(chosen) == 2 and chosen == held_out_queries(samples, 0.25, seed=1)


def test_replies_are_what_a_writer_of_the_style_gives() -> None:
    assert reply_of(ALWAYS_TWO, "compact") == f"{ALWAYS_TWO}\n\n"
    assert reply_of(ALWAYS_TWO, "full") == "image):\n    return 2"
    assert reply_of(ALWAYS_TWO, "chat") == f"```python\n{ALWAYS_TWO}\n```"
