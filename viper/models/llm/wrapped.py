"""Wrappers of language models: one loads late, one gathers the prompts of threads.

The third wrapper, the cache, is in ``llm.cache``. All pass prompts to the model behind them
(:class:`WrappedLLM`). A prompt that fails does not lose the answers to other prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar, runtime_checkable

from viper.errors import ViperError
from viper.models.batching import Gatherer
from viper.models.llm.endpoint import LLMUsage
from viper.models.llm.messages import Prompt, without_roles
from viper.models.llm.protocol import LLM, Completion, Sampling, sees_pictures
from viper.models.memory import MemoryBudget, Weights

Result = TypeVar("Result")

# Result of one prompt: its completions, or the error.
Attempt = list[Completion] | ViperError

# Prompts in one batch, unless the model's attribute ``batch`` states another number.
BATCH = 16


@runtime_checkable
class GeneratesEach(Protocol):
    """Language model that can fail for one prompt and answer the next."""

    def generate_each(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Attempt]:
        """Return the result of each prompt in order; errors are returned, not raised."""


def generate_each(llm: LLM, prompts: Sequence[Prompt], sampling: Sampling) -> list[Attempt]:
    """Return the result of each prompt in order, for any language model.

    A model that does not report errors per prompt (see :class:`GeneratesEach`) answers all or none.
    Then every prompt has the same error.
    """
    if isinstance(llm, GeneratesEach):
        return llm.generate_each(prompts, sampling)
    try:
        return list(llm.generate(prompts, sampling))
    except ViperError as error:
        return [error] * len(prompts)


def all_answered(attempts: Iterable[Attempt]) -> list[list[Completion]]:
    """Return the completions of every prompt.

    Raises:
        ViperError: the error of the first prompt that failed.
    """
    answers = []
    for attempt in attempts:
        if isinstance(attempt, ViperError):
            raise attempt
        answers.append(attempt)
    return answers


class WrappedLLM:
    """Passes all calls to the model behind it; a subclass overrides what it changes."""

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
        """Return True if the model can score; a model without this attribute can."""
        return bool(getattr(self._llm, "can_score", True))

    @property
    def sees_pictures(self) -> bool:
        """Return True if the model takes pictures."""
        return sees_pictures(self._llm)

    @property
    def max_pixels(self) -> int | None:
        """Return the number of pixels that pictures are fitted to, or None if they are not."""
        return getattr(self._llm, "max_pixels", None)

    @property
    def concurrent(self) -> bool:
        """Return True if the model serves callers concurrently, as endpoints do."""
        return bool(getattr(self._llm, "concurrent", False))

    @property
    def usage(self) -> LLMUsage | None:
        """Return the model's usage, or None if it does not count."""
        return getattr(self._llm, "usage", None)

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[list[Completion]]:
        """Generate by the model."""
        return self._llm.generate(prompts, sampling)

    def generate_each(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Attempt]:
        """Return the result of each prompt in order; see :func:`generate_each`."""
        return generate_each(self._llm, prompts, sampling)

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Score by the model."""
        return self._llm.score(prompt, continuations)

    def count_tokens(self, text: str) -> int:
        """Count by the model."""
        return self._llm.count_tokens(text)


class DeferredLLM(WrappedLLM):
    """Stands for a language model that is loaded at its first use, and again after it was unloaded.

    Args:
        load: returns the model.
        weights: what the model counts as in a memory budget; None for a budget of its own.
    """

    def __init__(self, load: Callable[[], LLM], weights: Weights | None = None) -> None:
        self._load = load
        self._weights = weights or MemoryBudget().weights()
        self._attributes: dict[str, Any] = {}

    @property
    def loaded(self) -> bool:
        """Return True if the model is in memory."""
        return self in self._weights.backends

    @property
    def _llm(self) -> LLM:
        return self._weights.budget.backend(self._weights, self, self._load)

    def _use(self, work: Callable[[LLM], Result]) -> Result:
        return self._weights.budget.run(self._weights, self, self._load, work)

    def _fixed(self, name: str) -> Any:
        """Return an attribute that the model always has; asked again, it loads nothing."""
        if name not in self._attributes:
            self._attributes[name] = getattr(WrappedLLM(self._llm), name)
        return self._attributes[name]

    @property
    def model_id(self) -> str:
        return str(self._fixed("model_id"))

    @property
    def max_context(self) -> int:
        return int(self._fixed("max_context"))

    @property
    def can_score(self) -> bool:
        return bool(self._fixed("can_score"))

    @property
    def sees_pictures(self) -> bool:
        return bool(self._fixed("sees_pictures"))

    @property
    def concurrent(self) -> bool:
        return bool(self._fixed("concurrent"))

    @property
    def usage(self) -> LLMUsage | None:
        """Return the model's usage, or None if it does not count or is not loaded."""
        return getattr(self._weights.backends.get(self), "usage", None)

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[list[Completion]]:
        """Generate by the model."""
        return self._use(lambda llm: llm.generate(prompts, sampling))

    def generate_each(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Attempt]:
        """Return the result of each prompt in order; see :func:`generate_each`."""
        return self._use(lambda llm: generate_each(llm, prompts, sampling))

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Score by the model."""
        return self._use(lambda llm: llm.score(prompt, continuations))


class GatheredLLM(WrappedLLM):
    """Language model that decodes single prompts together with those of other threads.

    A prompt's answer depends on its batch only as far as the model's own batching does. Every
    shipped backend seeds each prompt by itself. A model that serves callers concurrently (its
    attribute ``concurrent`` is true, as for endpoints) gets every call unchanged. A model without
    the attribute ``sees_pictures`` gets texts instead of conversations.

    Args:
        llm: the model.
        most: maximum number of prompts in one batch.
    """

    def __init__(self, llm: LLM, most: int = BATCH) -> None:
        super().__init__(llm)
        self._gatherer = Gatherer(self._serve, most)

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[list[Completion]]:
        """Generate by the model; prompts of other threads with the same sampling may join.

        Raises:
            ViperError: the error of the first of these prompts that failed.
        """
        prompts = self._readable(prompts)
        if len(prompts) != 1 or self.concurrent:
            return self._llm.generate(prompts, sampling)
        kind = replace(sampling, seed=0) if sampling.temperature <= 0 else sampling
        completions: list[Completion] = self._gatherer.ask(kind, prompts[0])
        return [completions]

    def generate_each(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Attempt]:
        """Return the result of each prompt in order; see :func:`generate_each`."""
        if len(prompts) != 1:
            return super().generate_each(self._readable(prompts), sampling)
        try:
            return list(self.generate(prompts, sampling))
        except ViperError as error:
            return [error]

    def _readable(self, prompts: Sequence[Prompt]) -> Sequence[Prompt]:
        """Return texts for a plug-in that was written before prompts could be conversations."""
        if hasattr(self._llm, "sees_pictures"):
            return prompts
        return [without_roles(prompt) for prompt in prompts]

    def _serve(self, kind: object, prompts: list[Prompt]) -> list[list[Completion]]:
        """Generate once for equal prompts, because equal seeds give equal answers."""
        assert isinstance(kind, Sampling)
        unique = list(dict.fromkeys(prompts))
        answers = dict(zip(unique, self._llm.generate(unique, kind), strict=True))
        return [answers[prompt] for prompt in prompts]
