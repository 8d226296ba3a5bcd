"""Form and media of a request, with limits. Nothing in them is trusted."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message, Receive

from viper.errors import MediaError, UsageError
from viper.models.media import Media, media_from
from viper.serve.refusals import NotMultipartError, TooLargeError
from viper.serve.settings import ServeSettings

MAX_FIELDS = 128
MAX_FIELD_BYTES = 128 * 1024


async def read_form(request: Request, settings: ServeSettings) -> FormData:
    """Read the multipart form of a request, or the same fields in JSON with media in base64.

    Files of a form above a megabyte are stored on disk, unnamed.

    Raises:
        NotMultipartError: the body is neither a multipart form in UTF-8 nor JSON.
        TooLargeError: the body, or its declared length, is above the limit.
        UsageError: the form cannot be parsed, or has too many parts.
        MediaError: a medium in JSON is not base64.
    """
    is_json = _is_json(request.headers.get("content-type", ""))
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:18]) > settings.max_upload_bytes:
        raise _too_large(settings)
    bounded = Request(request.scope, _limit_size(request, settings))
    if is_json:
        return await asyncio.to_thread(_form_of_json, await bounded.body(), settings)
    try:
        return await bounded.form(
            max_files=settings.max_files, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES
        )
    except HTTPException as error:
        raise UsageError(f"the form cannot be read: {error.detail}") from None


def _is_json(header: str) -> bool:
    """Return whether a body is JSON; else it is a form."""
    kind, options = parse_options_header(header)
    is_json = kind == b"application/json"
    if not is_json and (kind != b"multipart/form-data" or not options.get(b"boundary")):
        raise NotMultipartError(
            "expected a multipart/form-data body with a boundary, or application/json"
        )
    if options.get(b"charset", b"utf-8").lower() not in (b"utf-8", b"utf8"):
        raise NotMultipartError("expected a body in UTF-8; leave the charset out")
    return is_json


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
    if len(texts) > settings.max_files or len(pairs) - len(texts) > MAX_FIELDS:
        raise UsageError(f"at most {settings.max_files} media and {MAX_FIELDS} fields are taken")
    media = [("media", _upload(text, number)) for number, text in enumerate(texts)]
    return FormData([*(pair for pair in pairs if pair[0] != "media"), *media])


def _upload(text: object, number: int) -> UploadFile:
    try:
        return UploadFile(io.BytesIO(base64.b64decode(text, validate=True)))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise MediaError(f"media{number}: not base64; send the file's bytes in base64") from None


def _limit_size(request: Request, settings: ServeSettings) -> Receive:
    """Count the bytes of the request's messages, since a length in a header is only a claim."""
    size = 0

    async def receive() -> Message:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > settings.max_upload_bytes:
            raise _too_large(settings)
        return message

    return receive


def _too_large(settings: ServeSettings) -> TooLargeError:
    return TooLargeError(
        f"the request is larger than {settings.max_upload_mb:g} MiB; send smaller media"
    )


@dataclass(frozen=True)
class RequestMedia:
    """Media of one request, not decoded yet.

    Attributes:
        uploads: uploaded files, in order.
        paths: files on the server, each under a media root; used instead of uploads.
        names: the paths as the caller wrote them.
    """

    uploads: tuple[UploadFile, ...] = ()
    paths: tuple[Path, ...] = ()
    names: tuple[str, ...] = ()

    def load(self) -> Media:
        """Decode the media. Blocks; uploads pass through a private temporary folder.

        Raises:
            MediaError: one of them cannot be read; names its number, or its path as given.
        """
        if self.paths:
            return _decode(self.paths, self.names)
        with tempfile.TemporaryDirectory(prefix="viper-serve-") as folder:
            # Numbers instead of the caller's names: suffixes make some decoders open other files.
            files = [Path(folder) / f"media{i}" for i in range(len(self.uploads))]
            for upload, path in zip(self.uploads, files, strict=True):
                with path.open("xb") as copy:
                    shutil.copyfileobj(upload.file, copy)
            return _decode(files, [path.name for path in files])


def _decode(paths: Sequence[Path], names: Sequence[str]) -> Media:
    """Decode the media of files. Error messages do not reveal where the files are."""
    try:
        return media_from(list(paths))
    except MediaError as error:
        message = str(error)
        for path, name in zip(paths, names, strict=True):
            message = message.replace(str(path), name)
        raise MediaError(message) from None


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
            resolved = _resolve(root, path)
            if resolved is not None:
                return resolved
    raise MediaError(
        f"{name[:200]!r}: no such file under a media root; give a path relative to one"
    )


def _resolve(root: Path, path: Path) -> Path | None:
    try:
        resolved = (root / path).resolve(strict=True)
        inside = resolved.is_relative_to(root.resolve(strict=True)) and resolved.is_file()
    except (OSError, ValueError, RuntimeError):  # missing, a zero byte, a loop of links
        return None
    return resolved if inside else None
