"""What a strategy hands over: trials with answers, and what is known of the run beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from tests.strategies.bench import Bench, picture
from viper.record import record_from_json, result_record
from viper.schema import Answer, Failure, Trial, to_json
from viper.strategies.base import Components, Conclusion, RunContext, StoppedError

CUBE = "def execute_command(image):\n    return ImagePatch(image).find('cube')[0]\n"
RED = Answer("red", "text")


def trial(**values: Any) -> Trial:
    return Trial(0, "", "first", True, None, {}, (), "", 0.0, **values)


class Scripted:
    """Yields trials and returns a conclusion."""

    name = "scripted"

    def __init__(self, *trials: Trial, conclusion: Conclusion | None = None) -> None:
        self._trials, self._conclusion = trials, conclusion

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
        yield from self._trials
        return self._conclusion


def test_each_trial_holds_its_answer_and_its_value_while_it_is_new() -> None:
    seen: list[Trial] = []
    with Bench([CUBE]) as bench:
        result = bench.reasoner.run(picture(), "the cube", on_trial=seen.append)
    assert seen[0].answer == result.answer and seen[0].value.kind == "patch"
    assert result.value == (10.0, 40.0, 20.0, 50.0)
    assert result.trace.trials[0].value is None  # a trace is plain data


def test_what_a_trial_answers_is_not_stored() -> None:
    values = to_json(trial(answer=RED, value=object()))
    assert set(values) == {item.name for item in fields(Trial)} - {"answer", "value", "missed"}
    assert record_from_json(Trial, values) == trial()
    with Bench([CUBE]) as bench:
        record = result_record(bench.reasoner.run(picture(), "the cube").trace)
    assert "answer" not in record["trials"][0] and record["answer_kind"] == "box"


def test_the_last_trial_with_an_answer_counts_unless_another_one_is_chosen() -> None:
    trials = trial(answer=Answer("blue", "text")), trial(answer=RED), trial()
    with Bench([]) as bench:
        last = bench.reasoner.run(picture(), "what color?", using=Scripted(*trials)).trace
        first = Scripted(*trials, conclusion=Conclusion(chosen=0, parts={"notes": [1]}))
        chosen = bench.reasoner.run(picture(), "what color?", using=first).trace
    assert (last.answer, last.chosen) == (RED, 1)
    assert chosen.answer is not None and (chosen.answer.value, chosen.chosen) == ("blue", 0)
    assert chosen.parts == {"notes": (1,)}


def test_a_strategy_that_cannot_go_on_says_why() -> None:
    class Stops(Scripted):
        def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
            raise StoppedError(Failure("budget", "nothing is left"))

    with Bench([]) as bench:
        result = bench.reasoner.run(picture(), "what color?", using=Stops())
    assert result.failure == Failure("budget", "nothing is left") and result.trace.trials == ()


def test_strategies_written_for_earlier_versions_still_answer() -> None:
    class Earlier(Scripted):
        def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
            context.parts["notes"] = [{"seen": 1}]
            context.final_value = (RED, "red")  # type: ignore[attr-defined]
            yield trial()

    with Bench([]) as bench:
        result = bench.reasoner.run(picture(), "what color?", using=Earlier())
    assert (result.answer, result.value, result.trace.chosen) == (RED, "red", 0)
    assert result.trace.parts == {"notes": ({"seen": 1},)}
