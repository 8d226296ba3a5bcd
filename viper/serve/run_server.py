"""Server process: socket, log, signals and shutdown."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from viper.errors import ModelError, ViperError
from viper.serve.service import CANCEL_WAIT_S, Service
from viper.serve.settings import address_of, listening_at

# Connections beside those of requests with a slot: health checks, rejections, idle ones.
SPARE_CONNECTIONS = 64

KEEP_ALIVE_S = 10


class LineFormatter(logging.Formatter):
    """Formats every log record as one line of JSON. Records of this server are JSON already."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if text.startswith("{"):
            return text
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return json.dumps({"level": record.levelname.lower(), "message": text})


class StoppingServer(uvicorn.Server):
    """Server (uvicorn) that drains on the first signal and stops at once on the second.

    Requests that arrive during draining get an error; uvicorn alone would refuse the connection.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.service.warmup.on_failure = self._stop_soon
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Do not call the base class, which would store the signal and end this process.
        self._stop_soon()

    def _stop_soon(self) -> None:
        if self._loop is None:
            self.should_exit = True
        else:
            self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._draining is None:
            self._draining = asyncio.ensure_future(self._drain())
        else:
            self.service.stop_jobs()
            self.should_exit = True

    async def _drain(self) -> None:
        try:
            await self.service.drain()
        finally:
            self.should_exit = True


def serve(app: ASGIApp, service: Service, path: str = "") -> None:
    """Serve an application until SIGTERM or SIGINT. Returns after the last request.

    Args:
        path: what the address that is printed ends with.

    Raises:
        UsageError: the server cannot listen on the address.
        ModelError, other ViperErrors: a model cannot be loaded, so the server stops.
    """
    _log_to_stderr()
    with listening_at(service.settings.host, service.settings.port) as listening:
        print(f"serving on {address_of(listening, path)}", file=sys.stderr, flush=True)
        make_server(app, service).run(sockets=[listening])
    error = service.warmup.error
    if isinstance(error, ViperError):
        raise error
    if error is not None:
        raise ModelError(f"a model cannot be loaded: {type(error).__name__}: {error}") from error


def make_server(app: ASGIApp, service: Service) -> StoppingServer:
    """Build the server around an application. Its ``run`` takes a listening socket."""
    settings = service.settings
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(CANCEL_WAIT_S),
        limit_concurrency=settings.workers + settings.queue + SPARE_CONNECTIONS,
    )
    return StoppingServer(config, service)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    for name, level in (("viper.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
