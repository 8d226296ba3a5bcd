"""Chat vision-language models of ``transformers``: pictures and texts in, text out.

``generate`` renders conversations by the chat template, reads them in batches that hold pictures or
none, decodes by the library, and cuts texts at stop strings. Questions of the vision roles
(``ask``, ``probability_of_yes``) also read the probabilities of the first or of all new tokens.

Every model works that ``AutoModelForImageTextToText`` and ``AutoProcessor`` load and whose
processor has a chat template: LLaVA, Qwen2-VL and later, Idefics3, SmolVLM, Gemma 3, …
"""

from __future__ import annotations

import copy
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from viper.errors import ModelError, PromptTooLongError
from viper.models.hub import local_copy
from viper.models.libraries import torch, transformers
from viper.models.llm.messages import MAX_PIXELS, Prompt, pictures_of
from viper.models.llm.prompt_tokens import ChatTemplate, Echo, shared_beginning, tail_scores
from viper.models.llm.protocol import Completion, Sampling, charge, sending
from viper.models.llm.scripted import cut_at_stop
from viper.models.loading import (
    LocalModel,
    in_batches,
    in_equal_groups,
    load_pretrained,
    load_processor,
    model_id,
    split_options,
)
from viper.models.options import check_at_least
from viper.models.vision.vlm import ChatRequest, VisionLanguageModel

# Number of last tokens that are searched for a stop string, which has fewer. The whole reply would
# be decoded again after each token.
STOP_WINDOW = 24

# Replies that may be longer get no probability, because that takes memory for every token: with a
# vocabulary of 150,000, these take 150 MB.
MAX_JUDGED_TOKENS = 256

# What a checkpoint may configure of ``generate``: where texts end and which tokens are no text.
TOKEN_SETTINGS = (
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "decoder_start_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
    "bad_words_ids",
)

# Spellings at the beginning of an answer; a leading space is part of some tokens.
YES, NO = ("yes", "Yes", " yes", " Yes"), ("no", "No", " no", " No")


class ChatVLM(LocalModel, VisionLanguageModel):
    """A chat model with eyes: a language model, and answers about pictures; thread-safe.

    If :attr:`batches` is True, requests are read together, padded on the left. Otherwise they are
    read one at a time.

    Args:
        batch_size: maximum number of requests in one forward pass; each may hold several pictures.
        max_pixels: larger pictures are scaled down to this many pixels before the processor gets
            them, because the tokens and the memory of a picture grow with its size.
        chat_template_kwargs: further arguments of the template, such as
            ``{enable_thinking = false}``.
        thinking_tokens: added to every request's limit, for models that think before they answer.

    Raises:
        ProfileError: ``max_pixels`` is below 1.

    Attributes:
        model_id: identifies the model in traces and cache keys.
        max_context: maximum number of tokens of prompt and completion together.
        batches: True if the tokenizer has a padding token and the processor marks the padding
            (``attention_mask`` among its input names).
    """

    sees_pictures = True
    max_pixels: int

    def __init__(
        self,
        model: Any,
        processor: Any,
        name: str,
        *,
        batch_size: int = 8,
        max_pixels: int = MAX_PIXELS,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        thinking_tokens: int = 0,
    ) -> None:
        check_at_least(1, max_pixels=max_pixels)
        self.model_id, self.max_pixels = name, max_pixels
        self._model = model.eval()
        # Of the checkpoint's configuration of ``generate`` only its tokens. The library merges the
        # configuration into every call. Published ones set penalties for repetition, beams and
        # lengths, which would change greedy answers.
        own = {name: getattr(model.generation_config, name, None) for name in TOKEN_SETTINGS}
        self._model.generation_config = transformers.GenerationConfig(**own)
        self._processor = processor
        self._tokenizer = processor.tokenizer
        self._lock = threading.RLock()
        text_config = model.config.get_text_config()
        self.max_context = int(getattr(text_config, "max_position_embeddings", None) or 1 << 20)
        pads = self._tokenizer.pad_token_id is not None
        self.batches: bool = pads and "attention_mask" in processor.model_input_names
        self._thinking_tokens = thinking_tokens
        self._batch_size = batch_size if self.batches else 1
        self._options = {
            "batch_size": batch_size,
            "max_pixels": max_pixels,
            "chat_template_kwargs": chat_template_kwargs,
            "thinking_tokens": thinking_tokens,
        }
        self._template = ChatTemplate(
            processor, self._tokenizer, chat_template_kwargs, takes_parts=True
        )

    @classmethod
    def from_pretrained(cls, source: str | Path, **options: Any) -> ChatVLM:
        """Load a folder or a published checkpoint.

        Args:
            source: a folder or a hub id.
            options: those of :class:`viper.models.loading.LoadOptions`, and the class's own.

        Raises:
            ModelError: nothing loadable there, or a model that takes no pictures or no messages.
        """
        loading, own = split_options(options)
        inspect.signature(cls).bind_partial(**own)
        processor = load_processor(transformers.AutoProcessor, source, loading)
        if getattr(processor, "image_processor", None) is None:
            raise ModelError(
                f"{source} has a {type(processor).__name__}, which reads no pictures; give a "
                "checkpoint with an image processor, such as an instruct vision-language model"
            )
        if not getattr(processor, "chat_template", None):
            raise ModelError(
                f"{source}: its processor has no chat template, so it takes no messages; "
                "give an instruct checkpoint, or add a chat_template.jinja to its folder"
            )
        model = load_pretrained(transformers.AutoModelForImageTextToText, source, loading)
        return cls(model, processor, model_id(local_copy(source, loading)), **own)

    def configured(self, **options: Any) -> Self:
        """Return the same model in memory with other options of the class."""
        changed = {**self._options, **options}
        other = type(self)(self._model, self._processor, self.model_id, **changed)
        other._lock = self._lock
        return other

    def in_batches_of(self, size: int) -> Self:
        """Return the same model in memory with batches of at most ``size`` requests."""
        copied = copy.copy(self)
        copied._batch_size = size if self.batches else 1
        return copied

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[list[Completion]]:
        """Return ``sampling.n`` completions for each prompt; at temperature 0 one is repeated.

        Every sample has its own generator, seeded by (seed, prompt, sample number), so a prompt
        gives the same samples in every batch.

        Raises:
            PromptTooLongError: a prompt fills the whole context.
            UsageError: the chat template rejects a prompt.
        """
        greedy = sampling.temperature <= 0
        count = 1 if greedy else sampling.n
        rows = [(prompt, sample) for prompt in prompts for sample in range(count)]
        complete = partial(self._complete, sampling)
        with self._lock:
            done = in_equal_groups(
                rows, lambda row: bool(pictures_of(row[0])), self._batch_size, complete
            )
        repeats = sampling.n if greedy else 1
        return [done[i : i + count] * repeats for i in range(0, len(done), count)]

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Return the mean log-likelihood per token of each continuation after the prompt."""
        if not continuations:
            return []
        head = self._template.render(prompt)
        with self._lock, torch.inference_mode():
            texts = [self._fitted(self._read([head + text])) for text in continuations]
            tokens = [text["input_ids"][0].tolist() for text in texts]
            length = len(self._read([head])["input_ids"][0])
            shared = shared_beginning(tokens, length)
            return tail_scores([self._echo(text, shared) for text in texts], length)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of the text, without special tokens."""
        return len(self._tokenizer(text, add_special_tokens=False, truncation=False)["input_ids"])

    def ask(self, requests: Sequence[ChatRequest], max_new_tokens: int) -> list[tuple[str, float]]:
        """Return the reply to each request, without reasoning, and its probability.

        The probability is the product over its tokens, the end token included. A reply cut at
        ``max_new_tokens`` (at least 1) has no end token. It is 1.0 for models that think and for
        replies of more than 256 tokens, because it takes memory for every token.

        Raises:
            CutReplyError: the limit cut a reply.
            ValueError: a request without a picture.
        """
        if self._thinking_tokens or max_new_tokens > MAX_JUDGED_TOKENS:
            return super().ask(requests, max_new_tokens)

        def forward(batch: Sequence[ChatRequest]) -> list[tuple[str, float]]:
            tokens, log_probabilities, completions = self._judged(batch, max_new_tokens)
            chances = reply_probabilities(tokens, log_probabilities, self._end_ids())
            texts = [self.whole_text(completion) for completion in completions]
            return list(zip(texts, chances, strict=True))

        with self._lock:
            return in_batches(requests, self._batch_size, forward)

    def probability_of_yes(self, requests: Sequence[ChatRequest]) -> list[float]:
        """Return for each yes-or-no request the probability that the reply begins with yes.

        The first token alone decides, and only yes and no share the probability. If the model
        thinks before it answers, the written answer decides.

        Raises:
            ModelError: the tokenizer has no token for yes or for no.
            ToolError: the written answer is neither.
            ValueError: a request without a picture.
        """
        if self._thinking_tokens:
            return super().probability_of_yes(requests)
        yes, no = self._answer_tokens()

        def forward(batch: Sequence[ChatRequest]) -> list[float]:
            first = self._judged(batch, 1)[1][:, 0]
            odds = first[:, yes].logsumexp(dim=-1) - first[:, no].logsumexp(dim=-1)
            return [float(chance) for chance in odds.sigmoid()]

        with self._lock, sending(len(requests)):
            return in_batches(requests, self._batch_size, forward)

    def _judged(
        self, requests: Sequence[ChatRequest], limit: int
    ) -> tuple[Any, Any, list[Completion]]:
        """Return new tokens ``[N, L]``, log-probabilities ``[N, L, vocabulary]`` and completions,
        which are charged.
        """
        inputs = self._fitted(self._inputs([request.prompt for request in requests]))
        output = self._run(inputs, limit, output_logits=True)
        logits = torch.stack(output.logits, dim=1).float()
        tokens = output.sequences[:, -logits.shape[1] :]
        completions = self._completions_of(inputs, tokens)
        charge(completions)
        return tokens, logits.log_softmax(dim=-1), completions

    def _complete(self, sampling: Sampling, rows: Sequence[tuple[Prompt, int]]) -> list[Completion]:
        """Return the completion of each (prompt, sample number)."""
        inputs = self._fitted(self._inputs([prompt for prompt, _ in rows]))
        length = inputs["input_ids"].shape[1]
        limit = sampling.max_tokens + self._thinking_tokens
        if length + limit > self.max_context and len(rows) > 1:
            # Each alone, because the longest would shorten the replies to the others.
            return [self._complete(sampling, [row])[0] for row in rows]
        if length >= self.max_context:
            raise PromptTooLongError(
                f"the prompt takes {length} tokens and {self.model_id} holds {self.max_context}; "
                "show fewer examples or pictures, or a shorter query"
            )
        seeds = [sampling.sample_seed(prompt, sample) for prompt, sample in rows]
        how: dict[str, Any] = {}
        if sampling.temperature > 0:
            how["logits_processor"] = [_draws(seeds, sampling.temperature)]
        if sampling.stop:

            def ended(input_ids: Any, scores: Any, **_: Any) -> Any:
                tail = input_ids[:, max(length, input_ids.shape[1] - STOP_WINDOW) :]
                texts = self._tokenizer.batch_decode(tail, skip_special_tokens=True)
                flags = [any(mark in text for mark in sampling.stop) for text in texts]
                return torch.tensor(flags, device=input_ids.device)

            how["stopping_criteria"] = [ended]
        output = self._run(inputs, min(limit, self.max_context - length), **how)
        return self._completions_of(inputs, output.sequences[:, length:], sampling.stop)

    def _run(self, inputs: Mapping[str, Any], limit: int, **how: Any) -> Any:
        """Return the output of the library's decoding; it takes the likeliest tokens."""
        with torch.inference_mode():
            return self._model.generate(
                **inputs,
                max_new_tokens=limit,
                do_sample=False,
                pad_token_id=self._padding_id(),
                return_dict_in_generate=True,
                **how,
            )

    def _completions_of(
        self, inputs: Mapping[str, Any], tokens: Any, stop: Sequence[str] = ()
    ) -> list[Completion]:
        """Return the text and the counts of each row of new tokens."""
        ends, padding = self._end_ids(), self._padding_id()
        mask = inputs.get("attention_mask")
        width = inputs["input_ids"].shape[1]
        completions = []
        for index, row in enumerate(tokens.tolist()):
            end = next((place for place, token in enumerate(row) if token in ends), len(row))
            ended = end < len(row)
            while not ended and end and row[end - 1] == padding:  # after a stop string
                end -= 1
            text = str(self._tokenizer.decode(row[:end], skip_special_tokens=True))
            cut = cut_at_stop(text, stop)
            reason = "stop" if ended or cut != text else "length"
            prompt_tokens = width if mask is None else int(mask[index].sum())
            text = self._template.opened + cut
            completions.append(Completion(text, prompt_tokens, end, reason))
        return completions

    def _inputs(self, prompts: Sequence[Prompt]) -> Any:
        """Return the processor's tensors for prompts that all hold pictures, or none of them."""
        texts = [self._template.render(prompt) for prompt in prompts]
        # PIL pictures, because a processor must guess the colour axis of an array.
        images = [[each.fitted(self.max_pixels) for each in pictures_of(p)] for p in prompts]
        padding = {"padding": True, "padding_side": "left"} if len(texts) > 1 else {}
        return self._read(texts, images=images if any(images) else None, **padding)

    def _read(self, texts: Sequence[str], **more: Any) -> Any:
        begin = self._tokenizer.bos_token
        return self._processor(
            text=texts,
            return_tensors="pt",
            add_special_tokens=not (begin and texts[0].startswith(begin)),
            truncation=False,  # which the file of a tokenizer may ask for
            **more,
        )

    def _echo(self, inputs: Mapping[str, Any], skipped: int) -> Echo:
        """Return the tokens of a text with their log-likelihoods, 0 for the ``skipped`` first ones.

        The output layer reads the positions before the others alone: with a vocabulary of 150,000,
        the logits of 2,000 tokens take 1.2 GB in 32 bits.
        """
        ids = inputs["input_ids"][0]

        def last(_: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
            return states[0][:, skipped - 1 :], *states[1:]

        # A hook, because not every family takes ``logits_to_keep``.
        hook = self._model.get_output_embeddings().register_forward_pre_hook(last)
        try:
            logits = self._model(**inputs).logits[0, :-1]
        finally:
            hook.remove()
        logs = logits.float().log_softmax(dim=-1)
        values = logs.gather(1, ids[skipped:, None].to(logs.device))[:, 0].tolist()
        return Echo(tuple(map(str, ids.tolist())), (*[0.0] * skipped, *values))

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


def _draws(seeds: Sequence[int], temperature: float) -> Callable[[Any, Any], Any]:
    """Return a processor of scores after which the likeliest token of each row is a random draw.

    The largest of log-probabilities with Gumbel noise is a sample of the distribution.
    """
    generators: list[Any] = []

    def drawn(input_ids: Any, scores: Any) -> Any:
        if not generators:  # on the device of the scores, which is known only now
            generators.extend(torch.Generator(scores.device).manual_seed(seed) for seed in seeds)
        noise = torch.empty(scores.shape, device=scores.device)
        for row, generator in zip(noise, generators, strict=True):
            row.exponential_(generator=generator)
        return scores.float() / temperature - noise.log_()

    return drawn


def reply_probabilities(tokens: Any, log_probabilities: Any, end_ids: Sequence[int]) -> list[float]:
    """Return the probability of each row of tokens, up to its first end token.

    Args:
        tokens: int64 [B, T].
        log_probabilities: float [B, T, vocabulary] at each.
        end_ids: tokens that end a text.
    """
    tokens = tokens.to(log_probabilities.device)
    ends = torch.isin(tokens, torch.tensor(end_ids, device=tokens.device))
    after_end = ends.cumsum(dim=1) - ends.long() > 0
    chosen = log_probabilities.gather(2, tokens[:, :, None])[:, :, 0]
    return [float(p) for p in chosen.masked_fill(after_end, 0.0).sum(dim=1).exp()]
