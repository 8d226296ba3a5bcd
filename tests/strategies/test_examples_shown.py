"""Which examples a prompt shows, in which order, and what the trace says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ace.test_bank import EXAMPLE
from tests.strategies.bench import Bench, picture
from viper.ace.bank import Bank
from viper.errors import UsageError
from viper.reasoner import Reasoner
from viper.run_result import RunResult
from viper.schema import Trace

PROGRAM = "def execute_command(image):\n    return ImagePatch(image)"
QUERIES = ("a red cube", "one big ring", "the ball", "the small cone")

BANK = Bank(
    replace(EXAMPLE, query=query, program=PROGRAM, sample_id=f"s{number}")
    for number, query in enumerate(QUERIES)
)


def asked(bench: Bench, context: int = 10**6, **changes: object) -> tuple[RunResult, list[str]]:
    """The result of a run with the bank, and the queries in its prompt."""
    bench.llm.max_context = context
    components = replace(bench.reasoner.components, examples=BANK)
    result = Reasoner(components).run(picture(), "which ring?", task="ground", **changes)
    lines = (result.trace.trials[0].prompt or "").splitlines()
    return result, [line.removeprefix("# query: ") for line in lines if "# query: " in line]


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, ["s1", "s0"]),
        ({"example_order": "falling"}, ["s0", "s1"]),
        ({"retrieval": "bm25"}, ["s0", "s1"]),
        ({"retrieval": "bm25", "example_order": "falling"}, ["s1", "s0"]),
        ({"examples": 1, "retrieval": "bm25"}, ["s1"]),
        ({"examples": 0}, []),
    ],
)
def test_the_best_stands_where_the_order_says(changes: dict[str, object], shown: list[str]) -> None:
    with Bench([PROGRAM], examples=2) as bench:
        result, queries = asked(bench, **changes)
    assert result.trace.examples_shown == tuple(shown) and result.trace.examples_left_out == 0
    assert queries == [*(QUERIES[int(name[1])] for name in shown), "which ring?"]


def test_the_worst_are_left_out_where_the_context_is_short() -> None:
    with Bench([PROGRAM] * 3, examples=4, max_tokens=10) as bench:
        result, _ = asked(bench)
        prompt = result.trace.trials[0].prompt or ""
        room = bench.llm.count_tokens(prompt) + 10
        assert asked(bench, room)[0].trace.examples_left_out == 0
        short, queries = asked(bench, room - 1)
    assert short.trace.examples_shown == ("s2", "s1", "s0") and short.trace.examples_left_out == 1
    assert queries == ["the ball", "one big ring", "a red cube", "which ring?"]


def test_they_leave_room_for_the_pictures_of_a_writer_that_sees() -> None:
    with Bench([PROGRAM] * 3, examples=4, max_tokens=10) as bench:
        room = bench.llm.count_tokens(asked(bench)[0].trace.trials[0].prompt or "") + 10
        bench.llm.sees_pictures = True
        seeing = replace(bench.reasoner.components, sees=frozenset({"llm"}))
        bench.reasoner.components = seeing
        # The bench's picture of 60 x 100 pixels is estimated at 8 tokens.
        assert asked(bench, room + 8)[0].trace.examples_left_out == 0
        assert asked(bench, room + 7)[0].trace.examples_left_out == 1


def test_a_context_that_holds_no_example_still_gets_its_prompt() -> None:
    with Bench([PROGRAM], examples=4) as bench:
        result, queries = asked(bench, 1)
    assert (result.trace.examples_shown, result.trace.examples_left_out) == ((), 4)
    assert queries == ["which ring?"]


def test_embeddings_without_a_model_are_one_line() -> None:
    with (
        Bench([PROGRAM]) as bench,
        pytest.raises(UsageError, match="give the profile a role embedder"),
    ):
        asked(bench, retrieval="embeddings")


def test_a_trace_without_examples_says_none() -> None:
    fields = Trace.__dataclass_fields__
    assert fields["examples_shown"].default == () and fields["examples_left_out"].default == 0
