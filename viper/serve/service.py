"""The service behind ``viper serve`` and ``viper mcp``: its state, the edge around it, its process.

:func:`serve` opens the socket and runs uvicorn until a signal. :class:`Edge` gives each request its
id, log line and error. :class:`Service` loads the models before the first request, starts a job for
each, and drains them at the end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from contextlib import ExitStack
from types import FrameType
from typing import Any

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from viper.reasoner import Reasoner
from viper.serve.gate import OPEN_PATHS
from viper.serve.jobs import Admission, Job, Loading, Slot, Work, WorkerThreads
from viper.serve.replies import ClientGoneError, ShuttingDownError, error_response, is_internal
from viper.serve.request_log import Metrics, RequestNote
from viper.serve.settings import ServeSettings, address_of, listening_at

LOG = logging.getLogger("viper.serve")

# Seconds that a stopping server waits for runs that it has cancelled: a model's call under way ends
# within them, as a rule.
CANCEL_WAIT_S = 5.0

# Connections beside those of requests with a slot: health checks, rejections, idle ones.
SPARE_CONNECTIONS = 64

# Seconds for the head of a request, and connections of a client that may wait before it: half of
# the spare ones, so that a second client is served.
HEAD_S = 10.0
SILENT_CONNECTIONS = 32
_HEAD_BYTES = 16

# Long enough for callers that send one question after another, short enough that idle ones do not
# fill the spare connections.
KEEP_ALIVE_S = 10

ENDPOINTS = frozenset(
    {"/v1/run", "/v1/exec", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"}
)


class Service:
    """Reasoner with the state of a server around it.

    Attributes:
        closing: whether new requests are refused.
        jobs: waiting and running jobs.
    """

    def __init__(self, reasoner: Reasoner, settings: ServeSettings) -> None:
        self.reasoner, self.settings = reasoner, settings
        self.admission = Admission(settings.workers, settings.queue)
        self.metrics = Metrics(self.admission, ENDPOINTS)
        self.warmup = Loading(self._load)
        self.threads = WorkerThreads(settings.workers)
        self.closing = False
        self.jobs: set[Job] = set()

    def _load(self) -> None:
        try:
            self.reasoner.components.load()
        except Exception as error:
            LOG.error("warm-up failed: %s", error)
            raise

    def start_job(self, slot: Slot, work: Work, cleanup: ExitStack) -> Job:
        """Start a run.

        Raises:
            ShuttingDownError: the server began to stop while it read the request.
        """
        if self.closing:
            raise ShuttingDownError
        job = Job(slot, self.threads, work, cleanup.pop_all())
        self.jobs.add(job)
        job.task.add_done_callback(lambda _: self.jobs.discard(job))
        return job

    async def drain(self, grace_s: float | None = None) -> None:
        """Refuse new requests, let runs finish for the grace time, then cancel them."""
        self.closing = True
        await self._wait_for_jobs(self.settings.grace_s if grace_s is None else grace_s)
        self.stop_jobs()
        await self._wait_for_jobs(CANCEL_WAIT_S)

    def stop_jobs(self) -> None:
        """Cancel every run. Its callers get the error that the server is shutting down."""
        for job in list(self.jobs):
            job.stop(ShuttingDownError())

    async def _wait_for_jobs(self, timeout_s: float) -> None:
        tasks = [job.task for job in self.jobs]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)


class Edge:
    """ASGI middleware of every request: its id, errors, log line and metrics."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        note = RequestNote.begun(scope)

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                note.status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Cache-Control"] = "no-store"
                headers["X-Request-ID"] = note.request_id
            await send(message)

        try:
            if self._service.closing and note.path not in OPEN_PATHS:
                raise ShuttingDownError
            await self._app(scope, receive, marked)
        except Exception as raised:  # noqa: BLE001 - the boundary of one request
            error = ClientGoneError() if isinstance(raised, ClientDisconnect) else raised
            note.fail(error)
            if note.status is None:
                await error_response(error, note.request_id)(scope, receive, marked)
        finally:
            if note.outcome is None:
                note.outcome = "ok" if note.status is not None else "aborted"
            self._service.metrics.count_request(note)
            failed = note.error is not None and is_internal(note.error)
            line = note.line(with_words=self._service.settings.log_queries)
            LOG.log(logging.ERROR if failed else logging.INFO, "%s", line)


class LineFormatter(logging.Formatter):
    """Formats every log record as one line of JSON. Records of this server are JSON already."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if text.startswith("{"):
            return text
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return json.dumps({"level": record.levelname.lower(), "message": text})


class BoundedProtocol(H11Protocol):
    """Connection that has to send each request soon; of each client few may wait before one.

    Health checks are answered whatever the number of connections.
    """

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._concurrency = self.limit_concurrency
        self._await_head()
        silent = [
            each
            for each in self.connections
            if isinstance(each, BoundedProtocol) and each._is_silent()
            if (each.client or ("",))[0] == (self.client or ("",))[0]
        ]
        if len(silent) > SILENT_CONNECTIONS:
            min(silent, key=lambda each: each._begun)._close_silent()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._await_head()

    def _await_head(self) -> None:
        self._begun = self.loop.time()
        if self._head_timer is not None:
            self._head_timer.cancel()
        self._head_timer = self.loop.call_later(HEAD_S, self._close_silent)

    def _is_silent(self) -> bool:
        between = self.cycle is None or self.cycle.response_complete
        return between and not self.transport.is_closing()

    def _close_silent(self) -> None:
        if self._is_silent():
            self.transport.close()

    def handle_events(self) -> None:
        # Uvicorn asks this number when the head has come, so the path decides before.
        head = bytes(self.conn.trailing_data[0][:_HEAD_BYTES])
        is_check = head.startswith(tuple(f"GET {path} ".encode() for path in OPEN_PATHS))
        self.limit_concurrency = None if is_check else self._concurrency
        super().handle_events()


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
    service.warmup.wait(0.0)


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
        http=BoundedProtocol,
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
