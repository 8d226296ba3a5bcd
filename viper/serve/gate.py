"""The gate before every server: who may ask, by a request's headers, before its body is read.

Each face declares an :class:`AccessRules`, and :class:`Gate` refuses what it does not allow.

===================  ==============================  =====================================
face                 token                           Host and Origin must be this server's
===================  ==============================  =====================================
serve, mcp --http,   header ``Authorization``        without a token
env serve
view                 first part of the path          always; Host if only this machine may call
demo                 first part of the path, if      always; Host if only this machine may call
                     other machines may call
===================  ==============================  =====================================

A header with a token is proof enough: no page of another site can make a browser send it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from viper.serve import replies
from viper.serve.settings import ServeSettings, is_loopback

# Paths for load balancers, which send no token. They tell nothing about queries or models.
OPEN_PATHS = frozenset({"/healthz", "/readyz"})

# Browsers send these without asking a page of another site first, and they change nothing.
_READING = ("GET", "HEAD")


@dataclass(frozen=True)
class AccessRules:
    """Declares what a server checks of each request.

    Attributes:
        host: the address that the server listens on.
        token: what callers must show; None if only this machine may call.
        in_path: the token is the first part of the path, as in an address that a person opens,
            instead of a header. A wrong one hides that there is a server.
        open_paths: paths that everybody may ask.
        offers: whether there is anything at a path below the token.
    """

    host: str
    token: str | None = field(default=None, repr=False)
    in_path: bool = False
    open_paths: frozenset[str] = frozenset()
    offers: Callable[[str], bool] = lambda path: True

    @classmethod
    def to_service(cls, settings: ServeSettings) -> AccessRules:
        """Declare the access to a service, whose callers are programs."""
        return cls(settings.host, settings.token, open_paths=OPEN_PATHS)

    @classmethod
    def to_pages(
        cls,
        host: str,
        *,
        always_token: bool = True,
        offers: Callable[[str], bool] = lambda path: True,
    ) -> AccessRules:
        """Declare the access to pages, behind a random token unless only this machine may call."""
        # 144 random bits: nobody guesses them, and the address still fits in a line.
        token = secrets.token_urlsafe(18) if always_token or not is_loopback(host) else None
        return cls(host, token, in_path=True, offers=offers)

    @property
    def prefix(self) -> str:
        """Return what the paths of pages begin with: empty, or a slash and the token."""
        return f"/{self.token}" if self.in_path and self.token else ""

    def check(self, scope: Scope) -> None:
        """Raise if the request is not allowed.

        Raises:
            UnauthorizedError: the token of a service is missing or wrong.
            HiddenError: the token in the path is missing or wrong, another site sends a request
                that knows it, or there is nothing at the path.
            ForbiddenError: there is no token, and a foreign web page may have made a browser send
                this request.
        """
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        if path in self.open_paths:
            return
        headers = Headers(scope=scope)
        if self.token and not self.in_path:
            values = headers.getlist("authorization")
            scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
            right = _same(token.strip().encode("latin-1"), self.token)
            if scheme.lower() != "bearer" or not right:
                advice = "send the header Authorization: Bearer TOKEN"
                raise replies.UnauthorizedError(f"no valid token; {advice}")
            return
        if self.token:
            first, _, path = path.removeprefix("/").partition("/")
            if not _same(first.encode(), self.token):
                raise replies.HiddenError
            path = f"/{path}"
        foreign = self._foreign(headers, scope.get("method"))
        if foreign:
            raise replies.HiddenError if self.token else replies.ForbiddenError(foreign)
        if not self.offers(path):
            raise replies.HiddenError

    def _foreign(self, headers: Headers, method: str | None) -> str:
        """Return why a page of another site may have sent a request; empty if none can have."""
        host, origin = headers.get("host", ""), headers.get("origin")
        # A foreign name that resolves to this machine (DNS rebinding) makes the foreign page one
        # of the same origin, and only the Host header tells.
        if is_loopback(self.host) and not is_loopback(_hostname(host)):
            return "the Host header names another machine; ask 127.0.0.1 or use a token"
        own = [None, f"http://{host}"]
        if self.token:
            # TLS of a proxy; and pages without a referrer say null of their own forms.
            own += [f"https://{host}", "null"]
        site = headers.get("sec-fetch-site", "same-origin")
        if origin not in own or (method not in _READING and site != "same-origin"):
            return "this request comes from a page of another origin; use a token"
        return ""


class Gate:
    """ASGI middleware that lets only allowed requests through.

    Args:
        headers: headers of every answer that does not set them itself.
        refuse: builds the answer to a refused request. Without it the refusal is raised, for a
            middleware around this one.
    """

    def __init__(
        self,
        app: ASGIApp,
        access: AccessRules,
        headers: Mapping[str, str] | None = None,
        refuse: Callable[[replies.Refusal], Response] | None = None,
    ) -> None:
        self._app, self._access, self._refuse = app, access, refuse
        self._headers = headers or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
            await send(message)

        try:
            if scope["type"] != "lifespan":
                self._access.check(scope)
        except replies.Refusal as refusal:
            if self._refuse is None:
                raise
            if scope["type"] == "websocket":  # its handshake takes no answer but this
                await send({"type": "websocket.close", "code": 1008})
            else:
                await self._refuse(refusal)(scope, receive, marked)
        else:
            await self._app(scope, receive, marked)


def refused_in_json(refusal: replies.Refusal) -> Response:
    """Build the answer of a service to a refused request."""
    return replies.error_response(refusal, secrets.token_hex(8))


def refused_in_text(refusal: replies.Refusal) -> Response:
    """Build the answer of pages to a refused request."""
    return PlainTextResponse(f"{refusal}\n", refusal.status)


def _hostname(host: str) -> str:
    """Return the name in a Host header without its port; empty if there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _same(shown: bytes, token: str) -> bool:
    """Compare digests, which have one length, so that the time does not tell the token's."""
    digests = (hashlib.sha256(text).digest() for text in (shown, token.encode()))
    return hmac.compare_digest(*digests)
