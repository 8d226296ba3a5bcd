"""Training texts from workflows: which actions are masked, and must be written again.

An effective action is taken out of the workflow, in turn, and has to be produced from the prompt
and what went before. Ineffective actions stay where they are read and never count in the loss.

Source: DWIM (2025), supplement, table 10, for the variants. Ours: "the rest" of a workflow is what
stands before the masked action (``before``), as when the agent acts; ``all`` also shows what came
after it, with a hole where the action stood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from viper.api.sets import ApiEntry
from viper.prompting.exploring import Step, action_text, explore_prompt
from viper.tuning.agent.flagging import flagged, is_rethinking
from viper.tuning.agent.workflow import Workflow, step_of

VARIANTS = ("masking", "sft", "random", "rethink")
"""Instruct-masking; all actions; as many as instruct-masking has, at random; instruct-masking with
the thoughts that take something back."""

RESTS = ("before", "all")

HOLE = "<masked></masked>"

ASKED_FOR = f"# the action at {HOLE}:\n"
"""Ends a prompt that shows the whole workflow."""


@dataclass(frozen=True)
class Masked:
    """An action that has to be produced.

    Attributes:
        prompt: what is read.
        target: the action in its tags; the loss counts its tokens and no others.
        turn: index of the action in its workflow.
    """

    prompt: str
    target: str
    workflow: str
    turn: int


def masked(
    workflow: Workflow,
    entries: Sequence[ApiEntry],
    *,
    style: str,
    variant: str = "masking",
    rest: str = "before",
    seed: int = 0,
    said: Mapping[int, bool] | None = None,
) -> Iterator[Masked]:
    """The training texts of a workflow, one for each action that counts.

    Args:
        entries: names that the prompts list.
        variant: one of :data:`VARIANTS`.
        rest: one of :data:`RESTS`.
        said: whether the action at an index is effective, by somebody else than the rules; these
            flag the others.
    """
    turns = [one for one in workflow.turns if one.kind != "forced"]
    steps = [step_of(one) for one in turns]
    for place in _places(workflow, variant, Random(f"{seed} {workflow.id}"), said or {}):
        action = steps[place].action
        if action is None:
            continue
        target = action_text(action)
        shown = steps[:place]
        if rest == "all":
            hole = Step(None, steps[place].result, HOLE)
            shown = [*shown, hole, *steps[place + 1 :]]
        prompt = explore_prompt(workflow.query, entries, workflow.captions, shown, style=style)
        if rest == "all":
            prompt += ASKED_FOR
        yield Masked(prompt, target, workflow.id, turns[place].index)


def _places(
    workflow: Workflow, variant: str, random: Random, said: Mapping[int, bool]
) -> list[int]:
    """Places of the actions that count, in their order."""
    turns = [one for one in workflow.turns if one.kind != "forced"]
    flags = flagged(workflow.turns)[: len(turns)]
    readable = [n for n, one in enumerate(turns) if one.kind != "unreadable"]
    effective = [n for n in readable if said.get(turns[n].index, flags[n].is_effective)]
    chosen: dict[str, Callable[[], list[int]]] = {
        "masking": lambda: effective,
        "sft": lambda: readable,
        "random": lambda: sorted(random.sample(readable, min(len(effective), len(readable)))),
        "rethink": lambda: [n for n in readable if n in set(effective) or is_rethinking(turns[n])],
    }
    return chosen[variant]()
