"""Wrappers of language models: one loads late, one gathers the prompts of threads, one caches.

A profile's model is a :class:`DeferredLLM`. Its first use loads the backend, with a
:class:`GatheredLLM` around it that joins the prompts of threads, and a :class:`CachedLLM` around
that one if the profile wants a cache. All pass prompts to the model behind them
(:class:`WrappedLLM`). A prompt that fails does not lose the answers to other prompts.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, runtime_checkable

from viper.errors import ViperError
from viper.models.batching import Gatherer
from viper.models.llm.capabilities import Capabilities
from viper.models.llm.endpoint import LLMUsage
from viper.models.llm.messages import Prompt, as_key, without_roles
from viper.models.llm.protocol import LLM, Completion, Payer, Sampling, charging, payers
from viper.models.memory import MemoryBudget, Weights
from viper.storage.sqlite import SqliteStore

Result = TypeVar("Result")

# Result of one prompt: its completions, or the error.
Attempt = list[Completion] | ViperError

# Prompts in one batch, unless the model's attribute ``batch`` states another number. Each takes
# memory for its keys and values, which nothing else bounds.
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


def _optional(name: str, default: Any) -> Any:
    """Return a property that passes on an attribute which the model behind may lack."""
    return property(lambda wrapper: getattr(wrapper._llm, name, default))


class WrappedLLM:
    """Passes all calls to the model behind it; a subclass overrides what it changes.

    Attributes:
        can_score: whether :meth:`score` works.
        sees_pictures: whether prompts may hold pictures.
        max_pixels: number of pixels that pictures are fitted to, or None if they are not.
        concurrent: whether the model serves callers concurrently, as endpoints do.
        usage: the model's :class:`~viper.models.llm.endpoint.LLMUsage`, or None if it counts none.
        capabilities: what its endpoint takes; the default ones for a model in this process.
    """

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

    can_score = _optional("can_score", True)
    sees_pictures = _optional("sees_pictures", False)
    max_pixels = _optional("max_pixels", None)
    concurrent = _optional("concurrent", False)
    usage = _optional("usage", None)
    capabilities = _optional("capabilities", Capabilities())

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


def _remembered(name: str) -> Any:
    """Return a property that loads the model at its first read only, even if it is unloaded."""

    def read(wrapper: DeferredLLM) -> Any:
        if name not in wrapper._attributes:
            wrapper._attributes[name] = getattr(WrappedLLM(wrapper._llm), name)
        return wrapper._attributes[name]

    return property(read)


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

    model_id = _remembered("model_id")
    max_context = _remembered("max_context")
    can_score = _remembered("can_score")
    sees_pictures = _remembered("sees_pictures")
    concurrent = _remembered("concurrent")

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
        completions: list[Completion] = self._gatherer.ask(kind, (prompts[0], payers()))
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

    def _serve(
        self, kind: object, items: list[tuple[Prompt, tuple[Payer, ...]]]
    ) -> list[list[Completion]]:
        """Generate once for equal prompts, because equal seeds give equal answers.

        The model may stop once all queries behind the batch have ended.
        """
        assert isinstance(kind, Sampling)
        unique = list(dict.fromkeys(prompt for prompt, _ in items))
        with charging([each for _, behind in items for each in behind]):
            answers = dict(zip(unique, self._llm.generate(unique, kind), strict=True))
        return [answers[prompt] for prompt, _ in items]


# Part of every key; another number would ask and pay for everything again.
KEY_VERSION = 1

# Options of models that change replies and are not in every model id.
REPLY_OPTIONS = ("chat_template_kwargs", "detail", "max_side", "template", "thinking_tokens")


class CachedLLM(WrappedLLM):
    """LLM that looks up answers before it asks the model.

    The key holds everything that changes the output: model id, options that it does not name,
    prompt and all sampling settings (for ``score``: prompt and continuations). Failures are never
    stored.

    Args:
        options: those of the model's backend; :data:`REPLY_OPTIONS` among them enter the key.

    Attributes:
        hits: number of prompts answered from the store.
        misses: number of prompts sent to the model.
    """

    def __init__(
        self,
        llm: LLM,
        store: SqliteStore | None = None,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(llm)
        self._options = {name: options[name] for name in REPLY_OPTIONS if name in options}
        self._store = store or SqliteStore()
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[list[Completion]]:
        """Answer like the wrapped model; only new prompts are sent to it.

        Raises:
            ViperError: the error of the wrapped model for the first prompt that failed. Answers to
                the others are stored if the model reports errors per prompt.
        """
        return all_answered(self.generate_each(prompts, sampling))

    def generate_each(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Attempt]:
        """Return the result of each prompt in order; see :func:`generate_each`."""
        settings = asdict(sampling)
        if sampling.temperature == 0:  # a greedy answer does not depend on the seed
            settings.pop("seed")
        keys = [self._key("generate", as_key(prompt), settings) for prompt in prompts]
        responses = {key: stored for key in keys if (stored := self._store.get(key)) is not None}
        pairs = zip(keys, prompts, strict=True)
        missing = {key: prompt for key, prompt in pairs if key not in responses}
        attempts_now = super().generate_each(list(missing.values()), sampling) if missing else []
        fresh = dict(zip(missing, attempts_now, strict=True))
        for key, attempt in fresh.items():
            if not isinstance(attempt, ViperError):
                entries = [asdict(completion) for completion in attempt]
                for entry in entries:
                    del entry["cost_usd"]  # the cost belongs to this request
                responses[key] = json.dumps(entries)
                self._store.put(key, responses[key])
        self._count(len(keys) - len(missing), len(missing))
        usage = self.usage
        hit_cost_usd = None if usage is None or usage.cost_usd is None else 0.0
        attempts: list[Attempt] = []
        for key in keys:
            if key in fresh:
                # Only the first of equal prompts was charged; the next one is a hit.
                attempts.append(fresh.pop(key) if key in responses else fresh[key])
            else:
                stored = json.loads(responses[key])
                attempts.append([Completion(**r, cost_usd=hit_cost_usd) for r in stored])
        return attempts

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Score like the wrapped model."""
        key = self._key("score", prompt, list(continuations))
        stored = self._store.get(key)
        self._count(int(stored is not None), int(stored is None))
        if stored is None:
            stored = json.dumps(self._llm.score(prompt, continuations))
            self._store.put(key, stored)
        return [float(value) for value in json.loads(stored)]

    def _count(self, hits: int, misses: int) -> None:
        with self._lock:
            self.hits += hits
            self.misses += misses

    def _key(self, kind: str, prompt: Any, settings: Any) -> str:
        parts = [KEY_VERSION, kind, self.model_id, prompt, settings]
        if self._options:
            parts.append(self._options)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
