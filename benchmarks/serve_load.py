"""Loads ``viper serve`` with good, malformed and cancelled requests, and checks every answer.

    python benchmarks/serve_load.py [--requests 200] [--at-once 8] [--passes 3] [--seed 0]

Every good request has a picture and a question of its own, and must be answered as the
Reasoner answers it alone. The same requests are sent several times over: in the first pass
the server keeps encodings of every new picture (its profile's ``cache_entries`` bounds
them), afterwards its memory must stay flat. Exit status 1 if an answer is lost, crossed or
of an unexpected status, or if memory goes on growing.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from PIL import Image
from soak import resident_mb

from viper import Reasoner, load_profile
from viper.record import result_record
from viper_lab.datasets.world import world_media
from viper_lab.world.queries.generate import generate

FAMILIES = ("referring", "question")
MALFORMED_SHARE = CANCELLED_SHARE = 0.05
CANCEL_AFTER_S = (0.02, 0.8)
FLAT_MB = 10.0
"""Growth of memory in the passes after the first that still counts as flat."""


@dataclass
class Ask:
    """One request: what is sent, and what must come back."""

    kind: str
    query: str
    picture: bytes
    expected: dict[str, Any] = field(default_factory=dict)
    statuses: tuple[int, ...] = (200,)
    headers: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)


@dataclass
class Tally:
    """What came of all requests."""

    statuses: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    crossed: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)


def requests(count: int, seed: int) -> list[Ask]:
    """Good, malformed and cancelled requests in random order."""
    chance = random.Random(seed)
    each = -(-count // len(FAMILIES))
    samples = [s for family in FAMILIES for s in generate(family, "test", seed, each)]
    chance.shuffle(samples)
    asks = [Ask("good", s.text, _png(world_media(s)())) for s in samples[:count]]
    special = chance.sample(asks, round(count * (MALFORMED_SHARE + CANCELLED_SHARE)))
    for number, ask in enumerate(special):
        if number % 2:
            ask.kind = "cancelled"
        else:
            _spoil(ask, number // 2)
    return asks


def _spoil(ask: Ask, number: int) -> None:
    ask.kind = "malformed"
    spoils: list[Callable[[], tuple[str, Any, int]]] = [
        lambda: ("picture", ask.picture[: len(ask.picture) // 2], 422),
        lambda: ("picture", b"no picture " * 50, 422),
        lambda: ("query", "", 400),
        lambda: ("fields", {"trials": "many"}, 400),
        lambda: ("headers", {"Content-Type": "text/plain"}, 415),
    ]
    name, value, status = spoils[number % len(spoils)]()
    setattr(ask, name, value)
    ask.statuses = (status,)


def _png(pixels: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def answer_alone(asks: list[Ask]) -> None:
    """Fills in what the Reasoner answers to each good request by itself."""
    with Reasoner(load_profile("embedded")) as reasoner, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.png"
        for ask in asks:
            if ask.kind == "good":
                path.write_bytes(ask.picture)
                record = result_record(reasoner.run(str(path), ask.query).trace)
                ask.expected = told(json.loads(json.dumps(record)))


def told(record: dict[str, Any]) -> dict[str, Any]:
    """The part of a record that does not depend on what ran before."""
    names = ("query", "task", "answer", "box", "program", "failure")
    return {name: record[name] for name in names} | {"trials": len(record["trials"])}


@contextmanager
def server(at_once: int, log: Path) -> Iterator[tuple[str, int]]:
    """A server process that is ready: its address and its process id."""
    command = [sys.executable, "-m", "viper", "serve", "--port", "0", "--queue", str(2 * at_once)]
    with log.open("w+") as lines, log.open() as read:
        child = subprocess.Popen(command, stderr=lines)
        try:
            yield _ready(child, read), child.pid
            child.send_signal(signal.SIGTERM)
            print(f"server ended with {child.wait(60)}")
        finally:
            child.kill()
            child.wait()


def _ready(child: subprocess.Popen[bytes], lines: io.TextIOWrapper) -> str:
    url = ""
    while child.poll() is None:
        line = lines.readline()
        url = line.split()[-1] if line.startswith("serving on ") else url
        if url and httpx.get(f"{url}/readyz").status_code == 200:
            return url
        time.sleep(0.1)
    raise SystemExit(f"the server ended with {child.returncode}; see its log")


async def send_all(url: str, asks: list[Ask], at_once: int, tally: Tally, seed: int) -> None:
    """Sends the requests, so many at once."""
    places, chance = asyncio.Semaphore(at_once), random.Random(seed)
    async with httpx.AsyncClient(base_url=url, timeout=300) as client:

        async def send(ask: Ask, patience_s: float) -> None:
            async with places:
                await _send(client, ask, patience_s, tally)

        await asyncio.gather(*(send(ask, chance.uniform(*CANCEL_AFTER_S)) for ask in asks))


async def _send(client: httpx.AsyncClient, ask: Ask, patience_s: float, tally: Tally) -> None:
    form = {"query": ask.query, **ask.fields}
    files = {"media": ("picture.png", ask.picture)}
    sending = client.post("/v1/run", data=form, files=files, headers=ask.headers)
    started = time.perf_counter()
    try:
        got = await (asyncio.wait_for(sending, patience_s) if ask.kind == "cancelled" else sending)
    except TimeoutError:
        tally.statuses["cancelled"] += 1
        return
    except httpx.HTTPError as error:
        tally.lost.append(f"{ask.query}: {type(error).__name__}")
        return
    tally.statuses[str(got.status_code)] += 1
    if got.status_code not in ask.statuses:
        tally.unexpected.append(f"{ask.kind} {ask.query!r}: {got.status_code} {got.text[:200]}")
    elif ask.kind == "good":
        tally.seconds.append(time.perf_counter() - started)
        if told(got.json()) != ask.expected:
            tally.crossed.append(f"{ask.query!r}: {told(got.json())}, alone: {ask.expected}")


def load(asks: list[Ask], at_once: int, passes: int, seed: int) -> bool:
    """Sends everything, prints what came of it, and says whether all was well."""
    tally, memory = Tally(), []
    with tempfile.TemporaryDirectory() as folder:
        with server(at_once, Path(folder) / "log") as (url, pid):
            memory.append(resident_mb(pid))
            started = time.perf_counter()
            for number in range(passes):
                half = len(asks) // 2
                for part in (asks[:half], asks[half:]):
                    asyncio.run(send_all(url, part, at_once, tally, seed + number))
                    memory.append(resident_mb(pid))
            seconds = time.perf_counter() - started
            metrics = httpx.get(f"{url}/metrics").text
        logged = (Path(folder) / "log").read_text().count('"path": "/v1/run"')
    sent = len(asks) * passes
    growth = memory[-1] - memory[2]
    good = sorted(tally.seconds)
    print(f"requests          {sent} ({at_once} at once), {sent / seconds:.2f} a second")
    print(f"statuses          {dict(sorted(tally.statuses.items()))}")
    print(f"lost              {len(tally.lost)}")
    print(f"crossed           {len(tally.crossed)} of {len(good)} compared")
    print(f"unexpected        {len(tally.unexpected)}")
    print(f"latency           median {statistics.median(good):.2f} s, "
          f"95th {good[int(len(good) * 0.95)]:.2f} s")  # fmt: skip
    print(f"server memory     {', '.join(f'{value:.0f}' for value in memory)} MB "
          "(before, then after each half pass)")  # fmt: skip
    print(f"growth            first pass {memory[2] - memory[0]:+.0f} MB, afterwards "
          f"{growth:+.1f} MB in {sent - len(asks)} requests")  # fmt: skip
    print(f"log lines         {logged}")
    for line in metrics.splitlines():
        if line.startswith(("viper_requests_total", "viper_in_flight", "viper_queued ")):
            print(f"  {line}")
    for line in tally.lost + tally.crossed + tally.unexpected:
        print(f"WRONG: {line}")
    return not (tally.lost or tally.crossed or tally.unexpected) and growth < FLAT_MB


def main() -> None:
    """Prints the figures; exit status 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    asks = requests(given.requests, given.seed)
    print(f"kinds             {dict(Counter(ask.kind for ask in asks))}", flush=True)
    started = time.perf_counter()
    answer_alone(asks)
    print(f"alone             {time.perf_counter() - started:.0f} s", flush=True)
    sys.exit(0 if load(asks, given.at_once, given.passes, given.seed) else 1)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    main()
