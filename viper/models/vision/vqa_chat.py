"""Visual question answering and captions by a chat vision-language model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from viper.models.llm.replies import final_answer, first_line
from viper.models.options import check_at_least
from viper.models.vision.vlm import ANSWER_TOKENS, ChatRequest, PicturesOnVLM, VisionLanguageModel

INSTRUCTION = "Answer in a few words, not in a sentence."
EXPLAIN_INSTRUCTION = "Answer in one sentence."
CAPTION_INSTRUCTION = "Describe the picture in one sentence."

# A yes or no that a chat model goes on to explain ("Yes, there is a dog."), but no number or name
# ("No. 5", "no parking").
_YES_OR_NO = re.compile(r"(yes|no)(?:[,;!]\s.*|[.:]\s+[A-Za-z].*)?", re.IGNORECASE)

# Opening and closing mark of each kind; one character if both are the same.
_QUOTES = ('"', "'", "`", "*", "“”", "‘’", "«»")


class ChatAnswerer(PicturesOnVLM):
    """A ``VisualAnswerer`` on any chat vision-language model.

    An encoding is a copy of the pixels that the model gets. These models run their image tower
    inside ``generate``, each family differently, and have no common way to insert its output later.
    Every new question about a picture therefore costs a run of the tower.

    Args:
        vlm: the model; may be shared with the video role.
        instruction: follows every question; "" for the question alone.
        caption_instruction: request for a caption.
        max_tokens: maximum length of a reply; a longer one is an error.
        batch_size: maximum number of questions in one forward pass.
    """

    def __init__(
        self,
        vlm: VisionLanguageModel,
        *,
        instruction: str = INSTRUCTION,
        caption_instruction: str = CAPTION_INSTRUCTION,
        max_tokens: int = ANSWER_TOKENS,
        batch_size: int = 8,
    ) -> None:
        check_at_least(1, max_tokens=max_tokens)
        super().__init__(vlm, batch_size)
        self._instruction, self._max_tokens = instruction, max_tokens
        self._caption_instruction = caption_instruction

    def answer(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[tuple[str, float]]:
        """Return the answer to ``questions[i]`` about ``encodings[i]`` with its probability.

        The answer is cleaned by :func:`tidy`. The probability is that of the model's original
        reply.
        """
        requests = _requests(encodings, questions, self._instruction)
        replies = self._vlm.ask(requests, self._max_tokens)
        return [(tidy(text), probability) for text, probability in replies]

    def explain(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[str]:
        """Return a sentence that answers ``questions[i]`` about ``encodings[i]``."""
        requests = _requests(encodings, questions, EXPLAIN_INSTRUCTION)
        return [first_line(text) for text, _ in self._vlm.ask(requests, self._max_tokens)]

    def caption(self, encodings: Sequence[Any]) -> list[str]:
        """Return a sentence that describes each picture."""
        requests = [ChatRequest([image], self._caption_instruction) for image in encodings]
        return [first_line(text) for text, _ in self._vlm.ask(requests, self._max_tokens)]


def _requests(
    encodings: Sequence[Any], questions: Sequence[str], instruction: str
) -> list[ChatRequest]:
    return [
        ChatRequest([image], f"{question.strip()}\n{instruction}".strip())
        for image, question in zip(encodings, questions, strict=True)
    ]


def tidy(reply: str) -> str:
    """Return the answer that a reply states, otherwise its first line.

    Reasoning, surrounding quotes, marks of emphasis and a final period are removed. ``Yes`` and
    ``No``, also before an explanation, become ``yes`` and ``no``, which programs compare with.
    """
    plain = re.sub(r"\*\*(.+?)\*\*", r"\1", final_answer(reply) or first_line(reply))
    text = _without_quotes(plain)
    if not text.endswith(".."):
        text = text.removesuffix(".").rstrip()
    text = _without_quotes(text)
    short = _YES_OR_NO.fullmatch(text)
    return short[1].lower() if short else text


def _without_quotes(text: str) -> str:
    for quotes in _QUOTES:
        if len(text) > 1 and text[0] == quotes[0] and text[-1] == quotes[-1]:
            return _without_quotes(text[1:-1].strip())
    return text
