"""Web applications behind a random token in the address. Without it, every page is not found."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs

import click
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from viper.serve.gate import AccessRules, Gate, refused_in_text
from viper.web.pages import static_file

# Most fields of a form; ours have up to three.
_FIELDS = 8


def behind_token(
    routes: Sequence[Route], access: AccessRules, policy: str, own: Path | None = None
) -> Starlette:
    """Build the application. Its routes and ``static/`` lie below ``/TOKEN/``.

    Args:
        policy: Content-Security-Policy of pages that set none themselves.
        own: a script or a style of the page's own below ``static/``.
    """

    async def static_response(request: Request) -> Response:
        served = static_file(request.path_params["name"], own)
        if served is None:
            raise HTTPException(404, "no such file")
        text, kind = served
        return Response(text, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})

    headers = {"Content-Security-Policy": policy, "Cache-Control": "no-store"}
    inner = [*routes, Route("/static/{name}", static_response, name="static")]
    return Starlette(
        routes=[Mount("/{token}", routes=inner)],
        middleware=[Middleware(Gate, access, headers, refused_in_text)],
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
    _server(app).run(sockets=[listening])


@contextmanager
def served_beside(app: Starlette, listening: socket.socket) -> Iterator[None]:
    """Serve the application in another thread until the end of the block."""
    server = _server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = server.force_exit = True
        thread.join()


def _server(app: Starlette) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
    )


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


async def _error_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Response(f"{error.detail}\n", error.status_code, media_type="text/plain")
