"""A language model with scripted answers, for tests and offline demonstrations."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from viper.errors import ScriptExhaustedError
from viper.models.llm.messages import Conversation, Prompt, as_text, messages_of
from viper.models.llm.protocol import Completion, Sampling, check_no_pictures

# Prompt as text to answer; None if the script has no answer for the prompt.
Matcher = Callable[[str], str | None]


@dataclass(frozen=True)
class RecordedCall:
    """Request as the model saw it. ``kind`` is ``generate`` or ``score``.

    Attributes:
        prompt: as text, see :func:`viper.models.llm.messages.as_text`.
        messages: the conversation, with its pictures.
    """

    kind: str
    prompt: str
    sampling: Sampling | None = None
    continuations: tuple[str, ...] = ()
    messages: Conversation = ()


class ScriptedLLM:
    """Answers in order, or by a function of the prompt, and records every call.

    Args:
        script: the answers, used up one by one (``sampling.n`` of them a prompt), or a
            function from prompt to answer, which never runs out unless it returns None.
        scores: text fragment to score; ``score`` gives a continuation the value of the
            longest fragment it contains, else minus its length.
        model_id: the name recorded in traces.
        max_context: reported limit, in whitespace-separated words.
        sees_pictures: True if prompts may hold pictures.

    Attributes:
        calls: every request so far, oldest first.
    """

    def __init__(
        self,
        script: Iterable[str] | Matcher = (),
        *,
        scores: Mapping[str, float] | None = None,
        model_id: str = "scripted",
        max_context: int = 1_000_000,
        sees_pictures: bool = False,
    ) -> None:
        self.sees_pictures = sees_pictures
        self.model_id = model_id
        self.max_context = max_context
        self.calls: list[RecordedCall] = []
        self._matcher: Matcher | None = script if callable(script) else None
        self._answers: list[str] = [] if callable(script) else list(script)
        self._used = 0
        self._scores = dict(scores or {})
        self._lock = threading.Lock()

    @property
    def remaining(self) -> int:
        """Return the number of unused answers of an ordered script; 0 for a matching function."""
        return len(self._answers) - self._used

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[list[Completion]]:
        """Return the next answers of the script, cut at the stop strings.

        Raises:
            ScriptExhaustedError: the script holds no further answer for a prompt.
            UsageError: pictures for a model that takes none.
        """
        with self._lock:
            results = []
            for prompt in prompts:
                if not self.sees_pictures:
                    check_no_pictures(prompt, self.model_id)
                text, count = as_text(prompt), self.count_tokens
                call = RecordedCall("generate", text, sampling, messages=messages_of(prompt))
                self.calls.append(call)
                answers = [self._next_answer(text) for _ in range(sampling.n)]
                cut = [cut_at_stop(answer, sampling.stop) for answer in answers]
                results.append([Completion(each, count(text), count(each)) for each in cut])
            return results

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Return the scripted score of each continuation (see ``scores``)."""
        with self._lock:
            self.calls.append(RecordedCall("score", prompt, None, tuple(continuations)))
        scores = []
        for text in continuations:
            hits = [fragment for fragment in self._scores if fragment in text]
            scores.append(self._scores[max(hits, key=len)] if hits else -float(len(text)))
        return scores

    def count_tokens(self, text: str) -> int:
        """Return the number of whitespace-separated words."""
        return len(text.split())

    def _next_answer(self, prompt: str) -> str:
        if self._matcher is not None:
            answer = self._matcher(prompt)
            if answer is None:
                raise ScriptExhaustedError(
                    f"the script has no answer for the prompt ending in {prompt[-80:]!r}"
                )
            return answer
        if self._used >= len(self._answers):
            raise ScriptExhaustedError(
                f"the script holds {len(self._answers)} answers and was asked for one more; "
                f"prompt ending in {prompt[-80:]!r}"
            )
        self._used += 1
        return self._answers[self._used - 1]


def cut_at_stop(text: str, stop: Sequence[str]) -> str:
    """Return the text before the first occurrence of any stop string."""
    ends = [text.find(mark) for mark in stop if mark and mark in text]
    return text[: min(ends)] if ends else text
