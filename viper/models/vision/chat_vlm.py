"""Chat vision-language models of ``transformers``: pictures and an instruction in, text out.

Every model works that ``AutoModelForImageTextToText`` and ``AutoProcessor`` load and whose
processor has a chat template: LLaVA, Qwen2-VL and 2.5-VL, Idefics3, SmolVLM, Gemma 3, …
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from viper.errors import ModelError
from viper.models.loading import (
    LoadOptions,
    LocalModel,
    in_batches,
    load_pretrained,
    load_processor,
    model_id,
)
from viper.models.vision.roles import Pixels

YES, NO = ("yes", "Yes", " yes", " Yes"), ("no", "No", " no", " No")
"""Spellings at the beginning of an answer; a leading space is part of some tokens."""


@dataclass(frozen=True)
class ChatRequest:
    """User message: pictures (at least one, in this order), then the instruction."""

    images: Sequence[Pixels]
    instruction: str


class ChatVLM(LocalModel):
    """Greedy answers of one chat model, with their probabilities.

    If :attr:`batches` is True, requests are read together, padded on the left. Otherwise they are
    read one at a time.

    Attributes:
        model_id: identifies the model in traces and cache keys.
        batches: True if the tokenizer has a padding token and the processor marks the padding
            (``attention_mask`` among its input names).
    """

    def __init__(self, model: Any, processor: Any, name: str, *, batch_size: int = 8) -> None:
        self.model_id = name
        self._model = model.eval()
        self._processor = processor
        self._tokenizer = processor.tokenizer
        self._batch_size = batch_size
        added = self._tokenizer.added_tokens_decoder.values()
        self._marks = [token.content for token in added if token.special and token.content]
        self.batches: bool = (
            self._tokenizer.pad_token_id is not None
            and "attention_mask" in processor.model_input_names
        )

    @classmethod
    def from_pretrained(cls, source: str | Path, *, batch_size: int = 8, **loading: Any) -> ChatVLM:
        """Load a folder or a published checkpoint.

        Args:
            source: a folder or a hub id.
            batch_size: maximum number of requests in one forward pass; each may hold several
                pictures.

        Raises:
            ModelError: nothing loadable there, or a model that takes no pictures or no messages.
        """
        from transformers import AutoModelForImageTextToText, AutoProcessor

        options = LoadOptions(**loading)
        processor = load_processor(AutoProcessor, source, options)
        _check_processor(processor, source)
        model = load_pretrained(AutoModelForImageTextToText, source, options)
        return cls(model, processor, model_id(source), batch_size=batch_size)

    def in_batches_of(self, size: int) -> Self:
        """Return the same model in memory with batches of at most ``size`` requests."""
        copied = copy.copy(self)
        copied._batch_size = size
        return copied

    def ask(self, requests: Sequence[ChatRequest], max_new_tokens: int) -> list[tuple[str, float]]:
        """Return the reply to each request and the probability of exactly that reply.

        The probability is the product over its tokens, the end token included. A reply cut at
        ``max_new_tokens`` (at least 1) has no end token.

        Raises:
            ValueError: a request without a picture.
        """

        def forward(batch: Sequence[ChatRequest]) -> list[tuple[str, float]]:
            tokens, log_probabilities = self._generate(batch, max_new_tokens)
            texts = self._tokenizer.batch_decode(tokens, skip_special_tokens=True)
            chances = reply_probabilities(tokens, log_probabilities, self._end_ids())
            return [(text.strip(), chance) for text, chance in zip(texts, chances, strict=True)]

        return in_batches(requests, self._rows_at_once, forward)

    def probability_of_yes(self, requests: Sequence[ChatRequest]) -> list[float]:
        """Return for each yes-or-no request the probability that the reply begins with yes.

        The first token alone decides, and only yes and no share the probability.

        Raises:
            ModelError: the tokenizer has no token for yes or for no.
            ValueError: a request without a picture.
        """
        yes, no = self._answer_tokens()

        def forward(batch: Sequence[ChatRequest]) -> list[float]:
            first = self._generate(batch, 1)[1][:, 0]
            odds = first[:, yes].logsumexp(dim=-1) - first[:, no].logsumexp(dim=-1)
            return [float(chance) for chance in odds.sigmoid()]

        return in_batches(requests, self._rows_at_once, forward)

    @property
    def _rows_at_once(self) -> int:
        return self._batch_size if self.batches else 1

    def _generate(self, batch: Sequence[ChatRequest], max_new_tokens: int) -> tuple[Any, Any]:
        """Return new tokens ``[N, L]`` and log-probabilities ``[N, L, vocabulary]`` at each."""
        import torch

        with torch.inference_mode():
            output = self._model.generate(
                **self._fitted(self._inputs(batch)),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                num_beams=1,
                # Published configurations set these for sampling; unset, they raise no warning.
                temperature=None,
                top_p=None,
                top_k=None,
                pad_token_id=self._padding_id(),
                output_logits=True,
                return_dict_in_generate=True,
            )
            logits = torch.stack(output.logits, dim=1).float()
            return output.sequences[:, -logits.shape[1] :], logits.log_softmax(dim=-1)

    def _inputs(self, batch: Sequence[ChatRequest]) -> Any:
        from PIL import Image

        if any(not request.images for request in batch):
            raise ValueError("a request needs at least one picture")
        prompts = [self._prompt(request) for request in batch]
        begin = self._tokenizer.bos_token
        padding = {"padding": True, "padding_side": "left"} if len(batch) > 1 else {}
        # PIL pictures, because a processor must guess the colour axis of an array.
        return self._processor(
            text=prompts,
            images=[[Image.fromarray(image) for image in request.images] for request in batch],
            return_tensors="pt",
            add_special_tokens=not (begin and prompts[0].startswith(begin)),
            **padding,
        )

    def _prompt(self, request: ChatRequest) -> str:
        """Return the message in the model's format; the question cannot forge its special
        tokens.
        """
        instruction = request.instruction
        for mark in self._marks:
            instruction = instruction.replace(mark, " ")
        content: list[dict[str, str]] = [{"type": "image"} for _ in request.images]
        message = {"role": "user", "content": [*content, {"type": "text", "text": instruction}]}
        return str(self._processor.apply_chat_template([message], add_generation_prompt=True))

    def _end_ids(self) -> list[int]:
        ends = self._model.generation_config.eos_token_id
        return [] if ends is None else [ends] if isinstance(ends, int) else list(ends)

    def _padding_id(self) -> int | None:
        padding: int | None = self._tokenizer.pad_token_id
        return padding if padding is not None else next(iter(self._end_ids()), None)

    def _answer_tokens(self) -> tuple[list[int], list[int]]:
        """Return the first tokens of the spellings of yes and of no, without those of both."""
        yes, no = self._first_tokens(YES), self._first_tokens(NO)
        if not yes - no or not no - yes:
            raise ModelError(
                f"{self.model_id}: its tokenizer has no tokens that tell yes from no; "
                "use another model where events are located"
            )
        return sorted(yes - no), sorted(no - yes)

    def _first_tokens(self, words: Sequence[str]) -> set[int]:
        tokens = [self._tokenizer(word, add_special_tokens=False)["input_ids"] for word in words]
        return {ids[0] for ids in tokens if ids} - {self._tokenizer.unk_token_id}


def reply_probabilities(tokens: Any, log_probabilities: Any, end_ids: Sequence[int]) -> list[float]:
    """Return the probability of each row of tokens, up to its first end token.

    Args:
        tokens: int64 [B, T].
        log_probabilities: float [B, T, vocabulary] at each.
        end_ids: tokens that end a text.
    """
    import torch

    tokens = tokens.to(log_probabilities.device)
    ends = torch.isin(tokens, torch.tensor(end_ids, device=tokens.device))
    after_end = ends.cumsum(dim=1) - ends.long() > 0
    chosen = log_probabilities.gather(2, tokens[:, :, None])[:, :, 0]
    return [float(p) for p in chosen.masked_fill(after_end, 0.0).sum(dim=1).exp()]


def _check_processor(processor: Any, source: str | Path) -> None:
    if getattr(processor, "image_processor", None) is None:
        raise ModelError(
            f"{source} has a {type(processor).__name__}, which reads no pictures; "
            "give a checkpoint with an image processor, such as an instruct vision-language model"
        )
    if not getattr(processor, "chat_template", None):
        raise ModelError(
            f"{source}: its processor has no chat template, so it takes no messages; "
            "give an instruct checkpoint, or add a chat_template.jinja to its folder"
        )
