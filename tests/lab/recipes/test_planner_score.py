"""What the planner's score counts: a writer that is right, one that is not, and no plan."""

from __future__ import annotations

from collections.abc import Callable

from viper.models.llm.scripted import ScriptedLLM
from viper_lab.recipes.planner_score import evaluate
from viper_lab.world.queries.generate import generate
from viper_lab.world.queries.meaning import FAMILIES
from viper_lab.world.queries.programs import gold_program

RIGHT = {
    sample.text: gold_program(sample.meaning, "abstract", sample.task)
    for family in FAMILIES
    for sample in generate(family, "val", 0, 2)
}


def writer(plan: str, programs: dict[str, str]) -> Callable[[str], str]:
    """Says one plan whatever is asked, and programs by their queries."""

    def reply(prompt: str) -> str:
        if prompt.endswith("# plan:\n"):
            return plan
        query = prompt.rpartition("# query: ")[2].splitlines()[0]
        return programs.get(query, "def execute_command(media):\n    return 'nothing'")

    return reply


def test_right_programs_after_a_plan_and_wrong_ones_at_once() -> None:
    lines: list[str] = []
    planner = ScriptedLLM(writer("1. look for it\n2. say it", RIGHT))
    found = evaluate(planner, writer=ScriptedLLM(writer("", {})), queries=6, report=lines.append)
    assert (found["planned"], found["direct"], found["plans"]) == (1.0, 0.0, 1.0)
    assert {f"planned/{family}" for family in FAMILIES} <= set(found)
    assert len(lines) == 6 and all(line.startswith("direct: ") for line in lines)
    carried_out = [call.prompt for call in planner.calls if "# plan: 1. look for it" in call.prompt]
    assert len(carried_out) == 6


def test_replies_without_a_plan_are_counted() -> None:
    silent = ScriptedLLM(writer("", {}))
    found = evaluate(silent, writer=ScriptedLLM(writer("", RIGHT)), queries=3)
    assert (found["planned"], found["direct"], found["plans"]) == (0.0, 1.0, 0.0)
