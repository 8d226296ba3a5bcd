"""Any endpoint that speaks the OpenAI protocol: OpenAI itself, a vLLM server and others.

Prompts are sent concurrently. For each one, :meth:`OpenAILLM._complete` makes the request's body,
asks by the client (``openai_client``), which repeats transient failures, and shares tokens and cost
among the completions of the reply. The key comes from the environment and is shown nowhere.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from viper.errors import PromptTooLongError, UsageError
from viper.models.llm import openai_client
from viper.models.llm.capabilities import Capabilities, Corrections, capabilities_of
from viper.models.llm.endpoint import LLMUsage, UsageCounter, find_endpoint
from viper.models.llm.event_loop import ConcurrentLLM
from viper.models.llm.messages import (
    PictureEncoder,
    Prompt,
    messages_of,
    pictures_of,
    without_roles,
)
from viper.models.llm.prompt_tokens import Echo, TokenCounter, tail_scores
from viper.models.llm.protocol import Completion, Sampling, check_no_pictures
from viper.models.llm.retry import Backoff
from viper.models.llm.scripted import cut_at_stop

APIS = ("chat", "completions")

LOG = logging.getLogger("viper.models")

# Tokens from which on a prompt is compared with what the server says it read; twice as many as it
# read are no error of the estimate.
LONG_PROMPT = 2_000
# Returns a picture in a ``data:`` URI.
Encode = Callable[[Any], str]


class OpenAILLM(ConcurrentLLM):
    """Language model behind an HTTP endpoint; thread-safe.

    Args:
        model: the model's name at the endpoint.
        base_url: such as ``http://localhost:8000/v1``; None is ``OPENAI_BASE_URL`` from the
            environment, else OpenAI's own.
        api: ``chat`` sends messages, with pictures; ``completions`` sends the text alone, which
            base models need.
        key_env: the environment variable with the key; may be empty except for OpenAI's own
            endpoint.
        timeout_s: time limit of one request, from connecting to the last byte of its answer; a
            repeated request has the same limit again.
        max_retries: how often a request is repeated after 408, 429, 5xx, a time-out, a lost
            connection or an unreadable answer.
        concurrency: maximum number of prompts sent at once.
        price_per_million: US dollars for a million tokens, ``{prompt, completion, cached}``.
        max_context: tokens of prompt and completion together; the protocol cannot ask for it.
        tokenizer: a local folder to count tokens with; None estimates.
        extra: further fields of every request, such as ``{reasoning_effort = "low"}``.
        omit: fields never sent, such as ``["temperature"]``. Those of ``endpoints.toml``, and those
            that the endpoint refuses, are left out without it.
        chat_template_kwargs: arguments of the server's chat template, such as
            ``{enable_thinking = false}``; sent only if given.
        thinking_tokens: added to every request's limit, for models that think before they answer.
        max_side: greatest width and height in pixels of a picture; larger ones are scaled down.
        min_side: smaller pictures are enlarged to a longer side of this many pixels; 1 sends them
            as they are.
        detail: ``low``, ``high`` or ``auto``, sent with every picture; "" sends none.
        jitter_seed: seed of the waits before retries. None differs between processes, so many
            workers do not retry at the same moment.
        sleep: awaited with the seconds to wait; tests pass their own.

    Raises:
        MissingExtraError: the package ``openai`` is not installed.
        UsageError: an invalid option, or no key for OpenAI's own endpoint.

    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api: openai_client.Api = "chat",
        key_env: str = "OPENAI_API_KEY",
        timeout_s: float = 120.0,
        max_retries: int = 5,
        concurrency: int = 8,
        price_per_million: Mapping[str, float] | None = None,
        max_context: int = 8192,
        tokenizer: str | Path | None = None,
        extra: Mapping[str, Any] | None = None,
        omit: Sequence[str] = (),
        chat_template_kwargs: Mapping[str, Any] | None = None,
        thinking_tokens: int = 0,
        max_side: int = 1024,
        min_side: int = PictureEncoder.MIN_SIDE,
        detail: str = "",
        jitter_seed: int | None = None,
        sleep: openai_client.Sleep = asyncio.sleep,
    ) -> None:
        if api not in APIS:
            raise UsageError(f"api {api!r} is not known; known: {', '.join(APIS)}")
        sizes = {"timeout_s": timeout_s, "concurrency": concurrency, "max_side": max_side}
        for name, value in (sizes | {"min_side": min_side}).items():
            if value <= 0:
                raise UsageError(f"{name} is {value}; it must be above 0")
        self._model, self._api = model, api
        self._endpoint = find_endpoint(base_url, key_env)
        self._counter = UsageCounter(price_per_million)
        self._client = openai_client.Client(
            self._endpoint,
            timeout_s,
            self._counter,
            backoff=Backoff(max_retries),
            random=Random(jitter_seed),
            sleep=sleep,
        )
        super().__init__(self._client, concurrency)
        self._tokens = TokenCounter(tokenizer)
        self._extra, self._omit = dict(extra or {}), tuple(omit)
        if chat_template_kwargs:
            self._extra["chat_template_kwargs"] = dict(chat_template_kwargs)
        self._thinking_tokens = thinking_tokens
        self._max_side, self._detail = max_side, detail
        self.capabilities = capabilities_of(self._endpoint.base_url, model)
        self._corrections: Corrections | None = None
        self._told_cut = False
        self._pictures = PictureEncoder(max_side, min_side)
        self.sees_pictures = api == "chat"
        self._echoes: bool | None = None if api == "completions" else False
        self.max_context = max_context
        self.model_id = f"{model}@{self._endpoint.place}#{api}"
        if self._extra or self._omit:  # a few letters that identify both
            fields = json.dumps([self._extra, sorted(self._omit)], sort_keys=True)
            self.model_id += f"-{hashlib.sha256(fields.encode()).hexdigest()[:8]}"

    def remember(self, path: Path) -> None:
        """Keep what refusals teach in this file, and begin with what it holds."""
        self._corrections = Corrections(path)
        self.capabilities = self._corrections.get(self._place, self.capabilities)

    @property
    def _place(self) -> str:
        return f"{self._model}@{self._endpoint.place}"

    @property
    def usage(self) -> LLMUsage:
        """Return the usage so far."""
        return self._counter.snapshot()

    @property
    def can_score(self) -> bool:
        """Return True if :meth:`score` works; the first read asks the endpoint, once.

        Raises:
            ModelError: the endpoint does not answer.
        """
        if self._echoes is None:
            try:
                self._echoed(["a b"])
            except (openai_client.RefusedError, openai_client.NoEchoError):
                self._echoes = False
        return bool(self._echoes)

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Return the mean log-likelihood per token of each continuation.

        This needs a server that echoes prompts with their likelihoods, such as vLLM.

        Raises:
            UsageError: the endpoint cannot do that.
            ModelError: the endpoint rejects the request, or keeps failing.
        """
        if not continuations:
            return []
        if not self.can_score:
            raise UsageError(
                f"{self.model_id} cannot score texts; use a server whose completions echo "
                'likelihoods (vLLM with api = "completions"), or generate instead'
            )
        heads = [prompt] if prompt else []
        echoes = self._echoed([*heads, *(prompt + text for text in continuations)])
        return tail_scores(echoes[len(heads) :], len(echoes[0].tokens) if heads else 0)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of the text: by the tokenizer, else characters / 4."""
        return self._tokens.count(text)

    def close(self) -> None:
        """Close the connections; the model cannot be used afterwards."""
        self._client.close()

    async def _complete(self, sampling: Sampling, prompt: Prompt) -> list[Completion]:
        """Answer a prompt. At temperature 0 one completion is requested and repeated. A server that
        returns too few is asked again with the next seed.
        """
        greedy = sampling.temperature <= 0
        count = 1 if greedy else sampling.n
        completions: list[Completion] = []
        while len(completions) < count:
            left, seed = count - len(completions), sampling.seed + len(completions)
            try:
                reply = await self._ask(partial(self._body, prompt, sampling, left, seed))
            except openai_client.ContextFullError as error:
                raise self._too_long(str(error)) from None
            except openai_client.RefusedError as error:
                pictures = len(pictures_of(prompt))
                if not pictures:
                    raise
                raise openai_client.RefusedError(
                    f"{error}; the request held {pictures} picture{'s' if pictures > 1 else ''} of "
                    f"at most {self._max_side} pixels a side: if the model takes no pictures, set "
                    "sees = false or name another model; if they are too large, lower max_side"
                ) from None
            completions += self._completions(reply, prompt, sampling, left)
        if not greedy:
            return completions
        repeated = replace(completions[0], cost_usd=self._counter.price_usd(0, 0))
        return completions + [repeated] * (sampling.n - 1)

    async def _ask(self, body: Callable[[Capabilities], dict[str, Any]]) -> openai_client.Reply:
        """Send a request; without the fields that the endpoint refuses, if it refuses some.

        What an answer proved right is kept for later requests.
        """
        tried = [self.capabilities]
        while True:
            fields = body(tried[-1])
            try:
                reply = await self._client.ask(self._api, fields, openai_client.read_reply)
                break
            except openai_client.RefusedError as error:
                stated = error.param, error.stated, error.reason
                learned = tried[-1].corrected(fields, *stated)
                if learned is None or learned in tried:
                    raise
                tried.append(learned)
        if len(tried) > 1:
            LOG.info("%s refuses fields of the request; now %s", self._place, tried[-1])
            self.capabilities = tried[-1]
            if self._corrections is not None:
                self._corrections.put(self._place, tried[-1])
        return reply

    def _body(
        self, prompt: Prompt, sampling: Sampling, n: int, seed: int, takes: Capabilities
    ) -> dict[str, Any]:
        room = self.max_context
        if self._tokens.exact:
            room -= self._tokens.count_prompt(prompt, chat=self.sees_pictures)
        if room <= 0:
            raise self._too_long()
        draw = {"temperature": sampling.temperature, "seed": seed, "n": n}
        body: dict[str, Any] = {"model": self._model, **draw}
        name = takes.token_field if self.sees_pictures else "max_tokens"
        body[name] = min(sampling.max_tokens + self._thinking_tokens, room)
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if self.sees_pictures:
            body["messages"] = chat_messages(prompt, self._pictures.data_uri, self._detail)
        else:
            check_no_pictures(prompt, self.model_id)
            body["prompt"] = without_roles(prompt)
        left_out = {*self._omit, *takes.refused}
        fields = {name: value for name, value in body.items() if name not in left_out}
        return {**fields, "extra_body": self._extra} if self._extra else fields

    def _completions(
        self, reply: openai_client.Reply, prompt: Prompt, sampling: Sampling, limit: int
    ) -> list[Completion]:
        """Return up to ``limit`` completions; tokens are split over all choices, cost over the
        returned.
        """
        choices, prompt_tokens, completion_tokens, cached_tokens = reply
        read = math.inf if prompt_tokens is None else prompt_tokens
        sent = self.count_tokens(without_roles(prompt)) if read < LONG_PROMPT else 0
        if sent > max(LONG_PROMPT, 2 * read) and not self._told_cut:
            self._told_cut = True
            LOG.warning(
                "%s read %d tokens of a prompt of about %d, so it seems to cut prompts silently; "
                "give the server more context (Ollama: OLLAMA_CONTEXT_LENGTH)",
                *(self._place, read, sent),
            )
        texts = [cut_at_stop(choice.text, sampling.stop) for choice in choices]
        if prompt_tokens is None:
            prompt_tokens = self._tokens.count_prompt(prompt, chat=self.sees_pictures)
        limit_each = sampling.max_tokens + self._thinking_tokens
        counts = [min(self.count_tokens(text), limit_each) for text in texts]
        if completion_tokens is not None:
            share, rest = divmod(completion_tokens, len(texts))
            counts = [share + (index < rest) for index in range(len(texts))]
        cost_usd = self._counter.tokens(prompt_tokens, sum(counts), cached_tokens)
        if cost_usd is not None:
            cost_usd /= min(limit, len(texts))
        completions = []
        for text, count, choice in zip(texts, counts, choices, strict=True):
            ended = choice.finish_reason, cost_usd, choice.first_logprobs
            completions.append(Completion(text, prompt_tokens, count, *ended, cached_tokens))
        return completions[:limit]

    def _echoed(self, texts: list[str]) -> list[Echo]:
        settings = {"max_tokens": 0, "echo": True, "logprobs": 0, "temperature": 0.0}
        body = {"model": self._model, "prompt": texts, **settings}
        reader = partial(openai_client.read_echoes, expected=len(texts))
        echoes, tokens = self._client.run(lambda: self._client.ask("completions", body, reader))
        self._counter.tokens(tokens, 0)
        self._echoes = True
        return echoes

    def _too_long(self, stated: str = "") -> PromptTooLongError:
        context = f": {stated}" if stated else f", max_context {self.max_context}"
        return PromptTooLongError(
            f"the prompt fills the whole context of {self.model_id}{context}; show fewer examples "
            "or a shorter query"
        )


def chat_messages(prompt: Prompt, encode: Encode, detail: str = "") -> list[dict[str, Any]]:
    """Return the field ``messages`` of a request.

    Args:
        encode: returns a picture in a ``data:`` URI.
        detail: sent with every picture, unless empty.
    """
    messages: list[dict[str, Any]] = []
    for message in messages_of(prompt):
        parts: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, str):
                parts.append({"type": "text", "text": part})
            else:
                image = {"url": encode(part)} | ({"detail": detail} if detail else {})
                parts.append({"type": "image_url", "image_url": image})
        # Plain text where there are no pictures, because some servers take nothing else.
        plain = all(isinstance(part, str) for part in message.parts)
        content = "\n\n".join(map(str, message.parts)) if plain else parts
        messages.append({"role": message.role, "content": content})
    return messages
