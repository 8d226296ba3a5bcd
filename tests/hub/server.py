"""A small model hub: real HTTP, as the ``huggingface_hub`` client asks for it.

Large files are on a second port, as a hub's are on another host, and the hub redirects to them.
The server counts what it sends, and can break off, stop midway, refuse or forget its headers.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pytest import MonkeyPatch

TOKEN = "hf_right"
"""The token that opens gated and private repositories."""

PIECE = 1 << 14
_LARGE = {".safetensors", ".bin", ".h5", ".msgpack", ".onnx", ".pt"}


@dataclass
class Repository:
    """A repository of one revision.

    Attributes:
        gated: anybody sees its list of files, only ``TOKEN`` reads them.
        private: without ``TOKEN`` it does not exist.
    """

    files: dict[str, bytes]
    gated: bool = False
    private: bool = False

    @property
    def commit(self) -> str:
        digest = hashlib.sha1(usedforsecurity=False)
        for name, content in sorted(self.files.items()):
            digest.update(f"{name}\0{_sha256(content)}\0".encode())
        return digest.hexdigest()


@dataclass
class Hub:
    """The running server.

    Attributes:
        requests: method and path of all requests, in order.
        sent: bytes of content that were sent, by file name.
        ranges: file name and first byte of all requests for a part of a large file.
        authorized: ports of the requests that carried a token.
        break_after: connections for large files end after so many bytes, ``breaks`` times.
        stop_after: connections for large files stop after so many bytes, until ``go_on`` is set.
        status: answer to everything instead, if not 0.
    """

    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)
    ranges: list[tuple[str, int]] = field(default_factory=list)
    authorized: list[int] = field(default_factory=list)
    break_after: int | None = None
    breaks: int = 1
    stop_after: int | None = None
    stopped: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    status: int = 0
    url: str = ""
    large_url: str = ""

    def add(self, name: str, files: Mapping[str, bytes] | Path, **access: bool) -> Repository:
        """Serve a repository: its files by name, or a folder."""
        if isinstance(files, Path):
            paths = [path for path in files.rglob("*") if path.is_file()]
            files = {str(path.relative_to(files)): path.read_bytes() for path in paths}
        self.repositories[name] = Repository(dict(files), **access)
        return self.repositories[name]

    def environment(self, cache: Path) -> dict[str, str]:
        """Return the variables with which another process uses this hub and that cache."""
        variables = {"HF_ENDPOINT": self.url, "HF_HUB_CACHE": str(cache), "HF_HOME": str(cache)}
        return variables | {"HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1"}

    def use(self, monkeypatch: MonkeyPatch, cache: Path) -> None:
        """Make this process use this hub and that cache until the test ends."""
        use_endpoint(monkeypatch, self.url, cache)


def use_endpoint(monkeypatch: MonkeyPatch, url: str, cache: Path) -> None:
    """Make this process use the hub at ``url``; the client reads its variables when imported."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(cache / "no-token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # of a command that ran before
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def serve() -> Iterator[Hub]:
    """Run a hub on two free ports of this machine."""
    hub = Hub()
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub)) for _ in range(2)]
    hub.url, hub.large_url = (f"http://127.0.0.1:{each.server_port}" for each in servers)
    for server in servers:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield hub
    finally:
        hub.go_on.set()
        for server in servers:
            server.shutdown()
            server.server_close()


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            self.answer()

        def answer(self) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.requests.append((self.command, path))
            if "Authorization" in self.headers:
                hub.authorized.append(self.server.server_port)  # type: ignore[attr-defined]
            if hub.status:
                self.reply(hub.status)
            elif path.startswith("/large/"):
                self.large(path.removeprefix("/large/"))
            elif path == "/":
                self.reply(200)
            else:
                self.of_repository(path.strip("/"))

        def of_repository(self, path: str) -> None:
            is_api = path.startswith("api/models/")
            path = path.removeprefix("api/models/")
            name = next(
                (name for name in hub.repositories if f"{path}/".startswith(f"{name}/")), ""
            )
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if token and token != TOKEN:
                self.reply(
                    401, **{"X-Error-Message": "Invalid credentials in Authorization header"}
                )
            elif not name or (hub.repositories[name].private and not token):
                status = 404 if token else 401
                self.refuse(status, "RepoNotFound", "Repository not found")
            elif is_api:
                self.api(name, path.removeprefix(name).strip("/"))
            elif hub.repositories[name].gated and not token:
                message = f"Access to model {name} is restricted. You must be authenticated."
                self.refuse(401, "GatedRepo", message)
            else:
                self.resolve(name, path.removeprefix(f"{name}/resolve/"))

        def api(self, name: str, path: str) -> None:
            repository = hub.repositories[name]
            kind, _, revision = path.partition("/")
            if revision not in ("", "main", repository.commit):
                self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
                return
            described = [_described(*each) for each in sorted(repository.files.items())]
            if kind == "tree":
                tree = [
                    {"path": each.pop("rfilename"), "type": "file", **each} for each in described
                ]
                for each in tree:
                    each["oid"] = each.pop("blobId")
                    if "lfs" in each:
                        each["lfs"]["oid"] = each["lfs"].pop("sha256")
                self.reply(200, json.dumps(tree).encode())
            else:
                info = {"id": name, "sha": repository.commit, "siblings": described}
                self.reply(200, json.dumps(info).encode())

        def resolve(self, name: str, path: str) -> None:
            repository = hub.repositories[name]
            revision, _, file = path.partition("/")
            if revision not in ("main", repository.commit):
                self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
                return
            commit = {"X-Repo-Commit": repository.commit}
            if file not in repository.files:
                self.refuse(404, "EntryNotFound", "Entry not found", **commit)
                return
            content, described = repository.files[file], _described(file, repository.files[file])
            if "lfs" in described:
                sha = described["lfs"]["sha256"]
                linked = {"X-Linked-Etag": f'"{sha}"', "X-Linked-Size": str(len(content))}
                self.reply(302, Location=f"{hub.large_url}/large/{name}/{file}", **linked, **commit)
                return
            hub.sent[file] += len(content) if self.command == "GET" else 0
            self.reply(200, content, ETag=f'"{described["blobId"]}"', **commit)

        def large(self, path: str) -> None:
            name = next(name for name in hub.repositories if path.startswith(f"{name}/"))
            file = path.removeprefix(f"{name}/")
            content = hub.repositories[name].files[file]
            start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")[0])
            hub.ranges.append((file, start))
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            if start:
                span = f"bytes {start}-{len(content) - 1}/{len(content)}"
                self.send_header("Content-Range", span)
            self.end_headers()
            if self.command == "GET":
                self.send_content(file, content[start:])

        def send_content(self, file: str, content: bytes) -> None:
            limit = len(content)
            if hub.break_after is not None and hub.breaks:
                hub.breaks -= 1
                limit = hub.break_after
            stop = hub.stop_after if hub.stop_after is not None else limit + 1
            for start in range(0, min(limit, len(content)), PIECE):
                if start >= stop:
                    hub.stopped.set()
                    hub.go_on.wait()
                piece = content[start : min(start + PIECE, limit)]
                try:
                    self.wfile.write(piece)
                except OSError:  # the client has gone
                    self.close_connection = True
                    return
                hub.sent[file] += len(piece)
            self.close_connection = limit < len(content)

        def refuse(self, status: int, code: str, message: str, **more: str) -> None:
            self.reply(status, **{"X-Error-Code": code, "X-Error-Message": message}, **more)

        def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    return Handler


def _described(name: str, content: bytes) -> dict[str, Any]:
    header = f"blob {len(content)}\0".encode()
    oid = hashlib.sha1(header + content, usedforsecurity=False).hexdigest()
    described: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": oid}
    if Path(name).suffix in _LARGE:
        described["lfs"] = {"sha256": _sha256(content), "size": len(content), "pointerSize": 134}
    return described


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
