"""Training texts from workflows: which actions are masked, and must be written again.

An effective action is taken out of the workflow, in turn, and has to be produced from the prompt
and what went before. Ineffective actions stay where they are read and never count in the loss.

Source: DWIM (2025), supplement, table 10, for the variants. Ours: "the rest" of a workflow is what
stands before the masked action (``before``), as when the agent acts; ``all`` also shows what came
after it, with a hole where the action stood.

As token ids, a prompt becomes the very tokens that the agent's model reads when it acts, by the
same wrapping (``PromptTokens``); the tokens of the action follow, and
they alone count. The end of a turn that a chat template writes is not learned: an agent is stopped
at the action's closing tag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from viper.api.sets import ApiEntry
from viper.models.llm.prompt_tokens import PromptTokens, Template
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


IGNORED = -100
"""Label of a token that does not count, as torch's cross-entropy and transformers have it."""


@dataclass(frozen=True)
class MaskedWorkflow:
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
) -> Iterator[MaskedWorkflow]:
    """Return the training texts of a workflow, one for each action that counts.

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
        previous = steps[:place]
        if rest == "all":
            hole = Step(None, steps[place].result, HOLE)
            previous = [*previous, hole, *steps[place + 1 :]]
        prompt = explore_prompt(workflow.query, entries, workflow.captions, previous, style=style)
        if rest == "all":
            prompt += ASKED_FOR
        yield MaskedWorkflow(prompt, target, workflow.id, turns[place].index)


def _places(
    workflow: Workflow, variant: str, random: Random, labels: Mapping[int, bool]
) -> list[int]:
    """Return the indices of the actions that count, in order."""
    turns = [one for one in workflow.turns if one.kind != "forced"]
    flags = flagged(workflow.turns)[: len(turns)]
    readable = [n for n, one in enumerate(turns) if one.kind != "unreadable"]
    effective = [n for n in readable if labels.get(turns[n].index, flags[n].is_effective)]
    chosen: dict[str, Callable[[], list[int]]] = {
        "masking": lambda: effective,
        "sft": lambda: readable,
        "random": lambda: sorted(random.sample(readable, min(len(effective), len(readable)))),
        "rethink": lambda: [n for n in readable if n in set(effective) or is_rethinking(turns[n])],
    }
    return chosen[variant]()


@dataclass(frozen=True)
class EncodedWorkflow:
    """Token ids of a prompt and an action, with labels of the same length.

    Attributes:
        labels: the token itself where it counts, :data:`IGNORED` where it is only read.
    """

    ids: tuple[int, ...]
    labels: tuple[int, ...]


class Encoder:
    """Encodes for one model.

    Args:
        tokenizer: of the transformers library.
        longest: tokens of a text at most; longer ones are left out.

    Attributes:
        left_out: how many were too long so far.
    """

    def __init__(self, tokenizer: Any, template: Template, longest: int) -> None:
        self._tokenizer, self._longest = tokenizer, longest
        self.left_out = 0
        self._prompts = PromptTokens(tokenizer, template)
        self._is_plain = template == "plain" or (
            template == "auto" and not bool(tokenizer.chat_template)
        )

    def encoded(self, texts: Iterable[MaskedWorkflow]) -> list[EncodedWorkflow]:
        """Encode the texts. Texts of a plain model that continue one another share one row.

        A plain prompt is the workflow so far, so that the next action's prompt begins with this one
        and its action: one row with several counted stretches is the same loss at a fraction of the
        cost.
        """
        rows: list[EncodedWorkflow] = []
        last = ""
        for text in texts:
            row = self._row(text)
            self.left_out += row is None
            is_more = self._is_plain and last and text.prompt.startswith(last)
            if is_more and row is not None and rows:
                row = _joined(rows[-1], row)
                if row is not None:
                    rows[-1] = row
                    last = text.prompt + text.target
                    continue
                row = self._row(text)
            last = text.prompt + text.target
            if row is not None:
                rows.append(row)
        return rows

    def _row(self, text: MaskedWorkflow) -> EncodedWorkflow | None:
        """Encode one text, or return None if it is too long."""
        prompt = self._prompts.encode(self._prompts.wrapped(text.prompt))
        target = self._tokenizer.encode(text.target, add_special_tokens=False)
        if len(prompt) + len(target) > self._longest:
            return None
        return EncodedWorkflow((*prompt, *target), (*[IGNORED] * len(prompt), *target))


def _joined(first: EncodedWorkflow, second: EncodedWorkflow) -> EncodedWorkflow | None:
    """Join both rows into one, or return None if the second does not begin with the first's
    tokens."""
    if second.ids[: len(first.ids)] != first.ids:
        return None
    rest = second.labels[len(first.ids) :]
    return EncodedWorkflow(second.ids, (*first.labels, *rest))


def padded(rows: Sequence[EncodedWorkflow], pad: int) -> dict[str, list[list[int]]]:
    """Return rows of one length, padded at the right: ``input_ids``, ``attention_mask``,
    ``labels``."""
    longest = max(len(row.ids) for row in rows)
    gaps = [longest - len(row.ids) for row in rows]
    pairs = list(zip(rows, gaps, strict=True))
    return {
        "input_ids": [[*row.ids, *[pad] * gap] for row, gap in pairs],
        "attention_mask": [[1] * len(row.ids) + [0] * gap for row, gap in pairs],
        "labels": [[*row.labels, *[IGNORED] * gap] for row, gap in pairs],
    }
