"""A search service on the web: its description, and what is fetched from it within limits.

:meth:`Fetcher.found` asks the service: the description makes address and headers
(:meth:`WebService.request`), each hop of a redirect is checked against the allowed hosts
(:meth:`WebService.allows`), temporary failures are retried, and the reply's list is found by its
path (:func:`at_path`). The key comes from an environment variable, is sent only to the service, and
appears in no message, record or ``repr``.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote, urlencode, urljoin, urlsplit, urlunsplit

from viper.errors import MissingExtraError, ModelError, UsageError
from viper.models.llm.retry import Backoff, TransientError, asked_wait_s

_HOST = re.compile(r"\.?[a-z0-9_][a-z0-9_.:-]*")

# Most redirects to follow, each to an allowed host. A search needs one or two; more is a circle.
MAX_HOPS = 3

# Statuses that pass by waiting; those from 500 on do as well.
_TEMPORARY = frozenset({408, 425, 429})
_MOVED = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True)
class WebService:
    """Description of a service that answers with JSON. Subclasses describe its items.

    Attributes:
        address: address of a search with ``{text}`` and, if the service takes it, ``{limit}``, for
            example ``https://search.example.org/find?q={text}&count={limit}``.
        items: dotted path of the list in the reply; empty if the reply is the list.
        hosts: further hosts that may be fetched from, for example ``img.example.org``;
            ``.example.org`` also allows all its subdomains.
        most: most items of one request.
        key_env: environment variable with the key; empty sends no key.
        key_header: header of the key; empty sends it as ``key_parameter``.
        key_scheme: text before the key in the header.
        key_parameter: address parameter of the key.
        timeout_s: time limit of one request, from connecting to its last byte.
        max_reply_bytes: largest size of a reply.
        backoff: retries of temporary failures.

    Raises:
        UsageError: an address, host or limit is invalid, or the address lacks ``{text}``.
    """

    __pydantic_config__ = {"extra": "forbid"}

    address: str
    items: str = "items"
    hosts: tuple[str, ...] = ()
    most: int = 50
    key_env: str = ""
    key_header: str = "Authorization"
    key_scheme: str = "Bearer"
    key_parameter: str = ""
    timeout_s: float = 20.0
    max_reply_bytes: int = 4 << 20
    backoff: Backoff = field(default=Backoff(max_retries=3))

    def __post_init__(self) -> None:
        if host_of(self.address) is None or "{text}" not in self.address:
            raise UsageError(
                "the address of the search is no http(s) address with {text} in it; "
                "expected one as https://search.example.org/?q={text}&count={limit}"
            )
        if any(place in urlsplit(self.address).netloc for place in ("{text}", "{limit}")):
            raise UsageError("the host of the search must not depend on what is asked")
        for host in self.hosts:
            if not _HOST.fullmatch(host):
                raise UsageError(
                    f"{host!r} is no host to fetch from; expected a name in small letters "
                    "as img.example.org, or .example.org for all names that end so"
                )
        if min(self.most, self.timeout_s, self.max_reply_bytes) <= 0:
            raise UsageError("a search on the web needs positive limits")
        if self.key_env and not (self.key_header or self.key_parameter):
            raise UsageError("a key needs key_header or key_parameter to be sent in")

    @property
    def host(self) -> str:
        """Return the service's host in lower case."""
        return host_of(self.address) or ""

    def allows(self, address: Any) -> bool:
        """Return whether an address is http(s) on the service's own host or one of ``hosts``."""
        host = host_of(address)
        return host is not None and any(
            host == each or (each.startswith(".") and f".{host}".endswith(each))
            for each in (self.host, *self.hosts)
        )

    def request(self, text: str, limit: int) -> tuple[str, Mapping[str, str]]:
        """Return address and headers of a search, with the key.

        Raises:
            UsageError: the key's variable is empty, or a header cannot hold its value.
        """
        address = self.address.replace("{text}", quote(text, safe=""))
        address = address.replace("{limit}", str(min(limit, self.most)))
        if not self.key_env:
            return address, {}
        key = os.environ.get(self.key_env, "").strip()
        if not key or not (key.isascii() and key.isprintable()):
            raise UsageError(
                f"the environment variable {self.key_env} holds no key for {self.host}; export it"
            )
        if self.key_header:
            return address, {self.key_header: f"{self.key_scheme} {key}".strip()}
        parts = urlsplit(address)
        query = "&".join(filter(None, (parts.query, urlencode({self.key_parameter: key}))))
        return urlunsplit(parts._replace(query=query)), {}


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

    def found(self, what: str, text: str, limit: int) -> tuple[Any, list[Any]]:
        """Ask the service; return its whole reply, and the first items in it.

        Args:
            what: kind of search, for messages: ``text`` or ``picture``.

        Raises:
            UsageError: the key is not set.
            ModelError: the service does not answer, refuses, or gives an invalid reply.
        """
        service = self._service
        address, headers = service.request(text, limit)
        reply = self.get(address, service.max_reply_bytes, headers, retry=True)
        try:
            value = json.loads(reply)
        except (ValueError, RecursionError):
            raise ModelError(
                f"{service.host}: answers with something else than JSON; "
                f"check the address of the {what} search"
            ) from None
        items = at_path(value, service.items)
        if not isinstance(items, list):
            raise ModelError(
                f"{service.host}: its reply has no list at {service.items!r}; "
                f"correct items of the {what} search"
            )
        return value, items[:limit]

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
        import httpx

        until = time.monotonic() + self._service.timeout_s
        for _ in range(MAX_HOPS + 1):
            if not self._service.allows(address):
                raise ModelError(
                    f"{host_of(address) or 'an address that is not http(s)'}: is not among the "
                    "hosts that the search may fetch from; add it to hosts to allow it"
                )
            plain = {"Accept-Encoding": "identity", **headers}
            try:
                with self._client.stream("GET", address, headers=plain) as reply:
                    if reply.status_code not in _MOVED:
                        return self._content(reply, most, until)
                    moved = urljoin(address, reply.headers.get("location", ""))
            except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
                # Leave the error's text out: it may quote an address that holds the key.
                raise TransientError(f"no complete answer ({type(error).__name__})") from None
            if urlsplit(moved)[:2] != urlsplit(address)[:2]:
                headers = {}
            address = moved
        raise ModelError(f"{host_of(address)}: sends on and on; at most {MAX_HOPS} times is meant")

    def _content(self, reply: Any, most: int, until: float) -> bytes:
        """Read the content of a reply, unless it is refused, packed, too long or too slow."""
        status, host = reply.status_code, reply.url.host
        if status in _TEMPORARY or status >= 500:
            raise TransientError(f"status {status}", asked_wait_s(reply.headers))
        if status != 200:
            raise ModelError(
                f"{host}: refused the request (status {status}); "
                "check the address and the key of the search"
            )
        if reply.headers.get("content-encoding", "identity") != "identity":
            raise ModelError(f"{host}: answers packed though plain was asked for")
        content = bytearray()
        for part in reply.iter_raw():
            content += part
            if len(content) > most:
                raise ModelError(f"{host}: sends more than {most:,} bytes; not fetched")
            if time.monotonic() > until:
                raise TransientError(f"no complete answer in {self._service.timeout_s:g} s")
        return bytes(content)


def host_of(address: Any) -> str | None:
    """Return the host of an http(s) address in lower case; None for anything else."""
    # a longer address carries data, and it stands in messages and logs
    if not isinstance(address, str) or not address.isprintable() or len(address) > 4_000:
        return None
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018, a port that is no number raises here
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or "\\" in address:
        return None
    return parts.hostname or None


def at_path(value: Any, path: str) -> Any:
    """Return the value at a dotted path of names or indices in a JSON value, or None."""
    for name in filter(None, path.split(".")):
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name[:9]) < len(value):
            value = value[int(name[:9])]
        else:
            return None
    return value
