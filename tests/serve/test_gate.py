"""One gate before the five servers: a wrong token, host or origin gets nowhere at any of them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

import httpx
import pytest
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect

from tests.evaluate.run_samples import a_row
from tests.strategies.bench import Bench
from tests.web.demo_bench import served_demo
from tests.web.test_viewer import write
from viper.api.library import Library
from viper.serve.app import create_app
from viper.serve.gate import AccessRules
from viper.serve.mcp_server import PATH, create_mcp_app, create_server
from viper.serve.service import Service
from viper.serve.settings import ServeSettings
from viper.strategies.replay import Replayer
from viper.web.viewer.app import ViewedRun, Viewer, create_viewer
from viper.web.viewer.gallery import RunGallery
from viper.web.viewer.index import ViewerIndex

TOKEN = "correct-horse-battery-staple"
HERE = "127.0.0.1:8000"
REFUSED = {401, 403, 404}

Ask = Callable[..., int]
"""Send a request with these headers, and the right token unless ``token`` is another one."""


def of_service(app: ASGIApp, path: str, token: str | None) -> Ask:
    client = TestClient(app, base_url=f"http://{HERE}", raise_server_exceptions=False)

    def ask(shown: str | None = token, **headers: str) -> int:
        authorization = {} if shown is None else {"Authorization": f"Bearer {shown}"}
        return client.get(path, headers={**authorization, **headers}).status_code

    return ask


@contextmanager
def serve(folder: Path, token: str | None) -> Iterator[Ask]:
    with Bench([]) as bench:
        yield of_service(create_app(bench.reasoner, ServeSettings(token=token)), "/metrics", token)


@contextmanager
def mcp(folder: Path, token: str | None) -> Iterator[Ask]:
    with Bench([]) as bench:
        service = Service(bench.reasoner, ServeSettings(token=token))
        yield of_service(create_mcp_app(create_server(service), service), PATH, token)


@contextmanager
def env_app(token: str | None) -> Iterator[ASGIApp]:
    """The application of ``viper env serve`` around a stand-in of openenv's."""

    async def socket(websocket: WebSocket) -> None:
        await websocket.accept()
        await websocket.close()

    def application(*_: Any, **__: Any) -> Starlette:
        page = Route("/schema", lambda request: PlainTextResponse("of openenv"))
        return Starlette(routes=[page, WebSocketRoute("/ws", socket)])

    class Environment(Generic[TypeVar("A"), TypeVar("O"), TypeVar("S")]): ...  # type: ignore[misc]

    class State(BaseModel): ...

    fake = ModuleType("openenv.core.env_server")
    vars(fake).update(
        Action=BaseModel, Observation=BaseModel, State=State, Environment=Environment,
        create_app=application,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name in ("openenv", "openenv.core", fake.__name__):
            patch.setitem(sys.modules, name, fake)
        patch.delitem(sys.modules, "viper.env.openenv", raising=False)
        module = importlib.import_module("viper.env.openenv")
        stand_in: Any = None
        yield module.guarded_app(stand_in, stand_in, stand_in, ServeSettings(token=token), 1)
        patch.delitem(sys.modules, "viper.env.openenv")


@contextmanager
def env(folder: Path, token: str | None) -> Iterator[Ask]:
    with env_app(token) as app:
        yield of_service(app, "/schema", token)


def of_pages(client: httpx.Client, prefix: str) -> Ask:
    def ask(token: str | None = None, **headers: str) -> int:
        path = f"{prefix}/" if token is None else f"/{token}/"
        return client.get(path, headers=headers).status_code

    return ask


@contextmanager
def view(folder: Path, token: str | None) -> Iterator[Ask]:
    with ExitStack() as stack:
        store = stack.enter_context(write(folder / "run", [a_row(0)]))
        replayer = stack.enter_context(Replayer(Library()))
        viewed = ViewedRun("run", store, RunGallery(store, None))
        access = AccessRules.to_pages("127.0.0.1")
        app = create_viewer(Viewer((viewed,), ViewerIndex([store]), replayer, access))
        yield of_pages(TestClient(app, base_url=f"http://{HERE}"), access.prefix)


@contextmanager
def demo(folder: Path, token: str | None) -> Iterator[Ask]:
    with served_demo(folder / "run", "0.0.0.0" if token else "127.0.0.1") as server:
        address = httpx.URL(server.address)
        prefix = address.path.rstrip("/")
        with httpx.Client(base_url=address.copy_with(path="/"), timeout=30) as client:
            yield of_pages(client, prefix)


FACES = (serve, mcp, env, view, demo)


@pytest.mark.parametrize("face", FACES)
def test_a_wrong_token_gets_nowhere(face: Any, tmp_path: Path) -> None:
    with face(tmp_path, TOKEN) as ask:
        assert ask() not in REFUSED
        for wrong in ("", "x", TOKEN[:-1], f"{TOKEN}x"):
            assert ask(wrong) == (404 if face in (view, demo) else 401), wrong


FOREIGN = [
    {"Host": "evil.example"},
    {"Host": "evil.example:8000"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "evil.example", "Origin": "http://evil.example"},
    {"Origin": "http://evil.example"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "https://evil.example"},
]


@pytest.mark.parametrize("face", FACES)
def test_a_page_of_another_site_gets_nowhere(face: Any, tmp_path: Path) -> None:
    with face(tmp_path, None) as ask:
        assert ask() not in REFUSED
        for headers in FOREIGN:
            assert ask(**headers) == (404 if face is view else 403), headers
        if face is not view:  # whose forms have a hidden origin, and a token in their address
            assert ask(Origin="null") == 403


def test_another_site_may_not_send_forms_or_open_sockets(tmp_path: Path) -> None:
    access = AccessRules.to_pages("127.0.0.1")
    headers = [(b"host", HERE.encode()), (b"sec-fetch-site", b"same-site")]
    scope = {"type": "http", "path": f"{access.prefix}/", "headers": headers}
    access.check({**scope, "method": "GET"})
    for method in ("POST", "PUT", "DELETE"):
        with pytest.raises(Exception, match="not found"):
            access.check({**scope, "method": method})
    with env_app(None) as app, TestClient(app, base_url=f"http://{HERE}") as client:
        socket = f"ws://{HERE}/ws"
        with client.websocket_connect(socket):
            pass
        evil = {"Origin": "http://evil.example"}
        with pytest.raises(WebSocketDisconnect), client.websocket_connect(socket, headers=evil):
            pass


def test_beyond_this_machine_a_proxy_may_name_and_encrypt_pages(tmp_path: Path) -> None:
    access = AccessRules.to_pages("0.0.0.0")
    headers = [(b"host", b"viper.example"), (b"origin", b"https://viper.example")]
    access.check(
        {"type": "http", "method": "POST", "path": f"{access.prefix}/", "headers": headers}
    )
