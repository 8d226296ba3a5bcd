"""What language models have in common that stand before another one."""

from __future__ import annotations

from collections.abc import Sequence

from viper.llm.protocol import LLM
from viper.llm.usage import LLMUsage


class WrappedLLM:
    """Answers whatever it does not change by the model behind it."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    @property
    def model_id(self) -> str:
        return self._llm.model_id

    @property
    def max_context(self) -> int:
        return self._llm.max_context

    @property
    def can_score(self) -> bool:
        """Whether the model can; one that does not say so can."""
        return bool(getattr(self._llm, "can_score", True))

    @property
    def usage(self) -> LLMUsage | None:
        """What the model itself has used; None where it does not count."""
        return getattr(self._llm, "usage", None)

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """As the model."""
        return self._llm.score(prompt, continuations)

    def count_tokens(self, text: str) -> int:
        """As the model."""
        return self._llm.count_tokens(text)
