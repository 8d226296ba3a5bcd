"""A language model that is loaded when it is first asked, so that what needs none loads none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viper.llm.each import Attempt, generate_each
from viper.llm.protocol import LLM, Completion, Sampling
from viper.llm.usage import LLMUsage
from viper.models.loading import ONE_AT_A_TIME


class DeferredLLM:
    """Stands for a language model until somebody needs it; then it is loaded, once.

    Args:
        load: returns the model.
    """

    def __init__(self, load: Callable[[], LLM]) -> None:
        self._load = load
        self._model: LLM | None = None

    @property
    def loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._model is not None

    @property
    def model(self) -> LLM:
        """The model itself, loaded now if it was not."""
        if self._model is None:
            with ONE_AT_A_TIME:
                if self._model is None:
                    self._model = self._load()
        return self._model

    @property
    def model_id(self) -> str:
        return self.model.model_id

    @property
    def max_context(self) -> int:
        return self.model.max_context

    @property
    def can_score(self) -> bool:
        """Whether :meth:`score` is available; remote endpoints may not offer it."""
        return bool(getattr(self.model, "can_score", True))

    @property
    def usage(self) -> LLMUsage | None:
        """What the model has used; None where it does not count, or is not loaded."""
        return getattr(self._model, "usage", None)

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        """As the model."""
        return self.model.generate(prompts, sampling)

    def generate_each(self, prompts: Sequence[str], sampling: Sampling) -> list[Attempt]:
        """What became of each prompt, in order; see :func:`viper.llm.each.generate_each`."""
        return generate_each(self.model, prompts, sampling)

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """As the model."""
        return self.model.score(prompt, continuations)

    def count_tokens(self, text: str) -> int:
        """As the model."""
        return self.model.count_tokens(text)
