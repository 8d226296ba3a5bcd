"""Stopping: nothing new, what runs may finish or is cancelled, exit status 0."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.serve.bench import WAIT_S, Served, Writer, media, served
from tests.strategies.bench import Bench
from viper.serve.app import create_app
from viper.serve.service import serve
from viper.serve.settings import ServeSettings


def begin_to_stop(server: Served) -> None:
    """Sends the server the signal and waits until it has taken notice."""
    server.server.handle_exit(signal.SIGTERM, None)
    while server.client.get("/readyz").status_code != 503:
        pass


def test_runs_finish_while_new_ones_are_refused() -> None:
    writer = Writer(held=True)
    with served(writer, grace_s=WAIT_S) as server, ThreadPoolExecutor(1) as pool:
        first = pool.submit(server.run)
        assert writer.asked.wait(WAIT_S)
        begin_to_stop(server)
        refused = server.run()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        assert server.client.get("/readyz").json() == {"status": "shutting_down"}
        assert server.client.get("/healthz").status_code == 200
        writer.released.set()
        assert first.result().status_code == 200


def test_runs_beyond_the_grace_time_are_cancelled() -> None:
    writer = Writer(held=True)
    with served(writer, grace_s=0.0) as server, ThreadPoolExecutor(2) as pool:
        first = pool.submit(server.run)
        assert writer.asked.wait(WAIT_S)
        server.server.handle_exit(signal.SIGINT, None)
        answer = first.result()
        writer.released.set()
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
    assert server.bench.detector.encoded == []


def test_a_second_signal_does_not_wait_for_the_grace_time() -> None:
    writer = Writer(held=True)
    with served(writer, grace_s=10 * WAIT_S) as server, ThreadPoolExecutor(1) as pool:
        first = pool.submit(server.run)
        assert writer.asked.wait(WAIT_S)
        begin_to_stop(server)
        server.server.handle_exit(signal.SIGTERM, None)
        answer = first.result()
        assert answer.status_code == 503


def test_it_is_ready_when_the_models_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from viper.tools.models import ModelSet

    loading, let_go = threading.Event(), threading.Event()

    def slow(models: ModelSet) -> None:
        loading.set()
        assert let_go.wait(WAIT_S)

    monkeypatch.setattr(ModelSet, "load_all", slow)
    with served(ready=False) as server:
        assert loading.wait(WAIT_S)
        answer = server.client.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "loading"})
        let_go.set()
        server.service.warmup.wait(WAIT_S)
        assert server.service.warmup.state == "ready"
        assert server.client.get("/readyz").status_code == 200


def test_a_server_whose_models_cannot_be_loaded_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    from viper.errors import ModelError
    from viper.tools.models import ModelSet

    def broken(models: ModelSet) -> None:
        raise LookupError("no weights")

    monkeypatch.setattr(ModelSet, "load_all", broken)
    monkeypatch.setattr("viper.serve.service._log_to_stderr", lambda: None)
    with (
        Bench(Writer()) as bench,  # type: ignore[arg-type]
        pytest.raises(ModelError, match="a model cannot be loaded: LookupError: no weights"),
    ):
        app = create_app(bench.reasoner, ServeSettings(port=0))
        serve(app, app.state.service)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_ends_with_0(number: signal.Signals) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.serve.child_server"], stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    try:
        url = child.stderr.readline().strip().removeprefix("serving on ")
        form = {"files": media(), "data": {"query": "the leftmost cube"}}
        assert httpx.post(f"{url}/v1/run", timeout=WAIT_S, **form).status_code == 200
        child.send_signal(number)
        _, said = child.communicate(timeout=WAIT_S)
    finally:
        child.kill()
    assert child.returncode == 0, said
    assert all(line.startswith("{") for line in said.splitlines()), said
