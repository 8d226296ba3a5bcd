"""Middleware of every request: its id, access check, errors and log line."""

from __future__ import annotations

import logging

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from viper.serve import refusals
from viper.serve.auth import OPEN_PATHS
from viper.serve.note import RequestNote, keep_note, request_id_from
from viper.serve.records import encoded
from viper.serve.service import Service

LOG = logging.getLogger("viper.serve")

_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class Edge:
    """ASGI middleware around all routes."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        client = scope.get("client")
        note = RequestNote(
            request_id=request_id_from(headers.get("x-request-id")),
            method=scope["method"],
            path=scope["path"],
            client=client[0] if client else None,
        )
        keep_note(scope, note)

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                note.status = message["status"]
                MutableHeaders(scope=message).update({**_HEADERS, "X-Request-ID": note.request_id})
            await send(message)

        try:
            await self._pass(scope, receive, marked, headers, note)
        finally:
            self._finish(note)

    async def _pass(
        self, scope: Scope, receive: Receive, send: Send, headers: Headers, note: RequestNote
    ) -> None:
        try:
            if self._service.closing and note.path not in OPEN_PATHS:
                raise refusals.ShuttingDownError
            self._service.gatekeeper.check(note.path, headers)
            await self._app(scope, receive, send)
        except Exception as raised:  # noqa: BLE001 - the boundary of one request
            error = refusals.ClientGoneError() if isinstance(raised, ClientDisconnect) else raised
            note.fail(error)
            if note.status is None:
                await error_response(error, note.request_id)(scope, receive, send)

    def _finish(self, note: RequestNote) -> None:
        if note.outcome is None:
            note.outcome = "ok" if note.status is not None else "aborted"
        self._service.metrics.count_request(note)
        failed = note.error is not None and refusals.is_internal(note.error)
        line = note.line(with_words=self._service.settings.log_queries)
        LOG.log(logging.ERROR if failed else logging.INFO, "%s", line)


def error_response(error: BaseException, request_id: str) -> Response:
    """Return the JSON answer to an error."""
    return Response(
        encoded(refusals.error_body(error, request_id)),
        status_code=refusals.status_of(error),
        headers=error.headers if isinstance(error, refusals.Refusal) else None,
        media_type="application/json",
    )
