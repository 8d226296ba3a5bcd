"""Serves a model with vLLM while a command runs: ``python tests/vllm/serve.py -- COMMAND…``.

Run it with the Python of the environment that has vLLM; the command may use another one
and finds the server's address in VIPER_TEST_VLLM_URL. The exit code is the command's.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WRITER = Path(__file__).parents[2] / "viper" / "embedded" / "weights" / "writer_small"
NAME = "writer"
URL_VARIABLE = "VIPER_TEST_VLLM_URL"

# One GiB for keys and values, no compiler, and nothing is reported or downloaded.
SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TORCH_COMPILE_DISABLE": "1",
}


@contextmanager
def served(model: Path, log: Path, dtype: str, start_s: float) -> Iterator[str]:
    """The base URL of a server of that model, up for the length of the block.

    Raises:
        SystemExit: it ended or was not up in time; the end of its log is printed.
    """
    port = _free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(model), "--served-model-name", NAME, "--dtype", dtype]
    command += ["--enforce-eager", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("w") as stream:
        # A group of its own, so that its workers can be ended with it.
        server = subprocess.Popen(
            command,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, **SETTINGS},
            start_new_session=True,
        )
    try:
        _wait(server, port, log, start_s)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        _end(server)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(server: subprocess.Popen[bytes], port: int, log: Path, start_s: float) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    until = time.monotonic() + start_s
    while time.monotonic() < until and server.poll() is None:
        try:
            with opener.open(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    state = "ended" if server.poll() is not None else f"was not up after {start_s:.0f} s"
    raise SystemExit(f"{tail}\nserve: the vLLM server {state}; the end of its log is above")


def _end(server: subprocess.Popen[bytes]) -> None:
    for wish in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, wish)
            server.wait(20)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def main() -> int:
    """Serves, runs the command, ends the server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=WRITER, help="folder of the model")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--start-s", type=float, default=180.0, help="how long it may take")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    # Whoever ends this script ends the server with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        with served(options.model, log, options.dtype, options.start_s) as url:
            environment = {**os.environ, URL_VARIABLE: url}
            return subprocess.run(options.command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
