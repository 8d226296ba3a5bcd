"""Visual question answering and captions by a chat vision-language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from viper.models.llm.replies import final_answer, first_line
from viper.models.vision.roles import Pixels
from viper.models.vision.vlm import ChatRequest, RoleOnVLM, VisionLanguageModel, as_shown

INSTRUCTION = "Answer in a few words, not in a sentence."
EXPLAIN_INSTRUCTION = "Answer in one sentence."
CAPTION_INSTRUCTION = "Describe the picture in one sentence."

# Chat models wrap a short answer in a few more words than BLIP, and their vocabularies split rare
# words further.
ANSWER_TOKENS = 24
CAPTION_TOKENS = 64

# Opening and closing mark of each kind; one character if both are the same.
_QUOTES = ('"', "'", "`", "“”", "‘’", "«»")


class ChatAnswerer(RoleOnVLM):
    """A ``VisualAnswerer`` on any chat vision-language model.

    An encoding is a copy of the pixels that the model gets. These models run their image tower
    inside ``generate``, each family differently, and have no common way to insert its output later.
    Every new question about a picture therefore costs a run of the tower.

    Args:
        vlm: the model; may be shared with the video role.
        instruction: follows every question; "" for the question alone.
        caption_instruction: request for a caption.
        batch_size: maximum number of questions in one forward pass.
    """

    def __init__(
        self,
        vlm: VisionLanguageModel,
        *,
        instruction: str = INSTRUCTION,
        caption_instruction: str = CAPTION_INSTRUCTION,
        batch_size: int = 8,
    ) -> None:
        super().__init__(vlm, batch_size)
        self._instruction = instruction
        self._caption_instruction = caption_instruction

    def encode(self, images: Sequence[Pixels]) -> list[Any]:
        """Return each image as the model gets it, ``uint8 [H, W, 3]``."""
        return [self.prepare(image) for image in images]

    @property
    def prepare(self) -> Callable[[Pixels], Pixels]:
        """See :class:`~viper.models.vision.roles.PreparesPictures`."""
        return partial(as_shown, self._vlm.max_pixels)

    def encode_prepared(self, inputs: Sequence[Pixels]) -> list[Any]:
        """Return the prepared pictures."""
        return list(inputs)

    def answer(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[tuple[str, float]]:
        """Return the answer to ``questions[i]`` about ``encodings[i]`` with its probability.

        The answer is cleaned by :func:`tidy`. The probability is that of the model's original
        reply.
        """
        replies = self._vlm.ask(_requests(encodings, questions, self._instruction), ANSWER_TOKENS)
        return [(tidy(text), probability) for text, probability in replies]

    def explain(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[str]:
        """Return a sentence that answers ``questions[i]`` about ``encodings[i]``."""
        requests = _requests(encodings, questions, EXPLAIN_INSTRUCTION)
        return [first_line(text) for text, _ in self._vlm.ask(requests, CAPTION_TOKENS)]

    def caption(self, encodings: Sequence[Any]) -> list[str]:
        """Return a sentence that describes each picture."""
        requests = [ChatRequest([image], self._caption_instruction) for image in encodings]
        return [first_line(text) for text, _ in self._vlm.ask(requests, CAPTION_TOKENS)]


def _requests(
    encodings: Sequence[Any], questions: Sequence[str], instruction: str
) -> list[ChatRequest]:
    return [
        ChatRequest([image], f"{question.strip()}\n{instruction}".strip())
        for image, question in zip(encodings, questions, strict=True)
    ]


def tidy(reply: str) -> str:
    """Return the answer that a reply states, otherwise its first line.

    Reasoning, surrounding quotes and a final period are removed.
    ``Yes`` and ``No`` become lower case, because programs compare an answer with ``"yes"``.
    """
    text = _without_quotes(final_answer(reply) or first_line(reply))
    if not text.endswith(".."):
        text = text.removesuffix(".").rstrip()
    text = _without_quotes(text)
    return text.lower() if text.lower() in ("yes", "no") else text


def _without_quotes(text: str) -> str:
    for quotes in _QUOTES:
        if len(text) > 1 and text[0] == quotes[0] and text[-1] == quotes[-1]:
            return text[1:-1].strip()
    return text
