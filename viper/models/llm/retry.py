"""Retries of requests that failed for a transient reason.

``tenacity`` repeats the requests; :class:`Backoff` is the policy. The retries of the ``openai``
client are off for four reasons. They shorten a wait by a quarter at most, so rejected clients
return together. They draw from the process-wide generator. They repeat statuses that do not pass
(409). They do not repeat an unreadable answer with status 200.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn

from viper.errors import ModelError, UnavailableError, UsageError

if TYPE_CHECKING:
    from tenacity import RetryCallState


class TransientError(ModelError):
    """A request failed in a way that may pass.

    Attributes:
        asked_s: seconds that the server asked to wait, or None.
    """

    def __init__(self, message: str, asked_s: float | None = None) -> None:
        super().__init__(message)
        self.asked_s = asked_s


@dataclass(frozen=True)
class Backoff:
    """Policy of how often and when to try again.

    Attributes:
        max_retries: tries after the first one.
        first_s: upper bound of the first wait; it doubles with every retry.
        limit_s: upper bound of each wait; with the first waits of half a second, from the 7th on.
        longest_asked_s: if a server asks for a longer wait, the request fails at once.
    """

    # Waits of 0.5 s to 8 s at most: a server that restarts is back, a broken one is not asked long.
    max_retries: int = 5
    first_s: float = 0.5
    limit_s: float = 30.0
    longest_asked_s: float = 120.0

    def __post_init__(self) -> None:
        if self.max_retries < 0:
            raise UsageError(f"max_retries is {self.max_retries}; it must be 0 or more")

    def policy(self, place: str, random: Random) -> dict[str, Any]:
        """Return the arguments for tenacity's ``Retrying`` or ``AsyncRetrying``.

        Only TransientError is retried. Once no try is left, or the server asks for a longer wait
        than is granted, UnavailableError is raised.

        Args:
            place: named in the error.
            random: draws the waits.
        """
        from tenacity import retry_if_exception_type

        def give_up(state: RetryCallState) -> NoReturn:
            error = _failure(state)
            if self._asks_too_much(error):
                raise UnavailableError(
                    f"{place}: {error}; it asks to wait {error.asked_s:.0f} s and at most "
                    f"{self.longest_asked_s:.0f} s are waited; try again later"
                )
            raise UnavailableError(
                f"{place}: {error}; given up after {state.attempt_number} tries",
                advice="check the endpoint, or raise max_retries",
            )

        return {
            "retry": retry_if_exception_type(TransientError),
            "stop": lambda state: (
                state.attempt_number > self.max_retries or self._asks_too_much(_failure(state))
            ),
            "wait": lambda state: self.wait_s(
                state.attempt_number - 1, _failure(state).asked_s, random
            ),
            "retry_error_callback": give_up,
        }

    def wait_s(self, retry: int, asked_s: float | None, random: Random) -> float:
        """Return the seconds before a retry, counted from 0: uniform up to the bound (full jitter).

        A wait that the server asked for is kept in full, plus up to ``first_s``. Clients with the
        same requested wait therefore do not return at the same moment.
        """
        if asked_s is not None:
            return asked_s + random.uniform(0, self.first_s)
        return random.uniform(0, min(self.limit_s, self.first_s * 2 ** min(retry, 60)))

    def _asks_too_much(self, error: TransientError) -> bool:
        return error.asked_s is not None and error.asked_s > self.longest_asked_s


def _failure(state: RetryCallState) -> TransientError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, TransientError)
    return error


def asked_wait_s(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds of a ``Retry-After`` header, or None without a readable one.

    Args:
        headers: with case-insensitive names.
        now: seconds since 1970 that a date is counted from; None is the clock.
    """
    value = headers.get("retry-after", "")
    with suppress(ValueError):
        seconds = float(value)
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    with suppress(ValueError):
        then = parsedate_to_datetime(value)
        aware = then if then.tzinfo else then.replace(tzinfo=UTC)  # without a zone it is in UTC
        return max(0.0, aware.timestamp() - (time.time() if now is None else now))
    return None
