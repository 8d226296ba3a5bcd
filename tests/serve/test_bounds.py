"""Places, deadlines, callers that hang up, and what is counted and logged of all that."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.serve.bench import WAIT_S, Served, Writer, media, served


def body_of(server: Served, **headers: str) -> bytes:
    """A whole good request as bytes on the wire."""
    request = server.client.build_request(
        "POST", "/v1/run", files=media(), data={"query": "the leftmost cube"}, headers=headers
    )
    content = request.read()
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    return f"POST /v1/run HTTP/1.1\r\n{head}\r\n".encode() + content


def connect(server: Served) -> socket.socket:
    url = httpx.URL(server.url)
    made = socket.create_connection((url.host, url.port or 0))
    made.settimeout(WAIT_S)
    return made


def test_beyond_the_places_comes_429_and_later_200() -> None:
    writer = Writer(held=True)
    with served(writer, workers=1, queue=0) as server, ThreadPoolExecutor(1) as pool:
        first = pool.submit(server.run)
        assert writer.asked.wait(WAIT_S)
        assert server.metric("viper_in_flight") == 1
        refused = server.run()
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        writer.released.set()
        assert first.result().status_code == 200
        server.log.until(path="/v1/run", status=200)
        assert server.run().status_code == 200
        server.log.until(path="/v1/run", status=200)
        assert server.metric("viper_requests_total", endpoint="/v1/run", outcome="queue_full") == 1
        assert server.metric("viper_in_flight") == 0


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_caller_that_hangs_up_ends_its_run_and_frees_its_place(accept: str) -> None:
    writer = Writer(held=True)
    with served(writer, workers=1, queue=0) as server:
        with connect(server) as raw:
            raw.sendall(body_of(server, accept=accept))
            assert writer.asked.wait(WAIT_S)
        line = server.log.until(path="/v1/run")
        assert line["outcome"] == "client_gone" and "trials" not in line
        # The thread is still asking the writer: until it is back the place is taken.
        assert server.run().status_code == 429
        (job,) = server.service.jobs
        writer.released.set()
        while job in server.service.jobs:
            server.client.get("/healthz")
        assert server.metric("viper_trials_total", correction="first") == 0
        assert server.bench.detector.encoded == []
        assert server.run().status_code == 200


def test_a_caller_that_hangs_up_in_the_queue_is_not_run() -> None:
    writer = Writer(held=True)
    with served(writer, workers=1, queue=1) as server, ThreadPoolExecutor(1) as pool:
        first = pool.submit(server.run)
        assert writer.asked.wait(WAIT_S)
        with connect(server) as raw:
            raw.sendall(body_of(server))
            while len(server.service.jobs) < 2:
                server.client.get("/healthz")
        line = server.log.until(path="/v1/run")
        assert (line["outcome"], line["queued_s"]) == ("client_gone", None)
        while server.metric("viper_queued"):
            server.client.get("/healthz")
        writer.released.set()
        assert first.result().status_code == 200
        assert len(server.bench.llm.calls) == 1


def test_a_caller_that_hangs_up_while_sending_leaves_nothing() -> None:
    with served(workers=1, queue=0) as server:
        with connect(server) as raw:
            raw.sendall(body_of(server)[:-40])
            while not server.metric("viper_queued"):
                server.client.get("/healthz")
        assert server.log.until(path="/v1/run")["outcome"] == "client_gone"
        assert server.run().status_code == 200


def test_a_run_beyond_its_deadline() -> None:
    writer = Writer(held=True)
    with served(writer, workers=1, deadline_s=0.2) as server:
        answer = server.run()
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline")
        stream = server.run(headers={"Accept": "text/event-stream"})
        assert '"code":"deadline"' in stream.text
        for _ in range(2):
            server.log.until(path="/v1/run", outcome="deadline")
        assert server.metric("viper_requests_total", endpoint="/v1/run", outcome="deadline") == 2


def test_a_body_that_never_ends_meets_the_deadline_too() -> None:
    with served(workers=1, queue=0, deadline_s=0.2) as server, connect(server) as raw:
        raw.sendall(body_of(server)[:-40])
        assert raw.recv(1000).startswith(b"HTTP/1.1 504")
        assert server.log.until(path="/v1/run")["outcome"] == "deadline"
        assert server.service.admission.waiting == 0


def test_a_stream_without_news_says_that_it_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viper.serve.app.HEARTBEAT_S", 0.01)
    writer = Writer(held=True)
    with served(writer) as server:
        headers = {"Accept": "text/event-stream"}
        form = {"files": media(), "data": {"query": "the leftmost cube"}}
        with server.client.stream("POST", "/v1/run", headers=headers, **form) as answer:
            lines = answer.iter_lines()
            assert next(lines) == ": waiting"
            writer.released.set()
            assert "event: result" in list(lines)


def test_metrics_tell_runs_trials_and_tokens(server: Served) -> None:
    names = {
        "requests": ("viper_requests_total", {"endpoint": "/v1/run", "outcome": "answered"}),
        "seconds": ("viper_request_seconds_count", {"endpoint": "/v1/run"}),
        "trials": ("viper_trials_total", {"correction": "first"}),
        "calls": ("viper_llm_calls_total", {}),
        "tokens": ("viper_llm_tokens_total", {"kind": "completion"}),
    }
    before = {key: server.metric(name, **labels) for key, (name, labels) in names.items()}
    usage = server.run().json()["usage"]
    server.log.until(path="/v1/run")
    grown = {
        key: server.metric(name, **labels) - before[key] for key, (name, labels) in names.items()
    }
    assert grown == {
        "requests": 1,
        "seconds": 1,
        "trials": 1,
        "calls": 1,
        "tokens": usage["completion_tokens"],
    }
    text = server.client.get("/metrics").text
    assert 'viper_requests_total{endpoint="/v1/run",outcome="answered"}' in text
    assert "viper_queued 0.0" in text and "python_info" not in text


def test_callers_cannot_make_up_labels(server: Served) -> None:
    server.client.get("/made/up")
    assert "made" not in server.client.get("/metrics").text


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("run-7.a_B", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("a b", False),
        ("<script>", False),
        ('x","admin":"1', False),
        ("", False),
        ("\xe9", False),
    ],
)
def test_request_ids(server: Served, given: str, kept: bool) -> None:
    headers = {"X-Request-ID": given.encode("latin-1")}
    answer = server.client.get("/healthz", headers=headers)
    told = answer.headers["x-request-id"]
    assert (told == given) is kept
    assert server.log.until(request_id=told)["path"] == "/healthz"


def test_log_lines_are_lines_whatever_the_path(server: Served) -> None:
    server.client.get('/a%0d%0aX-Evil:%201%0a{"outcome":"ok"}')
    line = server.log.until(outcome="not_found")
    assert line["path"] == '/a\r\nX-Evil: 1\n{"outcome":"ok"}'
    assert all("\n" not in text and "\r" not in text for text in server.log.texts)


@pytest.mark.parametrize("wanted", [False, True])
def test_queries_are_logged_only_where_asked_for(wanted: bool) -> None:
    with served(log_queries=wanted) as server:
        server.run("my private cube")
        line = server.log.until(path="/v1/run")
    assert line.get("query") == ("my private cube" if wanted else None)
    assert (line["media"], line["task"], line["trials"], line["status"]) == (1, "ground", 1, 200)
    assert ("private" in "\n".join(server.log.texts)) is wanted
