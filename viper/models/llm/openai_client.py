"""Connections to one endpoint by the ``openai`` client: requests, checked replies, errors.

:meth:`Client.ask` sends a request and repeats it while failures may pass. Its reader
(:func:`read_reply`, :func:`read_echoes`) checks the raw text, because the client builds its objects
without checking them; a reply of another shape would only show later, as a missing attribute. An
error status becomes one of our errors by number and codes alone.

The client is the asynchronous one. The time limit of a synchronous HTTP client bounds each read, so
a server that sends a byte now and then is never late. Asynchronous work can be cancelled anywhere.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, TypeVar

from tenacity import AsyncRetrying

from viper.errors import MissingExtraError, ModelError, UsageError, ViperError
from viper.models.llm.endpoint import Endpoint, UsageCounter
from viper.models.llm.event_loop import EventLoop
from viper.models.llm.prompt_tokens import Echo
from viper.models.llm.retry import Backoff, TransientError, asked_wait_s

Api = Literal["chat", "completions"]
Result = TypeVar("Result")
Sleep = Callable[[float], Awaitable[None]]

_CLOSED = "the connections are closed; nothing can be asked any more"
# Statuses that pass by waiting; those from 500 on do as well.
_PASSING = frozenset({408, 429})
# Statuses about the key, whose message may quote a part of it.
_REFUSED_KEY = frozenset({401, 403})
# Codes with status 429 that do not pass by waiting.
_USED_UP = frozenset({"insufficient_quota", "billing_hard_limit_reached"})

# Codes for a prompt longer than the model's context.
_TOO_LONG = frozenset({"context_length_exceeded"})

# Field that vLLM names as the cause instead of a code.
_TOO_LONG_FIELDS = frozenset({"input_tokens"})

# Fields that some models reject and that a request does not need.
_OMITTABLE = frozenset({"temperature", "seed", "n", "stop"})

# Characters of a server's text in an error: its first sentence, not a page of HTML.
_SHOWN = 200


class RefusedError(ModelError):
    """The endpoint rejected a request and would reject it again."""


class ContextFullError(UsageError):
    """The prompt is longer than the model's context."""


class Client:
    """Connections to one endpoint; thread-safe.

    Connections are opened by requests, so creating a client costs nothing. They end with
    :meth:`close`, or when this object is garbage collected.

    Args:
        timeout_s: time limit of one request, from connecting to the last byte of its answer.
        backoff: policy for repeating requests after transient failures.
        random: draws the waits.
        sleep: waits.
        counter: counts every request before it is sent.

    Raises:
        MissingExtraError: the package ``openai`` is not installed.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        timeout_s: float,
        counter: UsageCounter,
        *,
        backoff: Backoff,
        random: Random,
        sleep: Sleep,
    ) -> None:
        try:
            import openai
        except ModuleNotFoundError:
            raise MissingExtraError("openai", "the llm backend 'openai'") from None
        self._endpoint, self._timeout_s, self._counter = endpoint, timeout_s, counter
        self._policy = backoff.policy(endpoint.place, random)
        self._sleep = sleep
        # This class does retries and time limits itself.
        self._openai = openai.AsyncOpenAI(
            api_key=endpoint.key, base_url=endpoint.base_url, timeout=None, max_retries=0
        )
        self._loop = EventLoop("viper-openai", _CLOSED, self._openai.close)

    def run(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Return the result of asynchronous work; an interrupt (Ctrl-C) cancels it.

        Raises:
            RuntimeError: the client is closed, before or meanwhile.
        """
        return self._loop.run(work)

    async def ask(self, api: Api, body: Mapping[str, Any], read: Callable[[str], Result]) -> Result:
        """Return the result of ``read`` on the answer's text; await this within :meth:`run`.

        Args:
            read: raises TransientError for an unreadable text; then the request is repeated.

        Raises:
            ModelError: the request was rejected, or failed too often.
            ContextFullError: the prompt is too long.
        """

        async def attempt() -> Result:
            return self._read(await self._post(api, body), read)

        repeating = AsyncRetrying(
            **self._policy,
            sleep=self._sleep,
            before=lambda state: self._counter.request(repeated=state.attempt_number > 1),
        )
        return await repeating(attempt)

    def close(self) -> None:
        """Cancel current requests and close the connections; calling it again is harmless."""
        self._loop.close()

    async def _post(self, api: Api, body: Mapping[str, Any]) -> str:
        """Return the text of the answer."""
        import openai

        kind: Any = self._openai.chat.completions if api == "chat" else self._openai.completions
        try:
            async with asyncio.timeout(self._timeout_s):
                raw = await kind.with_raw_response.create(**body)
        except TimeoutError:
            raise TransientError(f"no complete answer within {self._timeout_s:g} s") from None
        except openai.APIConnectionError:
            raise TransientError("no connection, or it was lost") from None
        except openai.APIStatusError as error:
            raise self._failure(error) from None
        return raw.http_response.text

    def _read(self, text: str, read: Callable[[str], Result]) -> Result:
        """Return the result of ``read``; its error quotes the text with the key hidden."""
        hidden = self._endpoint.hiding_key(text)
        if hidden == text:
            return read(text)
        with suppress(ViperError):
            return read(text)
        # Read again with the key hidden, because a message may show only a part of the key.
        read(hidden)
        raise TransientError("the answer cannot be read")

    def _failure(self, error: Any) -> ModelError | UsageError:
        """Return the error for an answer with an error status, by its number and codes alone."""
        status, place = int(error.status_code), self._endpoint.place
        if status in _REFUSED_KEY:
            # The server's text is left out, because it may quote a part of the key.
            return ModelError(
                f"{place} refused the key (status {status}); set the environment variable "
                f"{self._endpoint.key_env} to a key that it accepts for this model"
            )
        stated = error.body.get("message") if isinstance(error.body, dict) else None
        words = str(stated or error.response.text or error.message)
        message = " ".join(self._endpoint.hiding_key(words).split())[:_SHOWN]
        if error.code in _USED_UP:
            return RefusedError(f"{place}: the quota is used up (status {status}): {message}")
        if status in _PASSING or status >= 500:
            return TransientError(
                f"status {status}: {message}", asked_wait_s(error.response.headers)
            )
        if error.code in _TOO_LONG or error.param in _TOO_LONG_FIELDS:
            return ContextFullError(message)
        todo = "check model, api and options of the profile"
        if error.param in _OMITTABLE:
            todo = f'add omit = ["{error.param}"] to the options of the model'
        return RefusedError(f"{place} refused the request (status {status}): {message}; {todo}")


@dataclass(frozen=True)
class Choice:
    """One text. ``finish_reason`` is ``stop``, ``length`` or ``refusal``; ``first_logprobs`` are
    those of the likeliest first tokens, if the server reports them.
    """

    text: str
    finish_reason: str
    first_logprobs: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Reply:
    """Reply with at least one choice, in the server's order; unreported token counts are None."""

    choices: tuple[Choice, ...]
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class NoEchoError(UsageError):
    """The endpoint does not report the likelihoods of a prompt's tokens."""


def read_reply(text: str) -> Reply:
    """Return the choices of a chat or plain completion.

    Raises:
        TransientError: no JSON, no choices, or choices without text.
    """
    data = _read(text)
    prompt_tokens, completion_tokens = _counts(data)
    choices = tuple(_choice(each) for each in _choices(data))
    return Reply(choices, prompt_tokens, completion_tokens)


def read_echoes(text: str, expected: int) -> tuple[list[Echo], int]:
    """Return the echo of every prompt in order, and the number of tokens of all prompts.

    Raises:
        TransientError: no JSON, no choices.
        NoEchoError: completions without the likelihoods of their prompts.
    """
    data = _read(text)
    choices = _choices(data)
    if len(choices) != expected:
        raise NoEchoError(f"{expected} prompts were sent to be echoed, {len(choices)} came back")
    return [_echo(each) for each in choices], _counts(data)[0] or 0


def _read(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise TransientError(f"expected JSON, got {_quote(text)}") from None
    if not isinstance(data, dict):
        raise TransientError(f"expected a JSON object, got {_quote(text)}")
    return data


def _choices(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    choices = data.get("choices")
    good = isinstance(choices, list) and all(isinstance(each, dict) for each in choices)
    if not good or not choices:
        raise TransientError(f"expected choices, got {_quote(json.dumps(data))}")
    if all(isinstance(each.get("index"), int) for each in choices):
        choices.sort(key=lambda each: each["index"])
    return list(choices)


def _choice(data: Mapping[str, Any]) -> Choice:
    message = data.get("message")
    if not isinstance(message, dict):
        text = data.get("text")
    elif isinstance(message.get("refusal"), str) and message["refusal"]:
        return Choice(message["refusal"], "refusal")
    else:
        text = _content(message)
    finish = data.get("finish_reason")
    reason = {"length": "length", "content_filter": "refusal"}.get(str(finish), "stop")
    fields = message if isinstance(message, dict) else {}
    reasoned = fields.get("reasoning_content") or fields.get("reasoning")
    if text is None and (reason != "stop" or reasoned):
        # A reasoning model may use up its tokens before it starts to answer.
        text = ""
    if not isinstance(text, str):
        raise TransientError(f"expected a choice with text, got {_quote(json.dumps(data))}")
    return Choice(text, reason, _first_logprobs(data))


def _first_logprobs(choice: Mapping[str, Any]) -> dict[str, float] | None:
    try:
        tokens = choice["logprobs"]["content"][0]["top_logprobs"]
        return {str(token["token"]): float(token["logprob"]) for token in tokens} or None
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _content(message: Mapping[str, Any]) -> Any:
    """Return the text of a message: its content, the texts of its parts, or its tool calls."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        texts = [part.get("text") for part in parts if part.get("type") in ("text", "output_text")]
        content = "\n".join(text for text in texts if isinstance(text, str))
    calls = message.get("tool_calls")
    if content or not isinstance(calls, list):
        return content
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    return "\n".join(json.dumps(function) for function in functions if function) or content


def _counts(data: Mapping[str, Any]) -> tuple[int | None, int | None]:
    usage = data.get("usage")
    counts: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
    prompt, completion = counts.get("prompt_tokens"), counts.get("completion_tokens")
    return (
        prompt if isinstance(prompt, int) and prompt >= 0 else None,
        completion if isinstance(completion, int) and completion >= 0 else None,
    )


def _echo(choice: Mapping[str, Any]) -> Echo:
    logprobs = choice.get("logprobs")
    fields: Mapping[str, Any] = logprobs if isinstance(logprobs, dict) else {}
    tokens: Any = fields.get("tokens")
    values: Any = fields.get("token_logprobs")
    good = (
        isinstance(tokens, list)
        and isinstance(values, list)
        and len(tokens) == len(values) > 0
        and all(isinstance(token, str) for token in tokens)
        and all(isinstance(value, int | float) and math.isfinite(value) for value in values[1:])
    )
    if not good:
        raise NoEchoError("the answer holds no likelihoods of the prompt's tokens")
    # Servers give the first token no likelihood, because no token precedes it.
    return Echo(tuple(tokens), (0.0, *map(float, values[1:])))


def _quote(text: str) -> str:
    return f"{text[:80]!r}" if text.strip() else "nothing"
