"""Repeats a request that failed for a passing reason, ever later and never for ever.

The ``openai`` client can retry by itself, but shortens its waits by a quarter at most, so
that many clients turned away together come back together, draws from the process-wide
generator, repeats statuses that do not pass (409), and does not repeat an answer that
arrived with status 200 and cannot be read. Hence this loop, with the client's own off.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import Random
from typing import TypeVar

from viper.errors import ModelError, UsageError

Result = TypeVar("Result")


class TransientError(ModelError):
    """A request failed in a way that may pass.

    Attributes:
        asked_s: how long the server asked to wait, or None.
    """

    def __init__(self, message: str, asked_s: float | None = None) -> None:
        super().__init__(message)
        self.asked_s = asked_s


@dataclass(frozen=True)
class Backoff:
    """How often and how late to try again.

    Attributes:
        max_retries: tries after the first one.
        first_s: upper bound of the first wait; it doubles with every retry.
        limit_s: where the doubling ends.
        longest_asked_s: a server that asks for a longer wait is given up at once.
    """

    max_retries: int = 5
    first_s: float = 0.5
    limit_s: float = 30.0
    longest_asked_s: float = 120.0

    def __post_init__(self) -> None:
        if self.max_retries < 0:
            raise UsageError(f"max_retries is {self.max_retries}; it must be 0 or more")

    def wait_s(self, retry: int, asked_s: float | None, random: Random) -> float:
        """Seconds before a retry, counted from 0: anything up to the bound, full jitter.

        What the server asked for is waited in full, and then up to ``first_s`` more, so
        that those who were told the same time do not return in the same instant.
        """
        if asked_s is not None:
            return asked_s + random.uniform(0, self.first_s)
        return random.uniform(0, min(self.limit_s, self.first_s * 2 ** min(retry, 60)))


def retrying(
    attempt: Callable[[int], Result],
    place: str,
    *,
    backoff: Backoff,
    random: Random,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """What the first good attempt returns.

    Args:
        attempt: gets the number of the retry, 0 the first time.
        place: named in the error.
        random: draws the waits.

    Raises:
        ModelError: every attempt raised TransientError, or the server asked for a longer
            wait than ``backoff`` grants. What else an attempt raises is not retried.
    """
    for retry in range(backoff.max_retries + 1):
        try:
            return attempt(retry)
        except TransientError as error:
            seen, asked_s = str(error), error.asked_s
        if asked_s is not None and asked_s > backoff.longest_asked_s:
            raise ModelError(
                f"{place}: {seen}; it asks to wait {asked_s:.0f} s and at most "
                f"{backoff.longest_asked_s:.0f} s are waited; try again later"
            )
        if retry < backoff.max_retries:
            sleep(backoff.wait_s(retry, asked_s, random))
    raise ModelError(
        f"{place}: {seen}; given up after {backoff.max_retries + 1} tries; "
        "check the endpoint, or raise max_retries"
    )


def asked_wait_s(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """The seconds that a ``Retry-After`` header asks for; None without a readable one.

    Args:
        headers: with case-insensitive names.
        now: seconds since 1970 that a date is counted from; None is the clock.
    """
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        return _until(value, time.time() if now is None else now)
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until(date: str, now: float) -> float | None:
    try:
        then = parsedate_to_datetime(date)
    except ValueError:
        return None
    # A date without a zone is meant in Greenwich time.
    aware = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.fromtimestamp(now, UTC)).total_seconds())
