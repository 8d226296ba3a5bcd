"""Asks several prompts so that one which fails does not take the others' answers with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from viper.errors import ViperError
from viper.llm.protocol import LLM, Completion, Sampling

Attempt = list[Completion] | ViperError
"""What became of one prompt: its completions, or why there are none."""


@runtime_checkable
class GeneratesEach(Protocol):
    """A language model that can fail for one prompt and answer the next."""

    def generate_each(self, prompts: Sequence[str], sampling: Sampling) -> list[Attempt]:
        """What became of each prompt, in order; errors are returned, not raised."""
        ...


def generate_each(llm: LLM, prompts: Sequence[str], sampling: Sampling) -> list[Attempt]:
    """What became of each prompt, in order, by any language model.

    One that cannot tell prompts apart (see :class:`GeneratesEach`) answers all or none:
    then every prompt has the same error.
    """
    if isinstance(llm, GeneratesEach):
        return llm.generate_each(prompts, sampling)
    try:
        return list(llm.generate(prompts, sampling))
    except ViperError as error:
        return [error] * len(prompts)


def all_answered(attempts: Iterable[Attempt]) -> list[list[Completion]]:
    """The completions of every prompt.

    Raises:
        ViperError: that of the first prompt without any.
    """
    answers = []
    for attempt in attempts:
        if isinstance(attempt, ViperError):
            raise attempt
        answers.append(attempt)
    return answers
