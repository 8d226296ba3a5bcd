"""Description of a search service on the web: address, path of its results, key, hosts.

Only http(s) addresses of the described hosts are fetched. The key comes from an environment
variable, is sent only to the service, and appears in no message, record or ``repr``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from viper.errors import UsageError
from viper.models.llm.retry import Backoff

_HOST = re.compile(r"\.?[a-z0-9_][a-z0-9_.:-]*")
_PLACES = ("{text}", "{limit}")


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
        if any(place in urlsplit(self.address).netloc for place in _PLACES):
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
        key = self._key()
        if key and self.key_header:
            return address, {self.key_header: f"{self.key_scheme} {key}".strip()}
        if key:
            parts = urlsplit(address)
            query = "&".join(filter(None, (parts.query, urlencode({self.key_parameter: key}))))
            address = urlunsplit(parts._replace(query=query))
        return address, {}

    def _key(self) -> str:
        if not self.key_env:
            return ""
        key = os.environ.get(self.key_env, "").strip()
        if not key or not (key.isascii() and key.isprintable()):
            raise UsageError(
                f"the environment variable {self.key_env} holds no key for {self.host}; export it"
            )
        return key


def host_of(address: Any) -> str | None:
    """Return the host of an http(s) address in lower case; None for anything else."""
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
