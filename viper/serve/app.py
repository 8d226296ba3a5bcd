"""The routes, and the way from a request's form to a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from viper.evaluate.reports.page import rendered_page
from viper.reasoner import Reasoner
from viper.record import RunRecord
from viper.serve import forms
from viper.serve.answers import JobAnswer, JobStream
from viper.serve.edge import Edge, error_response
from viper.serve.jobs import Job
from viper.serve.metrics import CONTENT_TYPE
from viper.serve.note import note_of
from viper.serve.records import Health, Readiness, errors
from viper.serve.refusals import DeadlineError, RouteError
from viper.serve.service import Service
from viper.serve.settings import ServeSettings
from viper.serve.uploads import read_form

_TEMPLATES = Path(__file__).parent / "templates"
_GATE = errors(401, 403, 500, 503)
_FORM = {**_GATE, **errors(400, 413, 415, 422, 429, 504)}
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
    app = FastAPI(
        title="viper",
        version=version("viper-reasoner"),
        description="Visual reasoning by programs.",
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    app.add_middleware(Edge, service=service)
    app.add_exception_handler(HTTPException, _http_error)
    _add_docs(app)
    _add_health(app, service)
    _add_run(app, service)
    if settings.allow_exec:
        _add_exec(app, service)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    service: Service = app.state.service
    service.warmup.start()
    try:
        yield
    finally:
        await service.drain(0.0)
        service.threads.close(timeout_s=0.0)


def _add_docs(app: FastAPI) -> None:
    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        """Return the OpenAPI document as a page that loads nothing."""
        title = f"{app.title} {app.version}: the service"
        return HTMLResponse(
            rendered_page("docs.html", _TEMPLATES, title=title, document=app.openapi())
        )


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", responses=errors(500))
    async def healthz() -> Health:
        """Report that the process is up."""
        return Health()

    @app.get("/readyz", responses={**errors(500), 503: {"model": Readiness}})
    async def readyz(request: Request) -> Readiness:
        """Report whether the models are loaded and requests are accepted."""
        status = "shutting_down" if service.closing else service.warmup.state
        readiness = Readiness(status=status)
        if status != "ready":
            note_of(request.scope).outcome = status
            return JSONResponse(readiness.model_dump(), 503)  # type: ignore[return-value]
        return readiness

    text = {"content": {"text/plain": {"schema": {"type": "string"}}}}

    @app.get("/metrics", response_class=Response, responses={200: text, **_GATE})
    async def metrics() -> Response:
        """Return counters for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)


def _add_run(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/run",
        response_model=RunRecord,
        responses={200: _EVENT_STREAM, **_FORM},
        openapi_extra=forms.request_body(forms.RUN_FORM, service.settings),
    )
    async def run(request: Request) -> Response:
        """Answer a query about pictures or a video."""
        job = await submitted(request, service, forms.RUN_FORM)
        return _answer(JobStream if _wants_events(request) else JobAnswer, job, request, service)


def _add_exec(app: FastAPI, service: Service) -> None:
    @app.post(
        "/v1/exec",
        response_model=RunRecord,
        responses=_FORM,
        openapi_extra=forms.request_body(forms.ExecForm, service.settings),
    )
    async def execute(request: Request) -> Response:
        """Run a program of the caller's own in the sandbox, with the server's models."""
        job = await submitted(request, service, forms.ExecForm)
        return _answer(JobAnswer, job, request, service)


def _answer(kind: type[JobAnswer], job: Job, request: Request, service: Service) -> Response:
    return kind(job, note_of(request.scope), service.metrics, service.settings.deadline_s)


def _wants_events(request: Request) -> bool:
    """Return whether the caller accepts event streams by name; ``*/*`` means JSON."""
    kinds = request.headers.get("accept", "").lower().split(",")
    return any(kind.partition(";")[0].strip() == "text/event-stream" for kind in kinds)


async def _http_error(request: Request, error: Exception) -> Response:
    """Answer unknown paths and methods in the shape of all errors."""
    assert isinstance(error, HTTPException)
    refusal = RouteError(error)
    note = note_of(request.scope)
    note.fail(refusal)
    return error_response(refusal, note.request_id)


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
                form = await read_form(request, settings)
        except TimeoutError:
            raise DeadlineError(settings.deadline_s) from None
        cleanup.callback(_close_files, form)
        fields = forms.checked_form(model, form)
        note.query = fields.query
        intake = forms.media_of(form, fields.path, settings)
        note.facts["media"] = len(intake.uploads) + len(intake.paths)
        return service.start_job(slot, fields.work(service.reasoner, intake), cleanup)


def _close_files(form: FormData) -> None:
    for _, value in form.multi_items():
        if isinstance(value, UploadFile):
            value.file.close()
