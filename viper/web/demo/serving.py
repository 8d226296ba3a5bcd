"""Server of the demo: access, addresses, browser policy and shutdown.

gradio has many routes (files, proxies, monitoring, an API). The routes that the page needs are
listed here; all others are not found. Media reach the page as data URLs, so no route that serves
files is among them.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.responses import PlainTextResponse

from viper.serve.gate import AccessRules, Gate, refused_in_text
from viper.strategies.replay import Replayer
from viper.web.demo.manager import SessionManager
from viper.web.demo.session import SceneSource
from viper.web.trace_page import Extras, replay_all, trace_page

# As in viper serve; phones' clips of some seconds fit.
MAX_UPLOAD_MB = 64
# Seconds to wait for open connections at shutdown, since pages never close theirs.
CLOSE_S = 1

_EXACT = {
    "/", "/config", "/theme.css", "/favicon.ico", "/manifest.json", "/robots.txt",
    "/gradio_api/queue/join", "/gradio_api/queue/data", "/gradio_api/upload",
    "/gradio_api/upload_progress", "/gradio_api/startup-events",
}  # fmt: skip
_BEGINNINGS = ("/assets/", "/static/", "/svelte/", "/gradio_api/heartbeat/", "/trace/")

# gradio's page evaluates its own templates and styles elements inline.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src data:; "
    "font-src 'self' data:; connect-src 'self'; frame-src 'self'; object-src 'none'; "
    "base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)
_TRACE_POLICY = "sandbox allow-scripts; frame-ancestors 'self'"


@dataclass(frozen=True)
class DemoAddress:
    """Addresses of the demo's pages.

    Attributes:
        access: who may ask; without a token, the prefix of all addresses is empty.
        secret: signs addresses of trace pages, so that only the asking visitor knows them.
    """

    access: AccessRules
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    @classmethod
    def at(cls, host: str) -> DemoAddress:
        """Build the addresses of a server that listens on this host."""
        return cls(AccessRules.to_pages(host, always_token=False, offers=_is_of_page))

    def trace_address(self, answer: str) -> str:
        """Return the address of an answer's trace page."""
        return f"{self.access.prefix}/trace/{answer}/{self._signature(answer)}"

    def signed(self, answer: str, signature: str) -> bool:
        """Return whether this address was issued by :meth:`trace_address`."""
        return hmac.compare_digest(self._signature(answer).encode(), signature.encode())

    def _signature(self, answer: str) -> str:
        return hmac.new(self.secret, answer.encode(), hashlib.sha256).hexdigest()[:32]


async def _unanswered(request: Any, error: Exception) -> PlainTextResponse:
    """Answer what gradio fails on, such as an event that its page does not have."""
    return PlainTextResponse("the demo cannot answer this; load the page again\n", 500)


def _is_of_page(path: str) -> bool:
    return path in _EXACT or path.startswith(_BEGINNINGS)


class DemoServer(uvicorn.Server):
    """Server (uvicorn) that stops running questions when it stops."""

    def __init__(self, config: uvicorn.Config, managers: Sequence[SessionManager]) -> None:
        super().__init__(config)
        self._managers = managers
        managers[0].opener.on_failure = self._end

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        for manager in self._managers:
            manager.stop_all()
        super().handle_exit(sig, frame)

    def _end(self) -> None:
        self.should_exit = True


@contextmanager
def private_folder() -> Iterator[Path]:
    """Create a temporary folder for visitors' files, and point gradio's uploads to it.

    Call this before importing gradio, which reads its variables at import.
    """
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    with tempfile.TemporaryDirectory(prefix="viper-demo-") as folder:
        os.environ["GRADIO_TEMP_DIR"] = str(Path(folder) / "uploads")
        uploads = Path(folder) / "sessions"
        uploads.mkdir()
        yield uploads


def make_server(
    managers: Sequence[SessionManager],
    place: DemoAddress,
    replayers: Mapping[str, Replayer],
    uploads: Path,
    scenes: SceneSource | None,
) -> DemoServer:
    """Build the server of the page and the trace pages; start to load the first manager's models.

    Its ``run`` takes a listening socket.

    Args:
        replayers: replays programs for trace pages, by name of the profile.
        scenes: draws what the page offers to ask about; None if visitors only upload.
    """
    import gradio as gr
    from fastapi import FastAPI
    from fastapi.responses import HTMLResponse

    from viper.errors import ViperError
    from viper.web.demo.page import DemoPage, theme
    from viper.web.pages import asset

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    @app.get(f"{place.access.prefix}/trace/{{answer}}/{{signature}}")
    def trace(answer: str, signature: str, steps_only: bool = False) -> Any:
        if not place.signed(answer, signature):
            return PlainTextResponse("not found\n", 404)
        number, _, sample_id = answer.partition("-")
        manager = managers[int(number)]
        try:
            run_trace, media = manager.run().trace(sample_id)
        except ViperError as error:
            return PlainTextResponse(f"{error}\n", 404)
        replays = replay_all(run_trace, media, replayers[manager.name[0]])
        html = trace_page(run_trace, media, replays, Extras(steps_only=steps_only))
        return HTMLResponse(html, headers={"Content-Security-Policy": _TRACE_POLICY})

    blocks = DemoPage(managers, uploads, place.trace_address, scenes).build()
    gr.mount_gradio_app(
        app,
        blocks,
        path=place.access.prefix or "/",
        footer_links=[],
        run_history=False,
        allowed_paths=[],
        show_error=False,
        max_file_size=MAX_UPLOAD_MB << 20,
        ssr_mode=False,
        enable_monitoring=False,
        pwa=False,
        mcp_server=False,
        theme=theme(),
        css=asset("demo.css"),
        app_kwargs={"exception_handlers": {Exception: _unanswered}},
    )
    # launch() would set this. Without it gradio accepts any path of this machine as an upload.
    blocks.has_launched = blocks.is_running = True
    config = uvicorn.Config(
        Gate(app, place.access, {"Content-Security-Policy": _POLICY}, refused_in_text),
        log_level="critical",
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        proxy_headers=False,
        timeout_graceful_shutdown=CLOSE_S,
    )
    server = DemoServer(config, managers)
    managers[0].opener.start()
    return server
