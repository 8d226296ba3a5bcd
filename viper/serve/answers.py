"""A job's events as an HTTP answer: one JSON object, or server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from viper.run_result import RunResult
from viper.schema import Trial
from viper.serve.jobs import Event, Job
from viper.serve.metrics import Metrics
from viper.serve.note import RequestNote
from viper.serve.records import encoded, result_json, trial_json
from viper.serve.refusals import ClientGoneError, DeadlineError, error_body

# Seconds after which a stream without events sends a comment.
HEARTBEAT_S = 15.0


class JobAnswer(Response):
    """Response with the result of a job. Stops the job at the deadline or if the caller leaves."""

    media_type = "application/json"

    def __init__(self, job: Job, note: RequestNote, metrics: Metrics, deadline_s: float) -> None:
        super().__init__()
        self._job, self._note, self._metrics = job, note, metrics
        self._deadline_s = deadline_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        left = max(0.0, self._deadline_s - self._note.seconds)
        timer = loop.call_later(left, self._job.stop, DeadlineError(self._deadline_s))
        watcher = asyncio.create_task(self._stop_when_gone(receive))
        try:
            await self._answer(scope, receive, send)
        finally:
            timer.cancel()
            watcher.cancel()
            self._job.stop(ClientGoneError())
            queued_s = self._job.queued_s
            self._note.facts["queued_s"] = None if queued_s is None else round(queued_s, 4)

    async def _stop_when_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._job.stop(ClientGoneError())

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        while isinstance(event := await self._job.next(), Trial):
            self.count(event)
        self.count(event)
        if isinstance(event, BaseException):
            raise event
        body = Response(result_json(event), media_type=self.media_type)
        await body(scope, receive, send)

    def count(self, event: Event) -> None:
        """Add an event to the metrics and the log record."""
        if isinstance(event, Trial):
            self._metrics.count_trial(event)
            self._note.facts["trials"] = self._note.facts.get("trials", 0) + 1
        elif isinstance(event, RunResult):
            self._metrics.count_usage(event.trace)
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
        async for event in self._events(send):
            self.count(event)
            if isinstance(event, Trial):
                await _send(send, _event(b"trial", trial_json(event)))
            elif isinstance(event, RunResult):
                await _send(send, _event(b"result", result_json(event)))
            else:
                body = error_body(event, self._note.request_id)
                await _send(send, _event(b"error", encoded(body)))
        await send({"type": "http.response.body", "body": b""})

    async def _events(self, send: Send) -> AsyncIterator[Event]:
        """Yield all events. Send a comment if there has been no event for a while."""
        event: Event | None = None
        while event is None or isinstance(event, Trial):
            coming = asyncio.ensure_future(self._job.next())
            while not (await asyncio.wait({coming}, timeout=HEARTBEAT_S))[0]:
                await _send(send, b": waiting\n\n")
            event = coming.result()
            yield event


def _event(name: bytes, data: bytes) -> bytes:
    return b"event: " + name + b"\ndata: " + data + b"\n\n"


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
