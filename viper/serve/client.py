"""Ask a running ``viper serve`` over HTTP, with the standard library alone.

:meth:`RemoteReasoner.run` sends a form with query, settings and files, and reads the reply as the
trace that a local run would have.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from viper.errors import UsageError, ViperError
from viper.models.media import Media, picture_from
from viper.models.vision.roles import Pixels
from viper.reasoner import RunOptions
from viper.record import RecordError, trace_from_record
from viper.run_result import RunResult
from viper.schema import Trial
from viper.strategies.answers import value_for

# A server that runs accepts at once, also when all its slots are taken.
_CONNECT_S = 10.0
# Longest silence before an answer; the server's own deadline is usually far shorter.
_ANSWER_S = 3600.0

_WRONG_REQUEST = {400, 413, 415, 422}


class ServerError(ViperError):
    """The server cannot be reached, or refused the request."""

    code = "server"


@dataclass(frozen=True)
class ServedResult(RunResult):
    """Result of a run elsewhere; the server sent the picture of an edit."""

    @property
    def picture(self) -> Pixels | None:
        return self.value if self.trace.task == "edit" else None


class RemoteReasoner:
    """Answers queries like a :class:`viper.reasoner.Reasoner`, by a server.

    Args:
        url: address of the server.
        token: what its callers must show, or None.
        files: the media of the queries, which are sent with every one.

    Raises:
        UsageError: ``url`` is no address of a server.
    """

    def __init__(self, url: str, token: str | None, files: Sequence[str]) -> None:
        address = urlsplit(url)
        with suppress(ValueError):  # of a port that is no number
            self._port = address.port
        right = address.scheme in ("http", "https") and address.hostname
        if not right or not hasattr(self, "_port"):
            raise UsageError(f"--server {url!r}: expected an address, as http://127.0.0.1:8000")
        self._url, self._address, self._token = url, address, token
        self._files = [Path(file) for file in files]

    def run(
        self,
        media: Media,
        query: str,
        request: RunOptions,
        *,
        on_trial: Callable[[Trial], None] | None = None,
    ) -> RunResult:
        """Answer a query; see :meth:`viper.reasoner.Reasoner.run`.

        Args:
            media: those of the files, for the result.

        Raises:
            ServerError, UsageError: there is no such server, or it refused or failed; has its
                message.
        """
        status, reply = self._post(query, request)
        try:
            values = json.loads(reply)
            if status != 200:
                advice = "; set VIPER_SERVE_TOKEN to the server's token" if status == 401 else ""
                refusal = f"{self._url}: {values['error']['message']} (status {status}){advice}"
                raise (UsageError if status in _WRONG_REQUEST else ServerError)(refusal)
            trace = trace_from_record(values)
            value = _pixels(values.get("picture"))
            if value is None and trace.answer is not None:
                value = value_for(trace.task, trace.answer, media)
            result = ServedResult(trace, media, value)
        except (ValueError, KeyError, TypeError, OSError) as error:
            reason = str(error) if isinstance(error, RecordError) else "no JSON of it"
            raise ServerError(
                f"{self._url}: status {status}, and the reply is not that of viper serve ({reason})"
            ) from None
        if on_trial is not None:
            for trial in trace.trials:
                on_trial(trial)
        return result

    def _post(self, query: str, request: RunOptions) -> tuple[int, bytes]:
        """Send a form with the files as ``media`` and return status and body of the reply."""
        boundary = secrets.token_hex(16)
        head = f"--{boundary}\r\nContent-Disposition: form-data; "
        named: dict[str, Any] = {"query": query, "task": request.task}
        like = tuple(",".join(map(str, box)) for box in request.like)
        named |= {"options": request.options, "like": like, "fields": request.fields}
        named |= request.changes
        parts: list[bytes] = []
        for name, value in named.items():
            for each in value if isinstance(value, tuple) else (value,):
                part = f'{head}name="{name}"\r\n\r\n{each}\r\n'
                parts.append(part.encode(errors="replace"))
        for path in self._files:
            start = f'{head}name="media"; filename="media"\r\n\r\n'
            parts += start.encode(), path.read_bytes(), b"\r\n"
        body = b"".join([*parts, f"--{boundary}--\r\n".encode()])
        kind = f"multipart/form-data; boundary={boundary}"
        headers = {"Content-Type": kind, "Accept": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        connect: Any = HTTPSConnection if self._address.scheme == "https" else HTTPConnection
        connection = connect(str(self._address.hostname), self._port, timeout=_CONNECT_S)
        try:
            connection.connect()
            connection.sock.settimeout(_ANSWER_S)
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before all was sent
                connection.request(
                    "POST", f"{self._address.path.rstrip('/')}/v1/run", body, headers
                )
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ServerError(
                f"{self._url}: no answer ({reason}); start one with viper serve, or give another "
                "--server"
            ) from None
        finally:
            connection.close()


def _pixels(data: str | None) -> Pixels | None:
    """Return the picture of an edit, a ``data:`` address of a PNG, as ``uint8 [H, W, 3]``."""
    if data is None:
        return None
    return picture_from(base64.b64decode(data.partition(",")[2]), "the server's picture")
