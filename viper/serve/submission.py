"""From a request's form to a run on its way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from viper.reasoner import Reasoner, RunResult
from viper.schema import Trial
from viper.serve.forms import ExecForm, Form, RunForm, checked_form, media_of
from viper.serve.jobs import Job, Work
from viper.serve.note import note_of
from viper.serve.refusals import DeadlineError
from viper.serve.service import Service
from viper.serve.uploads import Intake, read_form


async def submitted(
    request: Request,
    service: Service,
    model: type[Form],
    work_of: Callable[[Reasoner, Form, Intake], Work],
) -> Job:
    """The run that a request asks for.

    The place is taken before the body is read, so that no more bodies arrive at a time than
    there are places.

    Raises:
        Refusal: no place, a body too large or of another kind, too slow, or too late.
        UsageError, UnknownNameError, MediaError: what the form says is wrong.
    """
    note, settings = note_of(request.scope), service.settings
    with ExitStack() as cleanup:
        place = service.admission.enter()
        cleanup.callback(place.leave)
        try:
            async with asyncio.timeout(settings.deadline_s):
                form = await read_form(request, settings)
        except TimeoutError:
            raise DeadlineError(settings.deadline_s) from None
        cleanup.callback(_close_files, form)
        fields = checked_form(model, form)
        note.query = fields.query
        intake = media_of(form, fields.path, settings)
        note.facts["media"] = len(intake.uploads) + len(intake.paths)
        return service.start_job(place, work_of(service.reasoner, fields, intake), cleanup)


def run_work(reasoner: Reasoner, form: RunForm, intake: Intake) -> Work:
    """Answers the form's query."""
    options = form.run_options()

    def work(cancel: threading.Event) -> Iterator[Trial | RunResult]:
        yield from reasoner.stream(intake.load(), form.query, options, cancel=cancel)

    return work


def exec_work(reasoner: Reasoner, form: ExecForm, intake: Intake) -> Work:
    """Runs the form's program."""
    options = form.run_options()

    def work(cancel: threading.Event) -> Iterator[Trial | RunResult]:
        result = reasoner.execute(form.program, intake.load(), form.query, options, cancel=cancel)
        yield from result.trace.trials
        yield result

    return work


def _close_files(form: FormData) -> None:
    for _, value in form.multi_items():
        if isinstance(value, UploadFile):
            value.file.close()
