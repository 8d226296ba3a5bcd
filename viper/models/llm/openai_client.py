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
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any, Literal, NamedTuple, TypeVar

from tenacity import AsyncRetrying

from viper.errors import MissingExtraError, ModelError, UsageError, ViperError
from viper.models.llm.capabilities import is_too_long
from viper.models.llm.endpoint import Endpoint, UsageCounter
from viper.models.llm.event_loop import EventLoop
from viper.models.llm.prompt_tokens import Echo
from viper.models.llm.protocol import Completion
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

# Characters of a server's text in an error: its first sentence, not a page of HTML.
_SHOWN = 200


class RefusedError(ModelError):
    """The endpoint rejected a request and would reject it again.

    Attributes:
        param: the field of the request that the server names as the cause, or "".
        stated: the server's words.
        reason: the server's code for the error, or "".
    """

    param = stated = reason = ""


class ContextFullError(UsageError):
    """The prompt is longer than the model's context."""


class Client(EventLoop):
    """Connections to one endpoint, and the event loop of their requests; thread-safe.

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
        super().__init__("viper-openai", _CLOSED, self._openai.close)

    async def ask(self, api: Api, body: Mapping[str, Any], read: Callable[[str], Result]) -> Result:
        """Return the result of ``read`` on the answer's text; await this within :meth:`run`.

        Args:
            read: raises TransientError for an unreadable text; then the request is repeated.

        Raises:
            ModelError: the request was rejected, or failed too often.
            ContextFullError: the prompt is too long.
        """
        import openai

        kind: Any = self._openai.chat.completions if api == "chat" else self._openai.completions

        async def attempt() -> Result:
            try:
                async with asyncio.timeout(self._timeout_s):
                    raw = await kind.with_raw_response.create(**body)
            except TimeoutError:
                raise TransientError(f"no complete answer within {self._timeout_s:g} s") from None
            except openai.APIConnectionError:
                raise TransientError("no connection, or it was lost") from None
            except openai.APIStatusError as error:
                raise self._failure(error) from None
            text = raw.http_response.text
            hidden = self._endpoint.hiding_key(text)
            if hidden == text:
                return read(text)
            with suppress(ViperError):
                return read(text)
            # Read again with the key hidden, because a message may show only a part of the key.
            read(hidden)
            raise TransientError("the answer cannot be read")

        repeating = AsyncRetrying(
            **self._policy,
            sleep=self._sleep,
            before=lambda state: self._counter.request(repeated=state.attempt_number > 1),
        )
        return await repeating(attempt)

    def _failure(self, error: Any) -> ModelError | UsageError:
        """Return the error for an answer with an error status, by its number and codes alone."""
        status, place = int(error.status_code), self._endpoint.place
        if status in _REFUSED_KEY:
            # The server's text is left out, because it may quote a part of the key.
            return ModelError(
                f"{place} refused the key (status {status}); set the environment variable "
                f"{self._endpoint.key_env} to a key that it accepts for this model"
            )
        fields = _error_fields(error.body)
        stated = fields.get("message") or fields.get("detail")
        words = str(stated or error.response.text or error.message)
        message = " ".join(self._endpoint.hiding_key(words).split())[:_SHOWN]
        if fields.get("code") in _USED_UP:
            return RefusedError(f"{place}: the quota is used up (status {status}): {message}")
        codes = [fields.get(name) for name in ("code", "type", "param")]
        if status not in _PASSING and is_too_long(codes, words):  # some servers say so by a 500
            return ContextFullError(message)
        if status in _PASSING or status >= 500:
            wait_s = asked_wait_s(error.response.headers)
            return TransientError(f"status {status}: {message}", wait_s)
        todo = "check model, api and options of the profile"
        refused = RefusedError(f"{place} refused the request (status {status}): {message}; {todo}")
        refused.param, refused.stated = str(fields.get("param") or ""), words
        refused.reason = str(fields.get("code") or "")
        return refused


def _error_fields(body: Any) -> Mapping[str, Any]:
    """Return the fields of an error; Google sends it in a list, others as bare words."""
    body = body[0] if isinstance(body, list) and body else body
    fields = body.get("error", body) if isinstance(body, dict) else body
    return fields if isinstance(fields, dict) else {"message": fields}


class Reply(NamedTuple):
    """An answer of the server.

    Attributes:
        choices: at least one in the server's order; tokens and cost are not counted yet.
        prompt_tokens, completion_tokens: as reported, or None.
        cached_tokens: how many of the prompt's tokens the server had kept from earlier requests.
    """

    choices: list[Completion]
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int


class NoEchoError(UsageError):
    """The endpoint does not report the likelihoods of a prompt's tokens."""


def read_reply(text: str) -> Reply:
    """Return the choices of a chat or plain completion.

    Raises:
        TransientError: no JSON, no choices, or choices without text.
    """
    choices, usage = _parsed(text)
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    prompt = _count(usage.get("prompt_tokens"))
    others = ("prompt_cache_hit_tokens", "cache_read_input_tokens")  # DeepSeek, Anthropic
    counts = [_count(value) or 0 for value in (cached, *map(usage.get, others))]
    return Reply(
        [_choice(each) for each in choices],
        prompt,
        _count(usage.get("completion_tokens")),
        min(max(counts), prompt or 0),
    )


def read_echoes(text: str, expected: int) -> tuple[list[Echo], int]:
    """Return the echo of every prompt in order, and the number of tokens of all prompts.

    Raises:
        TransientError: no JSON, no choices.
        NoEchoError: completions without the likelihoods of their prompts.
    """
    choices, usage = _parsed(text)
    if len(choices) != expected:
        raise NoEchoError(f"{expected} prompts were sent to be echoed, {len(choices)} came back")
    return [_echo(each) for each in choices], _count(usage.get("prompt_tokens")) or 0


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _parsed(text: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the choices of an answer in order, and its usage."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise TransientError(f"expected JSON, got {_quote(text)}") from None
    if not isinstance(data, dict):
        raise TransientError(f"expected a JSON object, got {_quote(text)}")
    choices = data.get("choices")
    good = isinstance(choices, list) and all(isinstance(each, dict) for each in choices)
    if not good or not choices:
        raise TransientError(f"expected choices, got {_quote(json.dumps(data))}")
    if all(isinstance(each.get("index"), int) for each in choices):
        choices.sort(key=lambda each: each["index"])
    usage = data.get("usage")
    return choices, usage if isinstance(usage, dict) else {}


def _choice(data: Mapping[str, Any]) -> Completion:
    message = data.get("message")
    fields = message if isinstance(message, dict) else {}
    if isinstance(fields.get("refusal"), str) and fields["refusal"]:
        return Completion(fields["refusal"], 0, 0, "refusal")
    text = data.get("text") if fields is not message else _content(fields)
    finish = data.get("finish_reason")
    reason = {"length": "length", "content_filter": "refusal"}.get(str(finish), "stop")
    reasoned = fields.get("reasoning_content") or fields.get("reasoning")
    if text is None and (reason != "stop" or reasoned):
        # A reasoning model may use up its tokens before it starts to answer.
        text = ""
    if not isinstance(text, str):
        raise TransientError(f"expected a choice with text, got {_quote(json.dumps(data))}")
    first_logprobs = None
    with suppress(KeyError, IndexError, TypeError, ValueError):
        tokens = data["logprobs"]["content"][0]["top_logprobs"]
        first_logprobs = {str(each["token"]): float(each["logprob"]) for each in tokens} or None
    return Completion(text, 0, 0, reason, first_logprobs=first_logprobs)


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
