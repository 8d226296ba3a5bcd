"""Questions about pictures to any language model that takes pictures, such as an endpoint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from viper.errors import ProfileError, ToolError
from viper.models.llm.charging import charge
from viper.models.llm.protocol import LLM, Completion, Sampling, sees_pictures
from viper.models.vision.chat_vlm import YES_OR_NO_TOKENS, ChatRequest, written_yes
from viper.prompting.replies import without_reasoning


class EndpointVLM:
    """A ``VisionLanguageModel`` on any language model that takes pictures; thread-safe.

    Args:
        llm: the language model; it may also write the programs.

    Raises:
        ProfileError: the model takes no pictures.
    """

    concurrent = True
    """Callers are not queued, because every language model is safe to use from threads."""

    memory_bytes = 0

    def __init__(self, llm: LLM) -> None:
        if not sees_pictures(llm):
            raise ProfileError(
                f"{llm.model_id} takes no pictures, so it cannot answer about them; "
                "name a vision-language model"
            )
        self._llm = llm
        self.model_id = llm.model_id

    def in_batches_of(self, size: int) -> Self:
        """Return the model itself; how many requests it takes at once is its own affair."""
        return self

    def ask(self, requests: Sequence[ChatRequest], max_new_tokens: int) -> list[tuple[str, float]]:
        """Return the greedy reply to each request, without reasoning, with probability 1.0.

        Raises:
            ToolError: the model declined to answer.
        """
        completions = self._completions(requests, max_new_tokens)
        return [(without_reasoning(each.text).strip(), 1.0) for each in completions]

    def probability_of_yes(self, requests: Sequence[ChatRequest]) -> list[float]:
        """Return for each yes-or-no request the probability of yes, among yes and no.

        It is read from the first token's alternatives if the server reports them, which a profile
        asks for by ``extra = {logprobs = true, top_logprobs = 20}``. Otherwise the written answer
        counts as 1.0 or 0.0.

        Raises:
            ToolError: the model declined to answer, or wrote neither yes nor no.
        """
        completions = self._completions(requests, YES_OR_NO_TOKENS)
        return [self._yes_among(completion) for completion in completions]

    def _completions(self, requests: Sequence[ChatRequest], max_tokens: int) -> list[Completion]:
        prompts = [request.prompt for request in requests]
        samples = self._llm.generate(prompts, Sampling(max_tokens=max_tokens))
        completions = [first for first, *_ in samples]
        charge(completions)
        for completion in completions:
            if completion.finish_reason == "refusal":
                words = completion.text.strip()[:60] or "without a word"
                raise ToolError(f"{self.model_id} declined to answer: {words}")
        return completions

    def _yes_among(self, completion: Completion) -> float:
        chances = {"yes": 0.0, "no": 0.0}
        for token, value in (completion.first_logprobs or {}).items():
            word = token.strip().lower()
            if word in chances:
                chances[word] += math.exp(value)
        total = sum(chances.values())
        if total > 0:
            return chances["yes"] / total
        return written_yes(self.model_id, without_reasoning(completion.text))
