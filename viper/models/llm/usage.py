"""Counts what a language model behind an endpoint costs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from viper.errors import UsageError

PRICED = ("prompt", "completion")


@dataclass(frozen=True)
class LLMUsage:
    """What was used so far.

    Attributes:
        requests: HTTP requests sent, repeated ones among them.
        retries: requests that repeat one which failed.
        prompt_tokens, completion_tokens: as the server counts them, else estimated; what
            a failed request cost is not known and not counted.
        cost_usd: tokens times price; None where no price was given.
    """

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None


class UsageCounter:
    """Adds up :class:`LLMUsage`; thread-safe.

    Args:
        price_per_million: US dollars for a million tokens, ``prompt`` and ``completion``.

    Raises:
        UsageError: a price of something else, one missing, or one below 0.
    """

    def __init__(self, price_per_million: Mapping[str, float] | None = None) -> None:
        if price_per_million is not None:
            _check_prices(price_per_million)
        self._prices = price_per_million
        self._total = LLMUsage()
        self._lock = threading.Lock()

    def request(self, *, repeated: bool) -> None:
        """Counts one request about to be sent."""
        with self._lock:
            total = self._total
            self._total = replace(
                total, requests=total.requests + 1, retries=total.retries + repeated
            )

    def tokens(self, prompt: int, completion: int) -> float | None:
        """Counts the tokens of one answered request; what they cost, as :meth:`price_usd`."""
        with self._lock:
            total = self._total
            self._total = replace(
                total,
                prompt_tokens=total.prompt_tokens + prompt,
                completion_tokens=total.completion_tokens + completion,
            )
        return self.price_usd(prompt, completion)

    def price_usd(self, prompt: int, completion: int) -> float | None:
        """What so many tokens cost; None where no price was given."""
        if self._prices is None:
            return None
        return (prompt * self._prices["prompt"] + completion * self._prices["completion"]) / 1e6

    def snapshot(self) -> LLMUsage:
        """What was used until now; does not change afterwards."""
        with self._lock:
            total = self._total
        cost_usd = self.price_usd(total.prompt_tokens, total.completion_tokens)
        return replace(total, cost_usd=cost_usd)


def _check_prices(prices: Mapping[str, float]) -> None:
    good = set(prices) == set(PRICED) and all(
        isinstance(price, int | float) and price >= 0 for price in prices.values()
    )
    if not good:
        raise UsageError(
            f"price_per_million must be {{ prompt = US dollars, completion = US dollars }}, "
            f"each 0 or more, not {dict(prices)!r}"
        )
