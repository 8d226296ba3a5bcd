"""Access control: callers show the token; without a token, only this machine may call."""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from viper.serve.refusals import ForbiddenError, UnauthorizedError
from viper.serve.settings import ServeSettings, is_loopback

# Paths for load balancers, which need no token.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})


class Gatekeeper:
    """Checks a request by its headers, before its body is read."""

    def __init__(self, settings: ServeSettings) -> None:
        self._digest = _digest(settings.token.encode()) if settings.token else None

    def check(self, path: str, headers: Headers) -> None:
        """Raise if the request is not allowed.

        Raises:
            UnauthorizedError: the token is missing or wrong.
            ForbiddenError: the server has no token, and a foreign web page may have made a browser
                send this request.
        """
        if path in OPEN_PATHS:
            return
        if self._digest is not None:
            self._check_token(headers)
        else:
            check_local(headers)

    def _check_token(self, headers: Headers) -> None:
        values = headers.getlist("authorization")
        scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        # Digests have one length, so that the comparison does not reveal the token's length.
        right = hmac.compare_digest(_digest(token.strip().encode("latin-1")), self._digest or b"")
        if scheme.lower() != "bearer" or not right:
            raise UnauthorizedError("no valid token; send the header Authorization: Bearer TOKEN")


def check_local(headers: Headers) -> None:
    """Refuse requests that a foreign web page makes a browser send to this machine.

    Raises:
        ForbiddenError: ``Host`` is not a name of this machine, or ``Origin`` is another site.
    """
    host = headers.get("host", "")
    if not is_loopback(_hostname(host)):
        raise ForbiddenError("the Host header names another machine; ask 127.0.0.1 or use a token")
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        raise ForbiddenError("this request comes from a page of another origin; use a token")


def _hostname(host: str) -> str:
    """Return the name in a Host header without its port; empty if there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
