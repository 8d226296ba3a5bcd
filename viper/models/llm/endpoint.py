"""OpenAI-compatible endpoints: address, name in records, key, and usage with its cost.

A model of an endpoint finds its :class:`Endpoint` (:func:`find_endpoint`) and counts each request
in a :class:`UsageCounter`. The key is read from an environment variable and goes only into the
client. No name and no ``repr`` contains it, and it is removed from every error text that quotes the
endpoint.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from viper.errors import UsageError

OFFICIAL_URL = "https://api.openai.com/v1"

# Key for endpoints that need none, because the client requires one.
PLACEHOLDER = "no-key-needed"

_HIDDEN = "[key]"

# Shorter keys are words such as ``EMPTY``; to hide them would hide words of the message.
_SECRET = 8


@dataclass(frozen=True)
class Endpoint:
    """An address, the environment variable that holds its key, and the key."""

    base_url: str
    key_env: str
    key: str = field(repr=False)

    @property
    def official(self) -> bool:
        """Return True if this is OpenAI's own endpoint."""
        return urlsplit(self.base_url).hostname == urlsplit(OFFICIAL_URL).hostname

    @property
    def place(self) -> str:
        """Return host, port and path."""
        parts = urlsplit(self.base_url)
        return f"{parts.netloc}{parts.path.rstrip('/')}"

    def hiding_key(self, text: str) -> str:
        """Return the text with the key replaced; for messages that quote the endpoint, not for
        answers.

        A key too short to be a secret, such as ``EMPTY``, stays: it may be any word.
        """
        return text if len(self.key) < _SECRET else text.replace(self.key, _HIDDEN)


def find_endpoint(base_url: str | None = None, key_env: str = "OPENAI_API_KEY") -> Endpoint:
    """Return the endpoint at ``base_url``, else at ``OPENAI_BASE_URL``, else the official one.

    Raises:
        UsageError: an invalid address or one with a password; the official endpoint without a
            key; a key that no header can hold.
    """
    address = base_url or os.environ.get("OPENAI_BASE_URL") or OFFICIAL_URL
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or "@" in parts.netloc:
        raise UsageError(
            "base_url is no plain address; expected one as http://localhost:8000/v1, "
            "without user name and password"
        )
    key = os.environ.get(key_env, "").strip()
    endpoint = Endpoint(address, key_env, key or PLACEHOLDER)
    if not key and endpoint.official:
        raise UsageError(
            f"the environment variable {key_env} is empty and {address} needs a key; "
            "export it, or name another endpoint with base_url"
        )
    if not (key.isascii() and key.isprintable()):
        raise UsageError(
            f"the environment variable {key_env} holds characters that no key has; "
            "export the key alone"
        )
    return endpoint


@dataclass(frozen=True)
class LLMUsage:
    """Usage so far.

    Attributes:
        requests: HTTP requests sent, repeated ones included.
        retries: requests that repeat a failed one.
        prompt_tokens, completion_tokens: as the server counts them, else estimated. The tokens of
            a failed request are unknown and not counted.
        cached_tokens: those of the prompts that the server had kept from earlier requests.
        cost_usd: tokens times price, or None if the model has no known price.
    """

    requests: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None


class UsageCounter:
    """Adds up :class:`LLMUsage`; thread-safe.

    Args:
        price_per_million: US dollars for a million tokens: ``prompt``, ``completion``, and
            ``cached`` for tokens of a prompt that the server had kept, by default as the prompt's.

    Raises:
        UsageError: a price with another name, a missing one, or one below 0.
    """

    def __init__(self, price_per_million: Mapping[str, float] | None = None) -> None:
        self._prices = price_per_million
        if price_per_million is not None:
            good = [isinstance(p, int | float) and p >= 0 for p in price_per_million.values()]
            names = set(price_per_million) - {"cached"}
            if names != {"prompt", "completion"} or not all(good):
                raise UsageError(
                    "price_per_million must be { prompt = US dollars, completion = US dollars }, "
                    "with cached = US dollars if you like, each 0 or more, "
                    f"not {dict(price_per_million)!r}"
                )
        self._total = LLMUsage()
        self._lock = threading.Lock()

    def request(self, *, repeated: bool) -> None:
        """Count one request before it is sent."""
        self._add(requests=1, retries=int(repeated))

    def tokens(self, prompt: int, completion: int, cached: int = 0) -> float | None:
        """Count the tokens of one answered request and return their cost, as :meth:`price_usd`."""
        self._add(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached)
        return self.price_usd(prompt, completion, cached)

    def _add(self, **more: int) -> None:
        with self._lock:
            sums = {name: getattr(self._total, name) + count for name, count in more.items()}
            self._total = replace(self._total, **sums)

    def price_usd(self, prompt: int, completion: int, cached: int = 0) -> float | None:
        """Return the cost in dollars, or None if the model has no known price.

        Args:
            cached: how many of the prompt's tokens have the price ``cached``.
        """
        if self._prices is None:
            return None
        of_prompt, of_completion = self._prices["prompt"], self._prices["completion"]
        saved = cached * (of_prompt - self._prices.get("cached", of_prompt))
        return (prompt * of_prompt - saved + completion * of_completion) / 1e6

    def snapshot(self) -> LLMUsage:
        """Return the usage up to now; the result does not change afterwards."""
        with self._lock:
            total = self._total
        cost_usd = self.price_usd(total.prompt_tokens, total.completion_tokens, total.cached_tokens)
        return replace(total, cost_usd=cost_usd)
