"""Cache of a language model's answers in a store of responses.

The key holds everything that changes the output: model id, options that it does not name, prompt
and all sampling settings (for ``score``: prompt and continuations). Failures are never stored.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from viper.errors import ViperError
from viper.models.llm.messages import Prompt, as_key
from viper.models.llm.protocol import LLM, Completion, Sampling
from viper.models.llm.wrapped import Attempt, WrappedLLM, all_answered
from viper.storage.responses import MemoryStore, ResponseStore

KEY_VERSION = 1

# Options of models that change replies and are not in every model id.
REPLY_OPTIONS = ("chat_template_kwargs", "detail", "max_side", "template", "thinking_tokens")


class CachedLLM(WrappedLLM):
    """LLM that looks up answers before it asks the model.

    Args:
        options: those of the model's backend; :data:`REPLY_OPTIONS` among them enter the key.

    Attributes:
        hits: number of prompts answered from the store.
        misses: number of prompts sent to the model.
    """

    def __init__(
        self,
        llm: LLM,
        store: ResponseStore | None = None,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(llm)
        self._options = {name: options[name] for name in REPLY_OPTIONS if name in options}
        self._store: ResponseStore = store if store is not None else MemoryStore()
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
        """Return the result of each prompt in order; see ``wrapped.generate_each``."""
        settings = _sampling_key(sampling)
        keys = [self._key("generate", as_key(prompt), settings) for prompt in prompts]
        responses = {key: stored for key in keys if (stored := self._store.get(key)) is not None}
        missing = dict(zip(keys, prompts, strict=True))
        missing = {key: prompt for key, prompt in missing.items() if key not in responses}
        attempts_now = super().generate_each(list(missing.values()), sampling) if missing else []
        fresh = dict(zip(missing, attempts_now, strict=True))
        for key, attempt in fresh.items():
            if not isinstance(attempt, ViperError):
                responses[key] = _to_store(attempt)
                self._store.put(key, responses[key])
        self._count(len(keys) - len(missing), len(missing))
        attempts: list[Attempt] = []
        for key in keys:
            if key in fresh:
                attempts.append(fresh[key])
            else:
                stored = json.loads(responses[key])
                attempts.append([Completion(**r, cost_usd=self._hit_cost_usd) for r in stored])
            if key in responses:
                # Only the first of equal prompts was charged; the next one is a hit.
                fresh.pop(key, None)
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

    @property
    def _hit_cost_usd(self) -> float | None:
        usage = self.usage
        return None if usage is None or usage.cost_usd is None else 0.0

    def _count(self, hits: int, misses: int) -> None:
        with self._lock:
            self.hits += hits
            self.misses += misses

    def _key(self, kind: str, prompt: Any, settings: Any) -> str:
        parts = [KEY_VERSION, kind, self.model_id, prompt, settings]
        if self._options:
            parts.append(self._options)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _to_store(completions: Sequence[Completion]) -> str:
    """Return the completions as text, without costs, which belong to the request."""
    entries = [asdict(completion) for completion in completions]
    for entry in entries:
        del entry["cost_usd"]
    return json.dumps(entries)


def _sampling_key(sampling: Sampling) -> dict[str, Any]:
    """Return the settings that change the output; a greedy answer does not depend on the seed."""
    settings = asdict(sampling)
    if sampling.temperature == 0:
        settings.pop("seed")
    return settings
