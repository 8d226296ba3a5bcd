"""Examples that differ most come first."""

from __future__ import annotations

from random import Random

from tests.ace.demonstrated import an_example
from viper.ace.select import diverse


def ids(*examples: object) -> list[str]:
    return [one.sample_id for one in diverse(examples)]  # type: ignore[attr-defined,arg-type]


def test_kinds_take_turns() -> None:
    examples = [an_example(kind=kind, sample_id=f"{kind}{n}") for kind in "ab" for n in range(2)]
    assert ids(*examples) == ["a0", "b0", "a1", "b1"]


def test_another_shape_comes_before_another_word() -> None:
    same = an_example(program="def execute_command(image):\n    return 'x'", sample_id="1")
    like = an_example(program="def execute_command(image):\n    return 'y'", sample_id="2",
                      query="something else entirely")  # fmt: skip
    other = an_example(program="def execute_command(image):\n    return image.name", sample_id="3")
    assert ids(same, like, other) == ["1", "3", "2"]


def test_unlike_queries_come_before_like_ones_and_shorter_programs_first() -> None:
    first = an_example(query="the red ball", sample_id="1", program="a = 1")
    like = an_example(query="the blue ball", sample_id="2", program="a = 1")
    unlike = an_example(query="how many cones?", sample_id="3", program="a = 1")
    longer = an_example(query="the red ball", sample_id="0", program="a = 1  # longer")
    assert ids(like, longer, unlike, first)[:2] == ["1", "3"]
    assert ids(longer, first) == ["1", "0"]


def test_the_order_depends_on_nothing_else() -> None:
    examples = [
        an_example(kind=f"k{n % 3}", query=f"query {n % 5} of {n}", sample_id=f"s{n}")
        for n in range(12)
    ]
    expected = ids(*examples)
    for seed in range(3):
        shuffled = list(examples)
        Random(seed).shuffle(shuffled)
        assert ids(*shuffled) == expected
    assert ids() == []
