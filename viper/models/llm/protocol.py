"""The interface of language models: text in, text out, no images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Completion:
    """Sampled continuation. ``finish_reason`` is ``stop`` or ``length``.

    Attributes:
        cost_usd: its share of the charge in US dollars; the shares of all completions add up to
            the charge. 0 for a repeated or cached completion, None if no price is known.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish_reason: str = "stop"
    cost_usd: float | None = None


@dataclass(frozen=True)
class Sampling:
    """Decoding settings. ``temperature`` 0 is greedy, and then ``seed`` has no effect.

    ``stop`` strings end a completion and are not part of its text.
    """

    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    n: int = 1


@runtime_checkable
class LLM(Protocol):
    """A causal language model; safe to call from several threads.

    Attributes:
        model_id: name plus weight hash, recorded in traces and cache keys.
        max_context: maximum number of tokens of prompt and completion together.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def max_context(self) -> int: ...

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        """Return ``sampling.n`` completions for each prompt, in order."""
        ...

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Return the mean log-likelihood per token of each continuation after the prompt."""
        ...

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of the text in this model's vocabulary."""
        ...
