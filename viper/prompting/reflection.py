"""Prompts that ask a language model for the fault that made an answer wrong.

The prompts state everything in words, for a whole run at once or for one of its calls.

Source: CLOVA (Gao et al. 2024, sec. 3.3), global and local reflection; the words are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viper.prompting.compact import one_line
from viper.prompting.template import fill


@dataclass(frozen=True)
class Reflection:
    """The facts about a wrong answer for a language model.

    Attributes:
        steps: one text per call, in order.
        answer: the answer of the program, or its failure.
        desired: the right answer in words; empty if unknown.
        comment: feedback in words; may be empty.
        plan: empty if the strategy has no plan.
        picture: caption of the first picture; may be empty.
    """

    task: str
    query: str
    options: Sequence[str]
    program: str
    steps: Sequence[str]
    answer: str
    desired: str = ""
    comment: str = ""
    plan: str = ""
    picture: str = ""


def build_global_prompt(reflection: Reflection) -> str:
    """Build the prompt that shows a whole run and asks for its one fault."""
    steps = "\n".join(reflection.steps) or "(it made no call)"
    return _fill("reflect_global", reflection, steps=steps)


def build_local_prompt(reflection: Reflection, place: int) -> str:
    """Build the prompt that asks whether the call at ``place`` of ``steps`` is correct."""
    earlier = "\n".join(reflection.steps[:place]) or "(none yet)"
    return _fill("reflect_local", reflection, checked=earlier, step=reflection.steps[place])


def build_answer_prompt(reflection: Reflection, step: int, reason: str) -> str:
    """Build the prompt that asks for the answer that VQA should have given at a step."""
    steps, number = "\n".join(reflection.steps), str(step)
    return _fill("reflect_answer", reflection, steps=steps, step=number, reason=one_line(reason))


def build_acceptance_prompt(reflection: Reflection, earlier: str) -> str:
    """Build the prompt that asks whether a new result meets the comment on an earlier one."""
    steps = "\n".join(reflection.steps)
    return _fill("reflect_accept", reflection, steps=steps, earlier=one_line(earlier))


def _fill(name: str, reflection: Reflection, **steps: str) -> str:
    options = "".join(f"- {one_line(option)}\n" for option in reflection.options)
    feedback = [f"The right answer: {reflection.desired}"] if reflection.desired else []
    feedback += [f"A person says: {one_line(reflection.comment)}"] if reflection.comment else []
    values = {
        "task": reflection.task,
        "query": one_line(reflection.query),
        "picture": f"The picture shows {one_line(reflection.picture)}\n"
        if reflection.picture
        else "",
        "options": f"Possible answers:\n{options}" if options else "",
        "plan": f"\nThe plan it followed:\n{reflection.plan.strip()}\n" if reflection.plan else "",
        "program": reflection.program.strip("\n"),
        "answer": one_line(reflection.answer),
        "feedback": "\n".join(feedback),
        "locations": "plan, program, tool or none" if reflection.plan else "program, tool or none",
        **steps,
    }
    return fill(name, values).rstrip("\n") + "\n"
