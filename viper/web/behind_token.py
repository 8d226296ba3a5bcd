"""Web applications behind a random token in the address. Without it, every page is not found."""

from __future__ import annotations

import hmac
import secrets
import socket
import webbrowser
from collections.abc import Callable, Collection, Mapping, Sequence
from urllib.parse import parse_qs

import click
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from viper.web.pages import static_file

# Most fields of a form.
_FIELDS = 8


def new_token() -> str:
    """Return a random token that cannot be guessed."""
    return secrets.token_urlsafe(18)


def behind_token(
    routes: Sequence[Route],
    token: str,
    policy: str,
    forms: Collection[str],
    static: Callable[[str], tuple[str, str] | None] = static_file,
) -> Starlette:
    """Build the application. Its routes and ``static/`` lie below ``/TOKEN/``.

    Args:
        policy: Content-Security-Policy of pages that set none themselves.
        forms: addresses below the token that accept forms of the application's own pages.
        static: returns text and media type of a file below ``static/``, or None.
    """

    async def static_response(request: Request) -> Response:
        served = static(request.path_params["name"])
        if served is None:
            raise HTTPException(404, "no such file")
        text, kind = served
        return Response(text, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})

    inner = [*routes, Route("/static/{name}", static_response, name="static")]
    return Starlette(
        routes=[Mount("/{token}", routes=inner)],
        middleware=[Middleware(_Gate, token=token, policy=policy, forms=frozenset(forms))],
        exception_handlers={HTTPException: _error_response},
    )


def serve_page(
    app: Starlette, listening: socket.socket, address: str, hint: str, *, open_browser: bool
) -> None:
    """Print the address and serve the application until Ctrl-C.

    Args:
        hint: line for stderr, below the address.
        open_browser: open the address in a browser.
    """
    click.echo(address)
    click.echo(hint, err=True)
    if open_browser:
        webbrowser.open(address)
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[listening])


async def form_of(request: Request, most_bytes: int) -> Mapping[str, str]:
    """Return the fields of a form, each with its first value.

    Raises:
        HTTPException: the body is too long or not a form.
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise HTTPException(413, "too much at once")
    try:
        fields = parse_qs(body.decode("ascii"), max_num_fields=_FIELDS, errors="replace")
    except ValueError:
        raise HTTPException(400, "not a form") from None
    return {name: values[0] for name, values in fields.items()}


class _Gate(BaseHTTPMiddleware):
    """Middleware that refuses callers without the token and foreign forms, and sets headers."""

    def __init__(self, app: ASGIApp, token: str, policy: str, forms: frozenset[str]) -> None:
        super().__init__(app)
        self._token, self._policy, self._forms = token, policy, forms

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        below = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        token, _, rest = below.removeprefix("/").partition("/")
        is_known = hmac.compare_digest(token.encode(), self._token.encode())
        if not is_known or not self._is_allowed(request, rest):
            return Response("not found\n", 404, media_type="text/plain")
        response = await call_next(request)
        response.headers.setdefault("Content-Security-Policy", self._policy)
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def _is_allowed(self, request: Request, rest: str) -> bool:
        """Return whether this is a page request, or a form that one of our pages sends."""
        if request.method != "POST":
            return request.method in ("GET", "HEAD")
        sent_by = request.headers.get("sec-fetch-site", "same-origin")
        return rest in self._forms and sent_by == "same-origin"


async def _error_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Response(f"{error.detail}\n", error.status_code, media_type="text/plain")
