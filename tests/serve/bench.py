"""A real server on a free port of this machine, over fake models and a scripted writer."""

from __future__ import annotations

import io
import json
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import httpx
import numpy as np
from PIL import Image

from tests.strategies.bench import Bench, picture
from viper.serve.app import create_app
from viper.serve.service import make_server
from viper.serve.settings import ServeSettings, listening_at

LEFTMOST = """def execute_command(image):
    return sort_patches_left_to_right(ImagePatch(image).find("cube"))[0]
"""
FAINT = """def execute_command(image):
    return ImagePatch(image).find("faint ball")[0]
"""
WAIT_S = 20
"""How long a test waits for what must happen; only a broken one waits so long."""


def png(shade: int = 128) -> bytes:
    """A small picture as a file."""
    stream = io.BytesIO()
    Image.fromarray(np.full_like(picture(), shade)).save(stream, "PNG")
    return stream.getvalue()


def media(*contents: bytes) -> list[tuple[str, Any]]:
    """The ``files`` argument of httpx."""
    return [("media", ("m", content)) for content in contents or (png(),)]


def stored_fields(kind: type[Any]) -> set[str]:
    """The names of a record's fields in JSON."""
    return {field.name for field in fields(kind) if "exclude" not in field.metadata}


class Writer:
    """Writes ``program`` whatever it is asked, once it is released.

    Attributes:
        asked: set when it is asked; it waits for ``released`` then.
    """

    def __init__(self, program: str = LEFTMOST, *, held: bool = False) -> None:
        self.program = program
        self.asked, self.released = threading.Event(), threading.Event()
        if not held:
            self.released.set()

    def __call__(self, prompt: str) -> str:
        self.asked.set()
        assert self.released.wait(WAIT_S)
        return self.program


class LogLines(logging.Handler):
    """The server's log lines as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._records: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self._records.put(json.loads(record.getMessage()))

    def until(self, **wanted: object) -> dict[str, Any]:
        """The next line with these values; earlier ones are dropped."""
        while True:
            record = self._records.get(timeout=WAIT_S)
            if all(record.get(key) == value for key, value in wanted.items()):
                return record


class Served:
    """A server that runs, with a client for it."""

    def __init__(self, bench: Bench, server: Any, url: str, log: LogLines) -> None:
        self.bench, self.server, self.url, self.log = bench, server, url, log
        self.service = server.service
        self.client = httpx.Client(base_url=url, timeout=WAIT_S)

    def run(self, query: str = "the leftmost cube", **fields: Any) -> httpx.Response:
        files = fields.pop("files", None) or media()
        headers = fields.pop("headers", None)
        return self.client.post(
            "/v1/run", files=files, data={"query": query, **fields}, headers=headers
        )

    def metric(self, name: str, **labels: str) -> float:
        """A value that ``/metrics`` would show; 0 before it was ever counted."""
        return self.service.metrics.registry.get_sample_value(name, labels) or 0.0


@contextmanager
def served(
    program: Callable[[str], str] | str = LEFTMOST, *, ready: bool = True, **settings: Any
) -> Iterator[Served]:
    """Runs a server while the block does."""
    writer = Writer(program) if isinstance(program, str) else program
    chosen = ServeSettings(**{"port": 0, "grace_s": 0.0, **settings})
    log = LogLines()
    logger = logging.getLogger("viper.serve")
    before = logger.level
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    with Bench(writer) as bench, listening_at(chosen.host, chosen.port) as listening:  # type: ignore[arg-type]
        app = create_app(bench.reasoner, chosen)
        server = make_server(app, app.state.service)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        made = Served(bench, server, f"http://127.0.0.1:{listening.getsockname()[1]}", log)
        try:
            made.client.get("/healthz")
            if ready:
                made.service.warmup.wait(WAIT_S)
                assert made.service.warmup.state == "ready"
            yield made
        finally:
            if isinstance(writer, Writer):
                writer.released.set()
            server.should_exit = True
            thread.join(WAIT_S)
            made.client.close()
            logger.removeHandler(log)
            logger.setLevel(before)
            assert not thread.is_alive()
