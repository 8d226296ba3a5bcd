"""Sends one request with the ``openai`` client, and says in our words what went wrong."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from viper.errors import CancelledError, MissingExtraError, ModelError, UsageError, ViperError
from viper.llm.endpoint import Endpoint
from viper.llm.loop_thread import LoopThread
from viper.llm.retry import TransientError, asked_wait_s
from viper.llm.usage import UsageCounter

Api = Literal["chat", "completions"]
Result = TypeVar("Result")

_PASSING = frozenset({408, 429})
_REFUSED_KEY = frozenset({401, 403})
_TOO_LONG = frozenset({"context_length_exceeded"})
"""Codes for a prompt longer than the model's context."""

_TOO_LONG_FIELDS = frozenset({"input_tokens"})
"""What vLLM names as the field at fault instead of a code."""

_SHOWN = 200
"""Characters of a server's own words in an error."""


class RefusedError(ModelError):
    """The endpoint refused a request and would refuse it again."""


class ContextFullError(UsageError):
    """The prompt is longer than the model's context."""


class Retry(Protocol):
    """Calls an attempt with the number of the retry until one succeeds."""

    def __call__(self, attempt: Callable[[int], Result], place: str) -> Result: ...


class Transport:
    """The connections to one endpoint; thread-safe.

    Args:
        timeout_s: how long one request may take, from connecting to the last byte of its
            answer.
        retry: repeats attempts that raise TransientError.
        counter: is told of every request before it is sent.

    Raises:
        MissingExtraError: the package ``openai`` is not installed.
    """

    def __init__(
        self, endpoint: Endpoint, timeout_s: float, retry: Retry, counter: UsageCounter
    ) -> None:
        self._endpoint, self._timeout_s = endpoint, timeout_s
        self._retry, self._counter = retry, counter
        self._client = _client(endpoint)
        self._loop = LoopThread(at_end=self._client.close)

    def ask(
        self,
        api: Api,
        body: Mapping[str, Any],
        read: Callable[[str], Result],
        over: threading.Event,
    ) -> Result:
        """What ``read`` makes of the answer's text.

        Args:
            read: raises TransientError for what cannot be read; then it is asked again.
            over: once set, nothing more is sent.

        Raises:
            ModelError: refused, or failing again and again.
            ContextFullError: the prompt is too long.
            CancelledError: ``over`` was set.
        """

        def attempt(retry: int) -> Result:
            if over.is_set():
                raise CancelledError("the request is of no more use: the others were given up")
            self._counter.request(repeated=retry > 0)
            return self._read(self._post(api, body), read)

        return self._retry(attempt, place=self._endpoint.place)

    def close(self) -> None:
        """Closes the connections; nothing can be asked afterwards."""
        self._loop.close()

    def _post(self, api: Api, body: Mapping[str, Any]) -> str:
        """The text of the answer."""
        import openai

        kind = self._client.chat.completions if api == "chat" else self._client.completions
        post: Callable[[], Awaitable[Any]] = partial(kind.with_raw_response.create, **body)
        try:
            raw = self._loop.result(post, self._timeout_s)
        except TimeoutError:
            raise TransientError(f"no complete answer within {self._timeout_s:g} s") from None
        except openai.APIConnectionError:
            raise TransientError("no connection, or it was lost") from None
        except openai.APIStatusError as error:
            raise self._failure(error) from None
        text: str = raw.http_response.text
        return text

    def _read(self, text: str, read: Callable[[str], Result]) -> Result:
        """As ``read``; the error that it raises quotes the text with the key hidden."""
        hidden = self._endpoint.hiding_key(text)
        if hidden == text:
            return read(text)
        with suppress(ViperError):
            return read(text)
        # Hidden first and read again, as a message shows a part only: of the key, too.
        read(hidden)
        raise TransientError("the answer cannot be read")

    def _failure(self, error: Any) -> ModelError | UsageError:
        """What an answer with an error status means, by its number and codes alone."""
        status, place = int(error.status_code), self._endpoint.place
        if status in _REFUSED_KEY:
            # The server's own words are left out: they may quote a part of the key.
            return ModelError(
                f"{place} refused the key (status {status}); set the environment variable "
                f"{self._endpoint.key_env} to a key that it accepts for this model"
            )
        said = " ".join(self._endpoint.hiding_key(str(error.message)).split())[:_SHOWN]
        if status in _PASSING or status >= 500:
            return TransientError(f"status {status}: {said}", asked_wait_s(error.response.headers))
        if error.code in _TOO_LONG or error.param in _TOO_LONG_FIELDS:
            return ContextFullError(said)
        return RefusedError(
            f"{place} refused the request (status {status}): {said}; "
            "check model, api and options of the profile"
        )


def _client(endpoint: Endpoint) -> Any:
    """An ``openai`` client that neither retries nor gives up by itself."""
    try:
        import openai
    except ModuleNotFoundError:
        raise MissingExtraError("openai", "openai", "the llm backend 'openai'") from None
    return openai.AsyncOpenAI(
        api_key=endpoint.key, base_url=endpoint.base_url, timeout=None, max_retries=0
    )
