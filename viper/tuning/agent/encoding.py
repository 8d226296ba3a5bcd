"""Masked actions as token ids: what is read, and of which tokens the loss is.

A prompt becomes the very tokens that the agent's model reads when it acts, by the same wrapping
(:class:`viper.llm.prompt_tokens.PromptTokens`); the tokens of the action follow, and they alone
count. The end of a turn that a chat template writes is not learned: an agent is stopped at the
action's closing tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from viper.llm.prompt_tokens import PromptTokens, Template
from viper.tuning.agent.masking import Masked

IGNORED = -100
"""Label of a token that does not count, as torch's cross-entropy and transformers have it."""


@dataclass(frozen=True)
class Encoded:
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

    def encoded(self, texts: Iterable[Masked]) -> list[Encoded]:
        """The texts; those of a plain model that go on from one another share one row.

        A plain prompt is the workflow so far, so that the next action's prompt begins with this one
        and its action: one row with several counted stretches is the same loss at a fraction of the
        cost.
        """
        found: list[Encoded] = []
        last = ""
        for text in texts:
            row = self._row(text)
            self.left_out += row is None
            is_more = self._is_plain and last and text.prompt.startswith(last)
            if is_more and row is not None and found:
                row = _joined(found[-1], row)
                if row is not None:
                    found[-1] = row
                    last = text.prompt + text.target
                    continue
                row = self._row(text)
            last = text.prompt + text.target
            if row is not None:
                found.append(row)
        return found

    def _row(self, text: Masked) -> Encoded | None:
        """None where it is too long."""
        prompt = self._prompts.encode(self._prompts.wrapped(text.prompt))
        target = self._tokenizer.encode(text.target, add_special_tokens=False)
        if len(prompt) + len(target) > self._longest:
            return None
        return Encoded((*prompt, *target), (*[IGNORED] * len(prompt), *target))


def _joined(first: Encoded, second: Encoded) -> Encoded | None:
    """Both in one row; None where the second's tokens do not begin with the first's."""
    if second.ids[: len(first.ids)] != first.ids:
        return None
    rest = second.labels[len(first.ids) :]
    return Encoded(second.ids, (*first.labels, *rest))


def padded(rows: Sequence[Encoded], pad: int) -> dict[str, list[list[int]]]:
    """Rows of one length: ``input_ids``, ``attention_mask`` and ``labels``, filled at the right."""
    longest = max(len(row.ids) for row in rows)
    gaps = [longest - len(row.ids) for row in rows]
    pairs = list(zip(rows, gaps, strict=True))
    return {
        "input_ids": [[*row.ids, *[pad] * gap] for row, gap in pairs],
        "attention_mask": [[1] * len(row.ids) + [0] * gap for row, gap in pairs],
        "labels": [[*row.labels, *[IGNORED] * gap] for row, gap in pairs],
    }
