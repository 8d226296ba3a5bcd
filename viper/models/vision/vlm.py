"""Questions about pictures to language models that take pictures, and the base of roles on them.

A role (:class:`RoleOnVLM`) writes a :class:`ChatRequest` of pictures and an instruction. The model
turns it into a conversation, answers (:meth:`VisionLanguageModel.ask`,
:meth:`VisionLanguageModel.probability_of_yes`) and charges for it. The matcher, whose one question
is answered by yes or no, is here; the other roles have files of their own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from viper.errors import ProfileError, ToolError
from viper.models.llm.messages import Picture, Prompt, user
from viper.models.llm.protocol import LLM, Completion, Sampling, charge, sees_pictures, sending
from viper.models.llm.replies import without_reasoning
from viper.models.vision.roles import Floats, Pixels

# Maximum number of tokens of a written yes or no, enough for "Yes, it does." and a leading space.
YES_OR_NO_TOKENS = 8

# Maximum number of tokens of answers and descriptions. Instructions keep them to a few words or
# sentences; the text of a sign, a label or a page needs hundreds.
ANSWER_TOKENS = 256

# Least probability of yes and no together at the first token. Below it the model began with
# something else, such as a line break, and the odds of the two are noise.
LEAST_YES_OR_NO = 0.1

QUESTION = "Does the picture show this: {text}? Answer yes or no."


class CutReplyError(ToolError):
    """A limit of tokens cut the reply.

    Attributes:
        text: what the model wrote before the limit, without reasoning.
    """

    text = ""


@dataclass(frozen=True)
class ChatRequest:
    """User message: pictures (at least one, in this order), then the instruction."""

    images: Sequence[Pixels]
    instruction: str

    @property
    def prompt(self) -> Prompt:
        """Return the request as a conversation.

        Raises:
            ValueError: a request without a picture.
        """
        if not self.images:
            raise ValueError("a request needs at least one picture")
        return (user(*map(Picture, self.images), self.instruction),)


class VisionLanguageModel:
    """A language model that takes pictures, and the questions of the vision roles to it.

    Attributes:
        concurrent: True if callers are served concurrently, as by endpoints.
        max_pixels: pictures are fitted to this many pixels, see ``Picture.fitted``; None if they
            are sent as they are.
        boxes: how the model writes boxes: ``xy_1000`` or ``yx_1000`` (from 0 to 1000, x or y
            first), ``pixels`` (x first), "" if nothing is known.
    """

    model_id: str
    concurrent = False
    max_pixels: int | None = None
    boxes = ""

    @property
    def memory_bytes(self) -> int:
        """Return the size of the weights in bytes; 0 if they are not loaded here."""
        return 0

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[list[Completion]]:
        """Return the completions of each prompt."""
        raise NotImplementedError

    def in_batches_of(self, size: int) -> Self:
        """Return the same model with batches of at most ``size`` requests, if it has batches."""
        return self

    def ask(self, requests: Sequence[ChatRequest], max_new_tokens: int) -> list[tuple[str, float]]:
        """Return the greedy reply to each request, without reasoning, with probability 1.0.

        Raises:
            CutReplyError: the limit cut a reply.
            ToolError: the model declined to answer.
            ValueError: a request without a picture.
        """
        completions = self._completions(requests, max_new_tokens)
        return [(self.whole_text(each), 1.0) for each in completions]

    def whole_text(self, completion: Completion) -> str:
        """Return the text of a reply without reasoning.

        Raises:
            CutReplyError: the limit cut the reply. Half an answer looks like an answer.
        """
        text = without_reasoning(completion.text).strip()
        if completion.finish_reason != "length":
            return text
        error = CutReplyError(
            f"{self.model_id} reached its limit after {completion.completion_tokens} tokens, and "
            f"its reply is cut: {' '.join(text.split())[:60]!r}; raise max_tokens of the role's "
            "options, or thinking_tokens of the model's if it reasons"
        )
        error.text = text
        raise error

    def probability_of_yes(self, requests: Sequence[ChatRequest]) -> list[float]:
        """Return for each yes-or-no request the probability of yes, among yes and no.

        It is read from the first token's alternatives if the server reports them, which a profile
        asks for by ``extra = {logprobs = true, top_logprobs = 20}``, and if they hold yes and no
        with :data:`LEAST_YES_OR_NO`. Otherwise the written answer counts as 1.0 or 0.0.

        Raises:
            ToolError: the model declined to answer, or wrote neither yes nor no.
            ValueError: a request without a picture.
        """
        return [self._yes_in(reply) for reply in self._completions(requests, YES_OR_NO_TOKENS)]

    def _completions(self, requests: Sequence[ChatRequest], max_tokens: int) -> list[Completion]:
        prompts = [request.prompt for request in requests]
        with sending(len(prompts)):
            samples = self.generate(prompts, Sampling(max_tokens=max_tokens))
            completions = [sample for (sample,) in samples]
            charge(completions)
        for completion in completions:
            if completion.finish_reason == "refusal":
                words = completion.text.strip()[:60] or "without a word"
                raise ToolError(f"{self.model_id} declined to answer: {words}")
        return completions

    def _yes_in(self, completion: Completion) -> float:
        chances = {"yes": 0.0, "no": 0.0}
        for token, value in (completion.first_logprobs or {}).items():
            if (word := token.strip().lower()) in chances:
                chances[word] += math.exp(value)
        if (total := sum(chances.values())) >= LEAST_YES_OR_NO:
            return chances["yes"] / total
        text = without_reasoning(completion.text).strip()
        words = re.findall(r"[a-z]+", text.lower())
        matches = chances.keys() & words[:1]
        if completion.finish_reason != "length":  # a cut sentence may still turn
            matches = matches or chances.keys() & words
        if len(matches) != 1:
            raise ToolError(
                f"{self.model_id} was asked for yes or no and wrote {text[:60]!r}",
                advice="raise thinking_tokens if it reasons, or give the role to another model",
            )
        return float(matches == {"yes"})


class EndpointVLM(VisionLanguageModel):
    """Any language model that takes pictures, such as one behind an endpoint; thread-safe.

    Callers are not queued, because every language model is safe to use from threads.

    Args:
        llm: the language model; it may also write the programs.

    Raises:
        ProfileError: the model takes no pictures.
    """

    concurrent = True

    def __init__(self, llm: LLM) -> None:
        if not sees_pictures(llm):
            raise ProfileError(
                f"{llm.model_id} takes no pictures, so it cannot answer about them; "
                "name a vision-language model"
            )
        self.model_id = llm.model_id
        self.max_pixels = getattr(llm, "max_pixels", None)
        self.boxes = getattr(getattr(llm, "capabilities", None), "boxes", "")
        self._llm = llm

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[list[Completion]]:
        """Generate by the language model."""
        return self._llm.generate(prompts, sampling)


def as_shown(max_pixels: int | None, image: Pixels) -> Pixels:
    """Return a copy of a picture as a model gets it that fits pictures to ``max_pixels``."""
    return np.array(image if max_pixels is None else Picture(image).fitted(max_pixels))


class RoleOnVLM:
    """Base of the backends of vision roles that ask a vision-language model.

    Attributes:
        asks_language_model: the budget of a query bounds its requests.
    """

    asks_language_model = True

    def __init__(self, vlm: VisionLanguageModel, batch_size: int) -> None:
        self.model_id, self.concurrent = vlm.model_id, vlm.concurrent
        self._vlm = vlm.in_batches_of(batch_size)

    @property
    def memory_bytes(self) -> int:
        """Return the size in bytes of the model's parameters and buffers."""
        return self._vlm.memory_bytes


class PicturesOnVLM(RoleOnVLM):
    """Base of roles whose encoding of a picture is a copy of what the model gets."""

    def encode(self, images: Sequence[Pixels]) -> list[Any]:
        """Return each image as the model gets it."""
        return [self.prepare(image) for image in images]

    @property
    def prepare(self) -> Callable[[Pixels], Any]:
        """See :class:`~viper.models.vision.roles.PreparesPictures`."""
        return partial(as_shown, self._vlm.max_pixels)

    def encode_prepared(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the prepared pictures."""
        return list(inputs)


class VlmMatcher(RoleOnVLM):
    """A ``LikelihoodMatcher`` on any chat vision-language model.

    Args:
        vlm: the model; may be shared with other roles.
        question: asked about each pair; ``{text}`` stands for the text.
        batch_size: maximum number of pairs in one forward pass.
    """

    by_likelihood = True
    logit_scale = 1.0

    def __init__(
        self, vlm: VisionLanguageModel, *, question: str = QUESTION, batch_size: int = 8
    ) -> None:
        super().__init__(vlm, batch_size)
        self._question = question

    def likelihood(self, images: Sequence[Pixels], texts: Sequence[str]) -> Floats:
        """Return the probability ``[N, M]`` that each text describes each picture.

        Raises:
            ToolError: the model answered neither yes nor no.
        """
        shown = (as_shown(self._vlm.max_pixels, image) for image in images)  # once for all texts
        requests = [
            ChatRequest([image], self._question.replace("{text}", text.strip().rstrip(".")))
            for image in shown
            for text in texts
        ]
        chances = self._vlm.probability_of_yes(requests)
        return np.array(chances, np.float32).reshape(len(images), len(texts))

    def encode_images(self, images: Sequence[Any]) -> Floats:
        """Raise ToolError, because the model has no embeddings."""
        raise ToolError(
            f"{self.model_id} matches pictures and texts by yes or no and has no embeddings; "
            "indexes of pictures and learned concepts need a matcher such as open_clip"
        )

    encode_texts = encode_images
