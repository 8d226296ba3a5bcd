"""Forms of the requests: their fields and media, with limits. Nothing in them is trusted.

:func:`read_form` reads a body, a multipart form or JSON; :func:`checked_form` checks its fields
against a model, and :func:`media_of` its files; :meth:`RunForm.work` decodes them and runs.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from viper.errors import MediaError, UsageError
from viper.models.decoding import MAX_PIXELS, limited
from viper.models.media import Media, media_from
from viper.reasoner import MAX_QUERY_CHARACTERS, Reasoner, RunOptions
from viper.run_result import RunResult
from viper.schema import Task, Trial
from viper.serve.jobs import Work
from viper.serve.replies import NotMultipartError, TooLargeError
from viper.serve.settings import ServeSettings
from viper.strategies.settings import Setting, all_settings
from viper.tools.tool_functions import MAX_EXAMPLES

# Each setting once and the longest list of options, with room.
MAX_FIELDS = 128
# The longest program in UTF-8, with room.
MAX_FIELD_BYTES = 128 * 1024
# Every option stands in the prompt and costs tokens.
MAX_OPTIONS = 64
# Texts of settings are names, for example of a fallback or a set of the API.
MAX_TEXT = 200
# The sandbox refuses longer programs in any case.
MAX_PROGRAM_CHARACTERS = 64 * 1024

Option = Annotated[str, Field(min_length=1, max_length=500)]
RootPath = Annotated[str, Field(min_length=1, max_length=1000)]


@dataclass(frozen=True)
class RequestMedia:
    """Media of one request, not decoded yet.

    Attributes:
        uploads: uploaded files, in order.
        paths: files on the server, each under a media root; used instead of uploads.
        names: the paths as the caller wrote them.
        pixels: most that are decoded of all media together.
    """

    uploads: tuple[UploadFile, ...] = ()
    paths: tuple[Path, ...] = ()
    names: tuple[str, ...] = ()
    pixels: int = MAX_PIXELS

    def load(self, cancel: threading.Event | None = None) -> Media:
        """Decode the media. Blocks; uploads pass through a private temporary folder.

        Args:
            cancel: ends the decoding soon after it is set.

        Raises:
            MediaError: one of them cannot be read; names its number, or its path as given, and does
                not reveal where the file is.
        """
        # files under a media root need no folder, and such a server may have nowhere to write
        copies = tempfile.TemporaryDirectory(prefix="viper-serve-") if self.uploads else None
        with copies or nullcontext("") as folder:
            files = list(zip(self.paths, self.names, strict=True))
            for number, upload in enumerate(self.uploads):
                # No name of the caller's: suffixes make some decoders open other files.
                path = Path(folder) / f"media{number}"
                files.append((path, path.name))
                with path.open("xb") as copy:
                    shutil.copyfileobj(upload.file, copy)
            try:
                with limited(cancel=cancel, pixels=self.pixels):
                    return media_from([path for path, _ in files])
            except MediaError as error:
                message = str(error)
                for path, name in files:
                    message = message.replace(str(path), name)
                raise MediaError(message) from None


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: str
    task: Task = Field("auto", description="What must come out.")
    options: list[Option] = Field(
        [], max_length=MAX_OPTIONS, description="Candidate answers, one a field."
    )
    like: list[Annotated[str, Field(max_length=MAX_TEXT)] | list[float]] = Field(
        [],
        max_length=MAX_EXAMPLES,
        description="Boxes of examples, x0,y0,x1,y1 in pixels from the top-left corner.",
    )
    fields: list[Option] = Field(
        [], max_length=MAX_OPTIONS, description="What to extract, each as name:type."
    )
    path: list[RootPath] = Field(
        [], description="Files under a media root of the server, in place of uploads."
    )


_REPEATABLE = {
    *(name for name, each in _Form.model_fields.items() if get_origin(each.annotation) is list),
    *(setting.name for setting in all_settings().values() if get_origin(setting.type) is tuple),
}


class RunForm(_Form):
    """Fields of ``POST /v1/run`` without files and settings; see :data:`RUN_FORM`."""

    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARACTERS,
        pattern=r"\S",
        description="The question, or what to find.",
    )

    def work(self, reasoner: Reasoner, intake: RequestMedia) -> Work:
        """Build the work that answers the query; it decodes the media in its thread."""
        options = RunOptions(**self.model_dump(exclude={"query", "path"}))

        def work(cancel: threading.Event) -> Iterator[Trial | RunResult]:
            media = intake.load(cancel)
            yield from reasoner.stream(media, self.query, options, cancel=cancel)

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
        """Build the work that runs the program; it decodes the media in its thread."""
        options = RunOptions(**self.model_dump(include={"task", "options", "like", "fields"}))

        def work(cancel: threading.Event) -> Iterator[Trial | RunResult]:
            media = intake.load(cancel)
            result = reasoner.execute(self.program, media, self.query, options, cancel=cancel)
            yield from result.trace.trials
            yield result

        return work


Form = TypeVar("Form", RunForm, ExecForm)


async def read_form(request: Request, settings: ServeSettings) -> FormData:
    """Read the multipart form of a request, or the same fields in JSON with media in base64.

    Files of a form above a megabyte are stored on disk, unnamed.

    Raises:
        NotMultipartError: the body is neither a multipart form in UTF-8 nor JSON.
        TooLargeError: the body, or its declared length, is above the limit.
        UsageError: the form cannot be parsed, or has too many parts.
        MediaError: a medium in JSON is not base64.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    is_json = kind == b"application/json"
    if not is_json and (kind != b"multipart/form-data" or not options.get(b"boundary")):
        raise NotMultipartError(
            "expected a multipart/form-data body with a boundary, or application/json"
        )
    if options.get(b"charset", b"utf-8").lower() not in (b"utf-8", b"utf8"):
        raise NotMultipartError("expected a body in UTF-8; leave the charset out")
    too_large = TooLargeError(
        f"the request is larger than {settings.max_upload_mb:g} MiB; send smaller media"
    )
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:18]) > settings.max_upload_bytes:
        raise too_large
    size = 0

    async def receive() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))  # counted, since a length in a header is a claim
        if size > settings.max_upload_bytes:
            raise too_large
        return message

    bounded = Request(request.scope, receive)
    if is_json:
        return await asyncio.to_thread(_form_of_json, await bounded.body(), settings)
    try:
        return await bounded.form(
            max_files=settings.max_files, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES
        )
    except HTTPException as error:
        raise UsageError(f"the form cannot be read: {error.detail}") from None


def _form_of_json(body: bytes, settings: ServeSettings) -> FormData:
    """Return the fields of a JSON object as a form: a list is a repeated field."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError("the body is not JSON") from None
    if not isinstance(fields, dict):
        raise UsageError("expected a JSON object with the fields of the form")
    pairs = [
        (name, value)
        for name, values in fields.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    texts = [value for name, value in pairs if name == "media"]
    form = [pair for pair in pairs if pair[0] != "media"]
    if len(texts) > settings.max_files or len(form) > MAX_FIELDS:
        raise UsageError(f"at most {settings.max_files} media and {MAX_FIELDS} fields are taken")
    for number, text in enumerate(texts):
        try:
            content = io.BytesIO(base64.b64decode(text, validate=True))
        except (TypeError, ValueError):
            advice = "send the file's bytes in base64"
            raise MediaError(f"media{number}: not base64; {advice}") from None
        form.append(("media", UploadFile(content)))
    return FormData(form)


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
        problems = [
            f"{'.'.join(map(str, item['loc']))[:50]}: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise UsageError("; ".join(problems[:5])) from None


def media_of(
    paths: Sequence[str], settings: ServeSettings, uploads: Sequence[UploadFile | str] = ()
) -> RequestMedia:
    """Return the media of a request: uploads, or files that it names by their paths.

    Raises:
        UsageError: there are no media, too many media, uploads as well as paths, or text where a
            file is expected.
        UsageError, MediaError: see :func:`under_roots`.
    """
    if bool(uploads) == bool(paths):
        seen = "both uploads and paths" if uploads else "no media"
        raise UsageError(f"{seen}; expected files as `media`, or names of files as `path`")
    count = len(uploads) + len(paths)
    if count > settings.max_files:
        raise UsageError(f"{count} media; at most {settings.max_files} are taken")
    files = tuple(upload for upload in uploads if isinstance(upload, UploadFile))
    if len(files) < len(uploads):
        raise UsageError("media: text; expected a file (a part with a filename)")
    resolved = tuple(under_roots(path, settings.media_roots) for path in paths)
    return RequestMedia(files, resolved, tuple(paths), round(settings.max_megapixels * 1e6))


def under_roots(name: str, roots: Sequence[Path]) -> Path:
    """Return the file that a caller names relative to a media root, with links resolved.

    Raises:
        UsageError: this server has no media roots.
        MediaError: no media root has such a file. The message is the same if the file is missing,
            lies outside or is not a file, so that callers learn nothing about it.
    """
    if not roots:
        raise UsageError("this server reads no files of its own; send the media as uploads")
    path = Path(name)
    if not path.is_absolute() and ".." not in path.parts:
        for root in roots:
            with suppress(OSError, ValueError, RuntimeError):  # missing, a zero byte, a link loop
                resolved = (root / path).resolve(strict=True)
                if resolved.is_relative_to(root.resolve(strict=True)) and resolved.is_file():
                    return resolved
    raise MediaError(
        f"{name[:200]!r}: no such file under a media root; give a path relative to one"
    )


def request_body(model: type[_Form], settings: ServeSettings) -> dict[str, Any]:
    """Return the OpenAPI description of a form with its files, and of the same in JSON."""
    content: dict[str, Any] = {}
    for kind, item in (("multipart/form-data", "binary"), ("application/json", "byte")):
        schema = model.model_json_schema()
        schema["properties"]["media"] = {
            "type": "array",
            "items": {"type": "string", "format": item},
            "maxItems": settings.max_files,
            "description": "Pictures, or one video.",
        }
        schema["properties"]["path"]["maxItems"] = settings.max_files
        content[kind] = {"schema": schema}
    return {"requestBody": {"required": True, "content": content}}
