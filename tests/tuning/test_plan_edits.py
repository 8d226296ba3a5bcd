"""Faults in plans, and the words that say what is wrong."""

from __future__ import annotations

from viper.tuning.plan_edits import COMMON_FAMILIES, OPPOSITES, EditedPlan, edited_plans
from viper.tuning.program_edits import Vocabulary, edited_programs, program_fault

PLAN = "1. Find all red cubes.\n2. Take the Leftmost of those of step 1.\n3. Compare steps 1 and 2."


def of_kind(kind: str, plan: str = PLAN) -> list[EditedPlan]:
    return [one for one in edited_plans(plan, (("red", "blue"),)) if one.kind == kind]


def test_a_step_left_out_takes_references_with_it() -> None:
    first, second, third = of_kind("step left out")
    assert first.plan == "1. Take the Leftmost of those of step 1.\n2. Compare step 1."
    assert first.fault == 'A step is missing at the beginning: "Find all red cubes."'
    assert second.plan == "1. Find all red cubes.\n2. Compare steps 1 and 2."
    assert second.fault.startswith("A step is missing after step 1: ")
    assert third.plan == "\n".join(PLAN.split("\n")[:2])


def test_steps_exchanged() -> None:
    plans = [one.plan.split("\n") for one in of_kind("steps exchanged")]
    assert [plan[0] for plan in plans] == [
        "1. Take the Leftmost of those of step 1.",
        "1. Find all red cubes.",
    ]
    assert "Steps 1 and 2 are in the wrong order" in of_kind("steps exchanged")[0].fault


def test_words_are_exchanged_whole_and_keep_their_capital() -> None:
    (attribute,) = of_kind("attribute")
    assert attribute.plan.startswith("1. Find all blue cubes.")
    assert attribute.fault == "Step 1 says blue where it must say red"
    (relation,) = of_kind("relation")
    assert "2. Take the Rightmost of those" in relation.plan
    assert relation.fault == "Step 2 says rightmost where it must say leftmost"
    assert not of_kind("attribute", "1. Find the bored redhead.")


def test_each_plan_once_and_never_the_same() -> None:
    repeated = "1. Find a red cube.\n2. Find a red cube."
    plans = [one.plan for one in edited_plans(repeated, COMMON_FAMILIES)]
    assert len(plans) == len(set(plans)) and repeated not in plans


def test_what_is_no_plan_has_no_faults() -> None:
    assert edited_plans("", COMMON_FAMILIES) == edited_plans("words alone", COMMON_FAMILIES) == []
    assert edited_plans("1. Say hello.", ()) == []


def test_opposites_lead_back_or_to_one_that_does() -> None:
    for word, opposite in OPPOSITES.items():
        assert opposite != word and opposite in OPPOSITES


def test_a_programs_fault_names_line_and_remedy() -> None:
    program = (
        "def execute_command(image):\n    # the leftmost\n"
        "    found = ImagePatch(image).find('red cube')\n    return found[0]\n"
    )
    said = {
        one.kind: program_fault(one.kind, program, one.program)
        for one in edited_programs(program, Vocabulary((("red", "blue"),)))
    }
    assert said["direction"] == (
        "Line 3 goes the wrong way: `return found[-1]` should be `return found[0]`"
    )
    assert said["attribute"].startswith(
        "Line 2 asks for the wrong thing: `found = ImagePatch(image"
    )
    assert said["filter"].startswith("Line 2 leaves a condition out: ")
    assert program_fault("direction", "def (", "def (") == "The program goes the wrong way"
