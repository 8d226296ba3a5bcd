"""Sends a file of each format that costs far more to decode than to send to ``viper serve``.

    python benchmarks/hostile_media.py [--deadline-s 10]

Each file comes with a question, and after it a small picture with one. Prints the seconds of both
and the most memory that the server and its processes held together. Exit status 1 if a file took
more than two seconds beyond the deadline, the small picture more than two, or memory exceeded
1.5 GB.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.hostile_media import HOSTILE
from tests.processes import descendants

QUESTION = "how many cubes are there?"
MORE_S, NEXT_S, MOST_MB = 2.0, 2.0, 1_500


def held_mb(pid: int) -> float:
    """Memory of a process and its descendants; what several share counts in part for each."""
    total = 0
    for each in (pid, *descendants(pid)):
        try:
            rollup = Path(f"/proc/{each}/smaps_rollup").read_text()
        except OSError:
            continue
        found = re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)
        total += int(found[1]) if found else 0
    return total / 1024


def _watch(pid: int, most: list[float], end: threading.Event) -> None:
    while not end.wait(0.05):
        most[0] = max(most[0], held_mb(pid))


def _send(client: httpx.Client, name: str, content: bytes) -> tuple[int, float]:
    begun = time.monotonic()
    files = {"media": (name, content)}
    answer = client.post("/v1/run", data={"query": QUESTION}, files=files)
    return answer.status_code, time.monotonic() - begun


def attack(client: httpx.Client, pid: int, deadline_s: float) -> bool:
    """Send all files; return whether every bound held."""
    shades = np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(shades).save(stream, "PNG")
    small, held = stream.getvalue(), True
    for _ in range(2):
        _send(client, "small.png", small)
    most, end = [0.0], threading.Event()
    threading.Thread(target=_watch, args=(pid, most, end), daemon=True).start()
    for kind, (name, make) in HOSTILE.items():
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder) / name)
            content = (Path(folder) / name).read_bytes()
        most[0] = 0.0
        status, seconds = _send(client, name, content)
        then, after = _send(client, "small.png", small)
        good = (
            seconds <= deadline_s + MORE_S and after <= NEXT_S and then == 200
            and most[0] <= MOST_MB
        )  # fmt: skip
        held &= good
        print(
            f"{kind:<5} {len(content) / 1e6:5.1f} MB: {status} in {seconds:5.2f} s, then {then} in "
            f"{after:4.2f} s, {most[0]:5.0f} MB{'' if good else '  BEYOND'}",
            flush=True,
        )
    end.set()
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deadline-s", type=float, default=10.0)
    deadline_s = parser.parse_args().deadline_s
    command = [sys.executable, "-m", "viper", "serve", "--port", "0", "--workers", "2",
               "--deadline-s", str(deadline_s)]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        lines = server.stderr
        url = next(line.split()[-1] for line in lines if line.startswith("serving on "))
        threading.Thread(target=lambda: list(lines), daemon=True).start()
        try:
            with httpx.Client(base_url=url, timeout=300) as client:
                while client.get("/readyz").status_code != 200:
                    time.sleep(0.2)
                return 0 if attack(client, server.pid, deadline_s) else 1
        finally:
            server.terminate()


if __name__ == "__main__":
    sys.exit(main())
