"""Fields of the requests, with their checks and their OpenAPI description."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.datastructures import FormData, UploadFile

from viper.errors import UsageError
from viper.reasoner import MAX_QUERY_CHARACTERS, Reasoner, RunOptions
from viper.run_result import RunResult
from viper.schema import Task, Trial
from viper.serve.jobs import Work
from viper.serve.settings import ServeSettings
from viper.serve.uploads import RequestMedia, under_roots
from viper.strategies.settings import Setting, all_settings

MAX_OPTIONS = 64
MAX_TEXT = 200
MAX_PROGRAM_CHARACTERS = 64 * 1024

_REPEATABLE = {
    "options",
    "path",
    *(setting.name for setting in all_settings().values() if get_origin(setting.type) is tuple),
}

Option = Annotated[str, Field(min_length=1, max_length=500)]
RootPath = Annotated[str, Field(min_length=1, max_length=1000)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: str
    task: Task = Field("auto", description="What must come out.")
    options: list[Option] = Field(
        [], max_length=MAX_OPTIONS, description="Candidate answers, one a field."
    )
    path: list[RootPath] = Field(
        [], description="Files under a media root of the server, in place of uploads."
    )

    def work(self, reasoner: Reasoner, intake: RequestMedia) -> Work:
        """Build the work that answers the request; it decodes the media in its thread."""
        raise NotImplementedError


class RunForm(_Form):
    """Fields of ``POST /v1/run`` without files and settings; see :data:`RUN_FORM`."""

    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARACTERS,
        pattern=r"\S",
        description="The question, or what to find.",
    )
    strategy: str = Field("program", max_length=50, description="How to go about it.")

    def run_options(self) -> RunOptions:
        """Return the options as the Reasoner takes them."""
        return RunOptions(**self.model_dump(exclude={"query", "path"}))

    def work(self, reasoner: Reasoner, intake: RequestMedia) -> Work:
        """Build the work that answers the query."""
        options = self.run_options()

        def work(cancel: threading.Event) -> Iterator[Trial | RunResult]:
            yield from reasoner.stream(intake.load(), self.query, options, cancel=cancel)

        return work


def _field(setting: Setting) -> tuple[Any, Any]:
    """Return type and field of a setting in the form. None keeps the server's value."""
    declared = setting.declaration
    kind: Any = setting.type
    if declared.choices:
        kind = Literal[tuple(declared.choices)]
    elif kind is str:
        kind = Annotated[str, Field(max_length=MAX_TEXT)]
    elif kind is float:
        kind = Annotated[float, Field(allow_inf_nan=False)]
    if get_origin(setting.type) is tuple:
        kind = Annotated[list[kind], Field(max_length=MAX_OPTIONS)]
    elif declared.least is not None:
        kind = Annotated[kind, Field(ge=declared.least, le=declared.most)]
    return kind | None, Field(None, description=setting.help.replace("`", ""))


_FIELDS: dict[str, Any] = {
    setting.name: _field(setting) for setting in all_settings().values() if setting.declaration.http
}

# The form with a field for each setting that HTTP offers.
RUN_FORM = create_model(
    "RunForm", __base__=RunForm, __doc__="Fields of ``POST /v1/run``, files left out.", **_FIELDS
)


class ExecForm(_Form):
    """Fields of ``POST /v1/exec`` without files."""

    program: str = Field(
        min_length=1, max_length=MAX_PROGRAM_CHARACTERS, description="Python against the API."
    )
    query: str = Field(
        "", max_length=MAX_QUERY_CHARACTERS, description="What the program gets as its question."
    )

    def work(self, reasoner: Reasoner, intake: RequestMedia) -> Work:
        """Build the work that runs the program."""
        options = RunOptions(task=self.task, options=tuple(self.options))

        def work(cancel: threading.Event) -> Iterator[Trial | RunResult]:
            media = intake.load()
            result = reasoner.execute(self.program, media, self.query, options, cancel=cancel)
            yield from result.trace.trials
            yield result

        return work


Form = TypeVar("Form", bound=_Form)


def checked_form(model: type[Form], form: FormData) -> Form:
    """Check the text fields of a form and return its model.

    Raises:
        UsageError: a field is missing, unknown, out of range, or given twice.
    """
    values: dict[str, Any] = {}
    for name, value in form.multi_items():
        if name == "media":
            continue
        if isinstance(value, UploadFile):
            raise UsageError(f"{name[:50]}: a file; only media are sent as files")
        if name in _REPEATABLE:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise UsageError(f"{name[:50]}: given twice; expected once")
        else:
            values[name] = value
    return checked(model, values)


def checked(model: type[Form], values: Mapping[str, Any]) -> Form:
    """Return the form with these values.

    Raises:
        UsageError: a field is missing, unknown or out of range.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UsageError(_in_one_line(error)) from None


def media_of(form: FormData, paths: list[str], settings: ServeSettings) -> RequestMedia:
    """Return the media of a form, uploads or paths.

    Raises:
        UsageError: there are no media, too many media, uploads as well as paths, or text where a
            file is expected.
        MediaError: a path names no file under a media root.
    """
    uploads = form.getlist("media")
    if bool(uploads) == bool(paths):
        seen = "both uploads and paths" if uploads else "no media"
        raise UsageError(f"{seen}; expected files as `media`, or names of files as `path`")
    _check_count(len(uploads), settings)
    files = [upload for upload in uploads if isinstance(upload, UploadFile)]
    if len(files) < len(uploads):
        raise UsageError("media: text; expected a file (a part with a filename)")
    return RequestMedia(tuple(files)) if files else media_under_roots(paths, settings)


def media_under_roots(paths: list[str], settings: ServeSettings) -> RequestMedia:
    """Return the media that a caller names by their paths.

    Raises:
        UsageError: there are too many.
        UsageError, MediaError: see :func:`viper.serve.uploads.under_roots`.
    """
    _check_count(len(paths), settings)
    resolved = tuple(under_roots(path, settings.media_roots) for path in paths)
    return RequestMedia(paths=resolved, names=tuple(paths))


def _check_count(count: int, settings: ServeSettings) -> None:
    if count > settings.max_files:
        raise UsageError(f"{count} media; at most {settings.max_files} are taken")


def request_body(model: type[_Form], settings: ServeSettings) -> dict[str, Any]:
    """Return the OpenAPI description of a form with its files, and of the same in JSON."""
    schema = model.model_json_schema()
    schema["properties"]["media"] = {
        "type": "array",
        "items": {"type": "string", "format": "binary"},
        "maxItems": settings.max_files,
        "description": "Pictures, or one video.",
    }
    schema["properties"]["path"]["maxItems"] = settings.max_files
    texts = {**schema["properties"]["media"], "items": {"type": "string", "format": "byte"}}
    json_schema = {**schema, "properties": {**schema["properties"], "media": texts}}
    content = {
        "multipart/form-data": {"schema": schema},
        "application/json": {"schema": json_schema},
    }
    return {"requestBody": {"required": True, "content": content}}


def _in_one_line(error: ValidationError) -> str:
    problems = [
        f"{'.'.join(map(str, item['loc']))[:50]}: {item['msg']}"
        for item in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    return "; ".join(problems[:5])
