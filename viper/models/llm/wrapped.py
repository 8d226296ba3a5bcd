"""Language models that stand before another one: loaded late, or gathering prompts of threads.

``llm.cache`` has the third, which remembers answers. All answer by the model behind them
(:class:`WrappedLLM`), and no prompt that fails takes the answers to others with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from viper.errors import ViperError
from viper.models.batching import Gatherer
from viper.models.llm.endpoint import LLMUsage
from viper.models.llm.protocol import LLM, Completion, Sampling
from viper.models.loading import ONE_AT_A_TIME

Attempt = list[Completion] | ViperError
"""What became of one prompt: its completions, or why there are none."""

BATCH = 16
"""Prompts in one batch, of a model whose attribute ``batch`` names no other number."""


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


class WrappedLLM:
    """Answers by the model behind it; a wrapper overrides what it changes."""

    def __init__(self, llm: LLM) -> None:
        self._wrapped = llm

    @property
    def _llm(self) -> LLM:
        return self._wrapped

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

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        """As the model."""
        return self._llm.generate(prompts, sampling)

    def generate_each(self, prompts: Sequence[str], sampling: Sampling) -> list[Attempt]:
        """What became of each prompt, in order; see :func:`generate_each`."""
        return generate_each(self._llm, prompts, sampling)

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """As the model."""
        return self._llm.score(prompt, continuations)

    def count_tokens(self, text: str) -> int:
        """As the model."""
        return self._llm.count_tokens(text)


class DeferredLLM(WrappedLLM):
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
    def _llm(self) -> LLM:
        if self._model is None:
            with ONE_AT_A_TIME:
                if self._model is None:
                    self._model = self._load()
        return self._model

    @property
    def usage(self) -> LLMUsage | None:
        """What the model has used; None where it does not count, or is not loaded."""
        return getattr(self._model, "usage", None)


class GatheredLLM(WrappedLLM):
    """A language model whose single prompts are decoded together with those of other threads.

    What a prompt gets does not depend on its company as far as the model's own batches do
    not: every shipped backend seeds each prompt by itself. A model that serves callers
    side by side itself (its attribute ``concurrent`` is true, as of endpoints) is passed
    every call as it comes.

    Args:
        llm: the model.
        most: prompts in one batch at most.
    """

    def __init__(self, llm: LLM, most: int = BATCH) -> None:
        super().__init__(llm)
        self._gatherer = Gatherer(self._serve, most)

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        """As the model; prompts of other threads with the same sampling may join.

        Raises:
            ViperError: the first of these prompts that failed for good.
        """
        if len(prompts) != 1 or getattr(self._llm, "concurrent", False):
            return self._llm.generate(prompts, sampling)
        kind = replace(sampling, seed=0) if sampling.temperature <= 0 else sampling
        found: list[Completion] = self._gatherer.ask(kind, prompts[0])
        return [found]

    def generate_each(self, prompts: Sequence[str], sampling: Sampling) -> list[Attempt]:
        """What became of each prompt, in order; see :func:`generate_each`."""
        if len(prompts) != 1:
            return super().generate_each(prompts, sampling)
        try:
            return list(self.generate(prompts, sampling))
        except ViperError as error:
            return [error]

    def _serve(self, kind: object, prompts: list[str]) -> list[list[Completion]]:
        """Equal prompts are asked once: equal seeds make them equal answers."""
        assert isinstance(kind, Sampling)
        asked = list(dict.fromkeys(prompts))
        answers = dict(zip(asked, self._llm.generate(asked, kind), strict=True))
        return [answers[prompt] for prompt in prompts]
