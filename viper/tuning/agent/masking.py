"""Training texts from workflows: each masks an action that the model must write again.

Each effective action in turn is removed from the workflow, and the model must produce it from the
prompt and the preceding turns. Ineffective actions remain as context and never count in the loss.

Source: DWIM (2025), supplement, table 10, for the variants. Ours: by default the context consists
of the turns before the masked action (``before``), as when the agent acts. ``all`` also shows the
turns after it, with a hole in place of the action. ``effective`` shows only the effective turns
before it: what was doubted, repeated or failed is cut, so the context is one that the agent meets
when nobody doubts it.

A prompt is encoded to the same tokens that the agent's model reads when it acts (``PromptTokens``).
The tokens of the action follow, and only they count. The end of a turn that a chat template writes
is not learned, because an agent is stopped at the action's closing tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from viper.api.sets import ApiEntry
from viper.api.spec import UNSHARED, Listing
from viper.models.llm.messages import Prompt, user
from viper.models.llm.prompt_tokens import PromptTokens, Template
from viper.prompting.exploring import Step, action_text, explore_prompt
from viper.strategies.explore.flagging import flagged, is_rethinking
from viper.strategies.explore.workflow import Workflow

# Choices of actions to learn: instruct-masking; all; a random choice of the same number as
# instruct-masking; instruct-masking with rethinking thoughts.
VARIANTS = ("masking", "sft", "random", "rethink")

HOLE = "<masked></masked>"

# End of a prompt that shows the whole workflow.
ASKED_FOR = f"# the action at {HOLE}:\n"


# Label of a token that does not count; torch's cross-entropy and transformers use the same.
IGNORED = -100


@dataclass(frozen=True)
class MaskedWorkflow:
    """Training text with one masked action.

    Attributes:
        prompt: the prompt that the model reads.
        target: the action in its tags. Only its tokens count in the loss.
        workflow: id of the workflow.
        turn: index of the action in its workflow.
        is_first: whether the prompt shows no turn before it.
    """

    prompt: Prompt
    target: str
    workflow: str
    turn: int
    is_first: bool = False


def masked(
    workflow: Workflow,
    entries: Sequence[ApiEntry],
    *,
    style: str,
    variant: str = "masking",
    rest: str = "before",
    seed: int = 0,
    labels: Mapping[int, bool] | None = None,
    listing: Listing = UNSHARED,
) -> Iterator[MaskedWorkflow]:
    """Return the training texts of a workflow, one for each action that counts.

    Args:
        entries: names that the prompts list.
        variant: one of :data:`VARIANTS`.
        rest: ``before``, ``effective`` or ``all``; see the module.
        labels: whether the action at an index is effective, according to people or a model. The
            rules flag actions without an entry.
        listing: the form in which the prompts of the agent print its API.
    """
    turns = [turn for turn in workflow.turns if turn.kind != "forced"]
    steps = list(workflow.steps)
    readable = [n for n, turn in enumerate(turns) if turn.kind != "unreadable"]
    flags, own = flagged(workflow.turns), labels or {}
    effective = [n for n in readable if own.get(turns[n].index, flags[n].is_effective)]
    places = {
        "masking": effective,
        "sft": readable,
        "random": sorted(Random(f"{seed} {workflow.id}").sample(readable, len(effective))),
        "rethink": [n for n in readable if n in effective or is_rethinking(turns[n])],
    }
    for place in places[variant]:
        action = steps[place].action
        if action is None:
            continue
        previous = steps[:place]
        if rest == "effective":
            previous = [steps[n] for n in effective if n < place]
        is_first = not previous
        if rest == "all":
            hole = Step(None, steps[place].result, HOLE)
            previous = [*previous, hole, *steps[place + 1 :]]
        prompt = explore_prompt(
            workflow.query, entries, workflow.captions, previous, style=style, listing=listing
        )
        if rest == "all":
            if isinstance(prompt, str):
                prompt += ASKED_FOR
            else:
                prompt = (*prompt[:-1], user(*prompt[-1].parts, ASKED_FOR))
        target = action_text(action)
        yield MaskedWorkflow(prompt, target, workflow.id, turns[place].index, is_first)


@dataclass(frozen=True)
class EncodedWorkflow:
    """Token ids of a prompt and an action, with labels of the same length.

    Attributes:
        labels: the token id if the token counts, else :data:`IGNORED`.
    """

    ids: tuple[int, ...]
    labels: tuple[int, ...]


class Encoder:
    """Encodes training texts for one model.

    Args:
        tokenizer: tokenizer of the transformers library.
        longest: most tokens of a text; longer texts are left out.

    Attributes:
        left_out: number of texts left out so far.
    """

    def __init__(self, tokenizer: Any, template: Template, longest: int) -> None:
        self._tokenizer, self._longest = tokenizer, longest
        self.left_out = 0
        self._prompts = PromptTokens(tokenizer, template)
        self._is_plain = template == "plain" or (template == "auto" and not tokenizer.chat_template)

    def encoded(self, texts: Iterable[MaskedWorkflow]) -> list[EncodedWorkflow]:
        """Encode the texts. For a plain model, consecutive texts share a row.

        A plain prompt is the workflow so far, so the next action's prompt begins with this prompt
        and its action. One row with several counted sections has the same loss at a fraction of
        the cost.
        """
        rows: list[EncodedWorkflow] = []
        last = ""
        for text in texts:
            prompt = text.prompt if isinstance(text.prompt, str) else ""
            is_more = self._is_plain and last and prompt.startswith(last)
            last = prompt and prompt + text.target
            context = self._prompts.encode(self._prompts.wrapped(text.prompt))
            target = self._tokenizer.encode(text.target, add_special_tokens=False)
            if len(context) + len(target) > self._longest:
                self.left_out += 1
                continue
            ids, labels = (*context, *target), (*[IGNORED] * len(context), *target)
            if is_more and rows and ids[: len(rows[-1].ids)] == rows[-1].ids:
                before = rows.pop()
                labels = (*before.labels, *labels[len(before.ids) :])
            rows.append(EncodedWorkflow(ids, labels))
        return rows


def padded(rows: Sequence[EncodedWorkflow], pad: int) -> dict[str, list[list[int]]]:
    """Pad the rows at the right to one length.

    Return ``input_ids``, ``attention_mask`` and ``labels``.
    """
    longest = max(len(row.ids) for row in rows)
    gaps = [longest - len(row.ids) for row in rows]
    pairs = list(zip(rows, gaps, strict=True))
    return {
        "input_ids": [[*row.ids, *[pad] * gap] for row, gap in pairs],
        "attention_mask": [[1] * len(row.ids) + [0] * gap for row, gap in pairs],
        "labels": [[*row.labels, *[IGNORED] * gap] for row, gap in pairs],
    }
