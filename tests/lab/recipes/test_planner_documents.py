"""Training texts of the planner: as prompts are, with the right pieces learned."""

from __future__ import annotations

from random import Random

from viper.prompting.builder import build_prompt
from viper.prompting.plans import build_plan_prompt, read_plan
from viper.schema import Example, Query
from viper_lab.recipes.planner_documents import PlanDocuments, plan_document
from viper_lab.recipes.writer_documents import listed_entries

PLANS = PlanDocuments(programs=0.0, lone=0.0)
PROGRAMS = PlanDocuments(programs=1.0)


def example(query: str, plan: str, critique: str = "", program: str = "x") -> Example:
    return Example(
        query=query,
        program=program,
        task="ground",
        api="abstract",
        score=1.0,
        sample_id="",
        seed=0,
        llm="",
        api_hash="",
        plan=plan,
        critique=critique or None,
        polarity="incorrect" if critique else "correct",
    )


def queries(text: str) -> list[str]:
    return [line[9:] for line in text.splitlines() if line.startswith("# query: ")]


def test_planning_documents_are_prompts_with_their_answers() -> None:
    """A document of groundings, taken apart, is what the prompt builder makes of its parts."""
    random, seen = Random(0), 0
    for _ in range(200):
        pieces = plan_document(random, PLANS)
        text = "".join(piece.text for piece in pieces)
        if "# task: ground\n" not in text:
            continue
        blocks = text.split("\n\n")[:-1]
        correct, incorrect = [], []
        for block in blocks[:-1]:
            lines = block.splitlines()
            if lines[2] == "# plan:":
                correct.append(example(lines[1][9:], "\n".join(lines[3:])))
            else:
                wrong = lines[2].removeprefix("# wrong: ")
                incorrect.append(example(lines[1][9:], wrong, lines[3].removeprefix("# why: ")))
        asked = Query(queries(blocks[-1])[0], "ground")
        prompt = build_plan_prompt(asked, (), correct, incorrect, style="compact")
        assert text.startswith(prompt)
        assert pieces[-1].learned and pieces[-1].text == text[len(prompt) :]
        seen += bool(incorrect)
    assert seen > 10


def test_plans_are_learned_and_wrong_ones_are_read_only() -> None:
    random = Random(1)
    for _ in range(100):
        for piece in plan_document(random, PLANS):
            assert piece.learned == (read_plan(piece.text) != "" and "# " not in piece.text)
            assert not (piece.learned and "# wrong" in piece.text)


def test_documents_with_programs_show_plan_and_names() -> None:
    random, seen = Random(2), 0
    full = PlanDocuments(programs=1.0, ambiguous=(0.0, 0.0), made_up_nouns=0.0)
    for _ in range(60):
        pieces = plan_document(random, full)
        head, asked, program = pieces[:3]
        assert (head.learned, asked.learned, program.learned) == (False, False, True)
        assert "\n# plan: 1. " in asked.text and program.text.endswith("\n\n")
        if head.text.count("\n") == len(listed_entries("abstract", "ground")):
            query = Query(queries(asked.text)[0], "ground")
            plan = asked.text.partition("# plan: ")[2].strip()
            prompt = build_prompt(query, listed_entries("abstract", "ground"), plan=plan)
            if "# task: ground" in asked.text and head.text in prompt:
                assert head.text + asked.text == prompt
                seen += 1
    assert seen > 2


def test_the_same_seed_draws_the_same_document() -> None:
    one, again = (plan_document(Random(5), PlanDocuments()) for _ in range(2))
    assert one == again
