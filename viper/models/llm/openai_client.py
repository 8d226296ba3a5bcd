"""Connections to one endpoint by the ``openai`` client, and the errors for its failures.

The client is the asynchronous one. The time limit of a synchronous HTTP client bounds each read, so
a server that sends a byte now and then is never late. Asynchronous work can be cancelled anywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from random import Random
from typing import Any, Literal, TypeVar

from tenacity import AsyncRetrying

from viper.errors import MissingExtraError, ModelError, UsageError, ViperError
from viper.models.llm.endpoint import Endpoint, UsageCounter
from viper.models.llm.event_loop import EventLoop
from viper.models.llm.retry import Backoff, TransientError, asked_wait_s

Api = Literal["chat", "completions"]
Result = TypeVar("Result")
Sleep = Callable[[float], Awaitable[None]]

_CLOSED = "the connections are closed; nothing can be asked any more"
_PASSING = frozenset({408, 429})
_REFUSED_KEY = frozenset({401, 403})
# Codes with status 429 that do not pass by waiting.
_USED_UP = frozenset({"insufficient_quota", "billing_hard_limit_reached"})

# Codes for a prompt longer than the model's context.
_TOO_LONG = frozenset({"context_length_exceeded"})

# Field that vLLM names as the cause instead of a code.
_TOO_LONG_FIELDS = frozenset({"input_tokens"})

# Fields that some models reject and that a request does not need.
_OMITTABLE = frozenset({"temperature", "seed", "n", "stop"})

# Maximum length in characters of a server's text in an error.
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
        message = " ".join(self._endpoint.hiding_key(_words_of(error)).split())[:_SHOWN]
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


def _words_of(error: Any) -> str:
    """Return the server's message about a failed request, else the answer's body or status."""
    message = error.body.get("message") if isinstance(error.body, dict) else None
    return str(message or error.response.text or error.message)
