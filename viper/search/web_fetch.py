"""Fetches an address over http(s), with limits on bytes, time, hops and hosts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any
from urllib.parse import urljoin, urlsplit

from viper.errors import MissingExtraError, ModelError
from viper.models.llm.retry import Backoff, TransientError, asked_wait_s
from viper.search.web_service import WebService, host_of

# Most redirects to follow, each to an allowed host.
MAX_HOPS = 3

_TEMPORARY = frozenset({408, 425, 429})
_MOVED = frozenset({301, 302, 303, 307, 308})


class Fetcher:
    """Fetches addresses within the hosts and limits of one service.

    Args:
        sleep: waits between attempts.

    Raises:
        MissingExtraError: ``httpx`` is not installed.
    """

    def __init__(self, service: WebService, sleep: Callable[[float], None] = time.sleep) -> None:
        try:
            import httpx
        except ModuleNotFoundError:
            raise MissingExtraError("httpx", "a search on the web") from None
        self._service, self._sleep, self._random = service, sleep, Random(0)
        self._client = httpx.Client(follow_redirects=False, timeout=service.timeout_s)

    def get(
        self, address: str, most: int, headers: Mapping[str, str] | None = None, *, retry: bool
    ) -> bytes:
        """Fetch the bytes at an address.

        Args:
            most: most bytes to read.
            headers: headers that are sent only to this address's host.
            retry: whether temporary failures are retried.

        Raises:
            ModelError: the host is not allowed, refuses or fails, or the reply is too long or slow.
        """
        from tenacity import Retrying

        backoff = self._service.backoff if retry else Backoff(max_retries=0)
        policy = backoff.policy(host_of(address) or "an address", self._random)
        retrying = Retrying(**policy, sleep=self._sleep)
        return retrying(self._follow, address, most, headers or {})

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _follow(self, address: str, most: int, headers: Mapping[str, str]) -> bytes:
        """Fetch the bytes at an address and follow redirects."""
        until = time.monotonic() + self._service.timeout_s
        for _ in range(MAX_HOPS + 1):
            if not self._service.allows(address):
                raise ModelError(
                    f"{host_of(address) or 'an address that is not http(s)'}: is not among the "
                    "hosts that the search may fetch from; add it to hosts to allow it"
                )
            content, moved = self._fetch_once(address, most, headers, until)
            if moved is None:
                return content
            if urlsplit(moved)[:2] != urlsplit(address)[:2]:
                headers = {}
            address = moved
        raise ModelError(f"{host_of(address)}: sends on and on; at most {MAX_HOPS} times is meant")

    def _fetch_once(
        self, address: str, most: int, headers: Mapping[str, str], until: float
    ) -> tuple[bytes, str | None]:
        """Return the content, or the address that it has moved to."""
        import httpx

        plain = {"Accept-Encoding": "identity", **headers}
        try:
            with self._client.stream("GET", address, headers=plain) as reply:
                if reply.status_code in _MOVED:
                    return b"", urljoin(address, reply.headers.get("location", ""))
                self._check(reply, address)
                return self._content(reply, most, until), None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            # Leave the error's text out: it may quote an address that holds the key.
            raise TransientError(f"no complete answer ({type(error).__name__})") from None

    def _check(self, reply: Any, address: str) -> None:
        status = reply.status_code
        if status in _TEMPORARY or status >= 500:
            raise TransientError(f"status {status}", asked_wait_s(reply.headers))
        if status != 200:
            raise ModelError(
                f"{host_of(address)}: refused the request (status {status}); "
                "check the address and the key of the search"
            )
        if reply.headers.get("content-encoding", "identity") != "identity":
            raise ModelError(f"{host_of(address)}: answers packed though plain was asked for")

    def _content(self, reply: Any, most: int, until: float) -> bytes:
        parts, size = [], 0
        for part in reply.iter_raw():
            parts.append(part)
            size += len(part)
            if size > most:
                raise ModelError(f"{reply.url.host}: sends more than {most:,} bytes; not fetched")
            if time.monotonic() > until:
                raise TransientError(f"no complete answer in {self._service.timeout_s:g} s")
        return b"".join(parts)
