"""The routes of ``viper serve``, from a request's form to a run, and from its events to an answer.

Each request passes :class:`~viper.serve.service.Edge` and the gate. :func:`submitted` takes a slot,
reads the form and starts a job; :class:`JobAnswer` sends its result as one JSON object, and
:class:`JobStream` its events as they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from viper.evaluate.reports.page import rendered_page
from viper.reasoner import Reasoner
from viper.record import RunRecord, outside
from viper.run_result import RunResult
from viper.schema import Trial, to_json
from viper.serve import forms, replies
from viper.serve.gate import AccessRules, Gate
from viper.serve.jobs import Event, Job
from viper.serve.request_log import RequestNote, note_of
from viper.serve.service import Edge, Service
from viper.serve.settings import ServeSettings

_TEMPLATES = Path(__file__).parent / "templates"

# Seconds after which a stream without events sends a comment: below the 30 to 60 s after which
# proxies commonly close a silent connection.
HEARTBEAT_S = 15.0

_GATE = replies.errors(401, 403, 500, 503)
_FORM = {**_GATE, **replies.errors(400, 413, 415, 422, 429, 504)}
_TEXT = {"content": {"text/plain": {"schema": {"type": "string"}}}}
_EVENT_STREAM = {
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
    "description": "The finished run; with `Accept: text/event-stream` its trials as they end, "
    "events `trial` and then `result` or `error`.",
}


def create_app(reasoner: Reasoner, settings: ServeSettings) -> FastAPI:
    """Build the application. Its routes share ``app.state.service``.

    The caller remains responsible for closing the reasoner.
    """
    service = Service(reasoner, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.warmup.start()
        try:
            yield
        finally:
            await service.drain(0.0)
            service.threads.close(timeout_s=0.0)

    app = FastAPI(
        title="viper",
        version=version("viper-reasoner"),
        description="Visual reasoning by programs.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    app.add_middleware(Gate, access=AccessRules.to_service(settings))
    app.add_middleware(Edge, service=service)  # around the gate, since it logs refusals too
    app.add_exception_handler(HTTPException, _http_error)

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        """Return the OpenAPI document as a page that loads nothing."""
        title = f"{app.title} {app.version}: the service"
        return HTMLResponse(
            rendered_page("docs.html", _TEMPLATES, title=title, document=app.openapi())
        )

    @app.get("/healthz", responses=replies.errors(500))
    async def healthz() -> replies.Health:
        """Report that the process is up."""
        return replies.Health()

    @app.get("/readyz", responses={**replies.errors(500), 503: {"model": replies.Readiness}})
    async def readyz(request: Request) -> replies.Readiness:
        """Report whether the models are loaded and requests are accepted."""
        status = "shutting_down" if service.closing else service.warmup.state
        readiness = replies.Readiness(status=status)
        if status != "ready":
            note_of(request.scope).outcome = status
            return JSONResponse(readiness.model_dump(), 503)  # type: ignore[return-value]
        return readiness

    @app.get("/metrics", response_class=Response, responses={200: _TEXT, **_GATE})
    async def metrics() -> Response:
        """Return counters for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @app.post(
        "/v1/run",
        response_model=RunRecord,
        responses={200: _EVENT_STREAM, **_FORM},
        openapi_extra=forms.request_body(forms.RUN_FORM, settings),
    )
    async def run(request: Request) -> Response:
        """Answer a query about pictures or a video."""
        job = await submitted(request, service, forms.RUN_FORM)
        kinds = request.headers.get("accept", "").lower().split(",")
        # by name only: */* means JSON
        streams = "text/event-stream" in (kind.partition(";")[0].strip() for kind in kinds)
        answer = JobStream if streams else JobAnswer
        return answer(job, note_of(request.scope), service)

    if settings.allow_exec:

        @app.post(
            "/v1/exec",
            response_model=RunRecord,
            responses=_FORM,
            openapi_extra=forms.request_body(forms.ExecForm, settings),
        )
        async def execute(request: Request) -> Response:
            """Run a program of the caller's own in the sandbox, with the server's models."""
            job = await submitted(request, service, forms.ExecForm)
            return JobAnswer(job, note_of(request.scope), service)

    return app


async def _http_error(request: Request, error: Exception) -> Response:
    """Answer unknown paths and methods in the shape of all errors."""
    assert isinstance(error, HTTPException)
    refusal = replies.RouteError(error)
    note = note_of(request.scope)
    note.fail(refusal)
    return replies.error_response(refusal, note.request_id)


async def submitted(request: Request, service: Service, model: type[forms.Form]) -> Job:
    """Start the run that a request asks for.

    The slot is taken before the body is read, which limits the number of bodies that arrive in
    parallel.

    Raises:
        Refusal: no slot is free, the body is too large or of another kind, the deadline passed, or
            the server is shutting down.
        UsageError, UnknownNameError, MediaError: the form has a wrong value.
    """
    note, settings = note_of(request.scope), service.settings
    with ExitStack() as cleanup:
        slot = service.admission.enter()
        cleanup.callback(slot.leave)
        try:
            async with asyncio.timeout(settings.deadline_s):
                form = await forms.read_form(request, settings)
        except TimeoutError:
            raise replies.DeadlineError(settings.deadline_s) from None
        for _, value in form.multi_items():
            if isinstance(value, UploadFile):
                cleanup.callback(value.file.close)
        fields = forms.checked_form(model, form)
        note.query = fields.query
        intake = forms.media_of(fields.path, settings, form.getlist("media"))
        note.facts["media"] = len(intake.uploads) + len(intake.paths)
        return service.start_job(slot, fields.work(service.reasoner, intake), cleanup)


class JobAnswer(Response):
    """Response with the result of a job. Stops the job at the deadline or if the caller leaves."""

    media_type = "application/json"

    def __init__(self, job: Job, note: RequestNote, service: Service) -> None:
        super().__init__()
        self._job, self._note, self._service = job, note, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        deadline_s = self._service.settings.deadline_s
        left_s = max(0.0, deadline_s - self._note.seconds)
        watcher = asyncio.create_task(self._stop_when_gone(receive))
        try:
            with self._job.limited(left_s, deadline_s):
                await self._answer(scope, receive, send)
        finally:
            watcher.cancel()
            queued_s = self._job.queued_s
            self._note.facts["queued_s"] = None if queued_s is None else round(queued_s, 4)

    async def _stop_when_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._job.stop(replies.ClientGoneError())

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        while isinstance(event := await self._job.next(), Trial):
            self.count(event)
        self.count(event)
        if isinstance(event, BaseException):
            raise event
        content = await asyncio.to_thread(replies.result_json, event)  # a picture takes seconds
        body = Response(content, media_type=self.media_type)
        await body(scope, receive, send)

    def count(self, event: Event) -> None:
        """Add an event to the metrics and the log record."""
        self._service.metrics.count_event(event)
        if isinstance(event, Trial):
            self._note.facts["trials"] = self._note.facts.get("trials", 0) + 1
        elif isinstance(event, RunResult):
            self._note.facts["task"] = event.trace.task
            self._note.outcome = "answered" if event.answer is not None else "no_answer"
        else:
            self._note.fail(event)


class JobStream(JobAnswer):
    """Response that streams a job: ``trial`` events, then ``result`` or ``error``."""

    media_type = "text/event-stream"

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        del self.headers["content-length"]
        self.headers["X-Accel-Buffering"] = "no"  # proxies pass events on as they come
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

        async def send_on(body: bytes) -> None:
            await send({"type": "http.response.body", "body": body, "more_body": True})

        event: Event | None = None
        while event is None or isinstance(event, Trial):
            coming = asyncio.ensure_future(self._job.next())
            while not (await asyncio.wait({coming}, timeout=HEARTBEAT_S))[0]:
                await send_on(b": waiting\n\n")
            event = coming.result()
            self.count(event)
            if isinstance(event, Trial):
                name, data = b"trial", replies.encoded(outside(to_json(event), event.sizes))
            elif isinstance(event, RunResult):
                name, data = b"result", await asyncio.to_thread(replies.result_json, event)
            else:
                body = replies.error_body(event, self._note.request_id)
                name, data = b"error", replies.encoded(body)
            await send_on(b"event: " + name + b"\ndata: " + data + b"\n\n")
        await send({"type": "http.response.body", "body": b""})
