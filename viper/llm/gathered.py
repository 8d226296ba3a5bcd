"""Gathers the prompts of many threads into batches for a model that answers one call at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viper.errors import ViperError
from viper.llm.each import Attempt, generate_each
from viper.llm.protocol import LLM, Completion, Sampling
from viper.llm.wrapped import WrappedLLM
from viper.models.batching import Gatherer

BATCH = 16
"""Prompts in one batch, of a model whose attribute ``batch`` names no other number."""


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
        """What became of each prompt, in order; see :func:`viper.llm.each.generate_each`."""
        if len(prompts) != 1:
            return generate_each(self._llm, prompts, sampling)
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
