"""The demo's server: what it answers, what it refuses, who sees what."""

from __future__ import annotations

import importlib.util
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from tests.commands.test_bad_input import refused
from tests.web.demo_bench import WAIT_S, ServedDemo, served_demo
from tests.web.test_trace_page import HOSTILE
from viper.commands.demo import demo
from viper.errors import MissingExtraError
from viper.strategies import STRATEGIES
from viper.web.demo.manager import AnswerEvent, DemoQuestion
from viper.web.demo.session import DemoSession


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedDemo]:
    with served_demo(tmp_path_factory.mktemp("demo") / "run") as running:
        yield running


@pytest.mark.parametrize(
    "path",
    [
        "gradio_api/file=/etc/hostname",
        "gradio_api/file=setup.cfg",
        "gradio_api/file=http://127.0.0.1:1/",
        "gradio_api/proxy=http://127.0.0.1:1/",
        "gradio_api/info",
        "gradio_api/call/ask",
        "gradio_api/api/predict",
        "gradio_api/mcp/sse",
        "monitoring",
        "login",
        "docs",
        "openapi.json",
        "trace/asked-1/0123",
    ],
)
def test_what_the_page_never_asks_for_is_not_there(server: ServedDemo, path: str) -> None:
    assert httpx.get(server.address + path).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}],
    ids=str,
)
def test_pages_of_others_are_refused(server: ServedDemo, headers: dict[str, str]) -> None:
    assert httpx.get(server.address, headers=headers).status_code == 403


def test_the_page_names_no_other_machine(server: ServedDemo) -> None:
    answer = httpx.get(server.address)
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
    loaded = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(https?:[^\"]*)", answer.text)
    assert loaded == []
    style = httpx.get(f"{server.address}theme.css").text
    assert "http" not in re.sub(r"http://www\.w3\.org[^'\"\s)]*", "", style)


def test_large_uploads_are_refused(server: ServedDemo, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"\0" * ((64 << 20) + 1)
    answer = httpx.post(
        f"{server.address}gradio_api/upload", files={"files": ("x.png", content)}, timeout=WAIT_S
    )
    assert answer.status_code == 413


def joined(server: ServedDemo, payload: dict[str, Any]) -> str:
    """What the page would be told after it handed over such an upload."""
    config = httpx.get(f"{server.address}config").json()
    (number,) = [one["id"] for one in config["dependencies"] if one["targets"][0][1] == "upload"]
    body = {"data": [None, payload], "fn_index": number, "session_hash": "mine"}
    sent = httpx.post(f"{server.address}gradio_api/queue/join", json=body)
    if sent.status_code != 200:
        return sent.text
    url = f"{server.address}gradio_api/queue/data"
    return httpx.get(url, params={"session_hash": "mine"}, timeout=WAIT_S).text


@pytest.mark.parametrize("number", [10**6, -7, "ask", None])
def test_an_event_that_the_page_does_not_have_is_one_line(
    server: ServedDemo, number: object
) -> None:
    body = {"data": [], "fn_index": number, "session_hash": "mine"}
    sent = httpx.post(f"{server.address}gradio_api/queue/join", json=body)
    assert sent.status_code >= 400 and sent.text != "Internal Server Error"


def test_no_file_or_address_is_read_on_behalf_of_a_visitor(
    server: ServedDemo, tmp_path: Path
) -> None:
    asked: list[str] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    file = tmp_path / "private.png"
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(file)
    with HTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        here = f"http://127.0.0.1:{other.server_address[1]}/x.png"
        for path in (str(file), here):
            for payload in ({"path": path}, {"path": path, "url": here}):
                said = joined(server, {**payload, "meta": {"_type": "gradio.FileData"}})
                assert '"success":false' in said.replace(" ", "") and "private" not in said
        other.shutdown()
        thread.join()
    assert asked == [] and file.exists()


def test_a_trace_page_is_for_who_asked(server: ServedDemo, tmp_path: Path) -> None:
    file = tmp_path / "grey.png"
    Image.fromarray(np.full((60, 100, 3), 128, np.uint8)).save(file)
    chosen = DemoSession().upload(file, tmp_path)
    last = list(server.manager.ask("me", DemoQuestion(chosen, f"how many {HOSTILE}?")))[-1]
    assert isinstance(last, AnswerEvent)
    from viper.web.demo.serving import DemoAddress

    guessed = DemoAddress.at("127.0.0.1").trace_address(last.row.sample_id)
    assert httpx.get(server.address + guessed[1:]).status_code == 404


def test_beyond_this_machine_the_address_holds_a_token(tmp_path: Path) -> None:
    with served_demo(tmp_path / "run", host="0.0.0.0") as server:
        assert len(httpx.URL(server.address).path) > 20
        root = server.address[: -len(httpx.URL(server.address).path)]
        assert httpx.get(root).status_code == 404
        assert httpx.get(f"{root}/config").status_code == 404
        assert httpx.get(f"{root}/guess/config").status_code == 404
        answer = httpx.get(server.address)
        assert answer.status_code == 200
        for address in re.findall(r'(?:src|href)="(\./assets/[^"]*)"', answer.text):
            assert httpx.get(server.address + address[2:]).status_code == 200


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'viper-reasoner\[demo\]"'):
        CliRunner().invoke(demo, [], standalone_mode=False, catch_exceptions=False)


def test_a_port_in_use_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = refused(capsys, "demo", "--port", port, "--out", str(tmp_path / "run"))
    assert f"cannot listen on 127.0.0.1:{port}" in said and not (tmp_path / "run").exists()


def test_help_imports_neither_gradio_nor_torch() -> None:
    program = (
        "import sys\nfrom viper.cli import main\ntry:\n    main(['demo', '--help'])\n"
        "except SystemExit:\n    pass\nassert not {'gradio', 'torch'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "--no-open" in done.stdout, done.stderr


def test_a_run_for_each_profile_and_strategy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from viper.web.demo import serving

    offered: list[Any] = []

    class Stopped:
        def run(self, sockets: list[socket.socket]) -> None: ...

    def make_server(managers: Any, _: Any, replayers: Any, *__: Any) -> Stopped:
        offered.extend(managers)
        assert list(replayers) == ["embedded", "embedded-small"]
        return Stopped()

    monkeypatch.setattr(serving, "make_server", make_server)
    arguments = ["--profile", "embedded", "--also", "embedded-small", "--port", "0", "--no-open"]
    CliRunner().invoke(
        demo, [*arguments, "--out", str(tmp_path / "run")], standalone_mode=False,
        catch_exceptions=False,
    )  # fmt: skip
    strategies = list(STRATEGIES)
    assert [each.name for each in offered] == [
        (profile, strategy) for profile in ("embedded", "embedded-small") for strategy in strategies
    ]
    folders = [each.opener.folder.name for each in offered]
    assert folders[0] == "run" and len(set(folders)) == len(folders)
    assert folders[strategies.index("seek")] == "run-embedded-seek"
