"""A small HTTP server that speaks the OpenAI protocol on this machine, well or badly."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any, Literal

import numpy as np
from PIL import Image

GIVE_UP_S = 20.0
"""How long a held answer waits for the test; only ever used up by a test that fails."""

DRIP_S = 0.02
"""Between the bytes of an answer that drips, far below the time-outs of the tests."""


@dataclass(frozen=True)
class Received:
    """A request as it came in; names of headers in small letters."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]

    @property
    def prompt(self) -> Any:
        """What was asked, whichever API it came by."""
        messages = self.body.get("messages")
        return messages[0]["content"] if messages else self.body["prompt"]

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The parts of all messages in their order; plain text is one part."""
        contents = [message["content"] for message in self.body.get("messages", ())]
        return [
            part
            for content in contents
            for part in (
                content if isinstance(content, list) else [{"type": "text", "text": content}]
            )
        ]

    @property
    def words(self) -> str:
        """The texts of all messages."""
        return "\n".join(part["text"] for part in self.parts if part["type"] == "text")

    @property
    def pictures(self) -> list[np.ndarray[Any, Any]]:
        """The pictures of all messages, decoded."""
        links = [part["image_url"]["url"] for part in self.parts if part["type"] == "image_url"]
        data = [base64.b64decode(link.partition("base64,")[2]) for link in links]
        return [np.array(Image.open(BytesIO(each))) for each in data]


@dataclass(frozen=True)
class Answer:
    """One HTTP answer.

    Attributes:
        cut: hang up after so many bytes of the body.
        drip: after the headers, or before they are complete, one byte now and then until
            the client hangs up, instead of the rest.
    """

    body: str
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    drip: Literal["headers", "body"] | None = None


HELD = Answer("held", cut=0)
"""No answer until the server is closed, then a hang-up."""

Behaviour = Callable[[Received], Answer]


class OpenAIServer:
    """Serves on a free loopback port until closed.

    Args:
        script: answers to the first requests, in the order of their arrival.
        otherwise: answers all later ones.

    Attributes:
        received: every request so far.
        peak: the most requests that were under way at once.
        left: set once a client hung up before it had the whole answer.
    """

    def __init__(self, script: Iterable[Answer] = (), otherwise: Behaviour | None = None) -> None:
        self.received: list[Received] = []
        self.peak = 0
        self.closing = threading.Event()
        self.left = threading.Event()
        self._script = list(script)
        self._otherwise = otherwise or said()
        self._lock = threading.Lock()
        self._under_way = 0
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def close(self) -> None:
        """Lets go of held answers and stops serving."""
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()

    def answer(self, request: Received) -> Answer:
        """The answer to a request, by the script as long as it lasts."""
        with self._lock:
            self.received.append(request)
            self._under_way += 1
            self.peak = max(self.peak, self._under_way)
            scripted = self._script.pop(0) if self._script else None
        try:
            answer = scripted or self._otherwise(request)
            if answer is HELD:
                self.closing.wait(GIVE_UP_S)
            return answer
        finally:
            with self._lock:
                self._under_way -= 1


def said(
    text: Callable[[Received, int], str] = lambda request, index: f"said {request.prompt}",
    *,
    most: int | None = None,
    usage: tuple[int, int] | None = (7, 3),
) -> Behaviour:
    """Good answers: ``text`` of the request and the choice's number.

    Args:
        most: the server gives no more than so many choices.
        usage: prompt and completion tokens of each answer, None to leave them out.
    """

    def behave(request: Received) -> Answer:
        wanted = min(request.body["n"], most or request.body["n"])
        return completion([text(request, index) for index in range(wanted)], request.path, usage)

    return behave


def completion(
    texts: Iterable[str], path: str = "/v1/completions", usage: tuple[int, int] | None = (7, 3)
) -> Answer:
    """An answer with these texts, last choice first to see that the order is put right."""
    chat = path.endswith("/chat/completions")
    choices = [
        {
            "index": index,
            "finish_reason": "stop",
            **({"message": {"role": "assistant", "content": text}} if chat else {"text": text}),
        }
        for index, text in enumerate(texts)
    ]
    body: dict[str, Any] = {"id": "1", "object": "x", "choices": choices[::-1]}
    if usage is not None:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return Answer(json.dumps(body))


def refusal(status: int, message: str = "no", **fields: Any) -> Answer:
    """An error as OpenAI words it; ``headers`` by keyword, other fields go into the error."""
    headers = fields.pop("headers", {})
    return Answer(json.dumps({"error": {"message": message, **fields}}), status, headers)


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = server.answer(Received(self.path, body, headers))
            try:
                (self._drip if answer.drip else self._send)(answer)
            except OSError:
                self.close_connection = True
                server.left.set()

        def _send(self, answer: Answer) -> None:
            payload = answer.body.encode()
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload[: answer.cut])
            self.close_connection = answer.cut is not None

        def _drip(self, answer: Answer) -> None:
            self.close_connection = True
            self.send_response(answer.status)
            if answer.drip == "body":
                self.send_header("Content-Length", "1000000")
                self.end_headers()
            else:
                # The beginning of a header that never comes to its end.
                self.flush_headers()
            while not server.closing.wait(DRIP_S):
                self.wfile.write(b"x")

        def log_message(self, *arguments: object) -> None:
            pass

    return Handler
