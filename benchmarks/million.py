"""What a run of a million stored samples takes to write, view, search, report and resume.

    python benchmarks/million.py [--rows 1000000] [--run FOLDER] [--old]

Writes made-up rows of some 8 KB as `RunStore.add` does, into ``--run`` (by default a temporary
folder; a run that is there is used again), then measures each step in a process of its own: wall
time, processor time, and peak of resident memory. ``--old`` removes the index first, as of a run of
an earlier version, and measures how long it takes to get it. Claimed for a million rows on two
cores: a first page within 3 s and 300 MB, a search within 1 s, a report within 60 s and 500 MB,
resume and ``done()`` within seconds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from viper.evaluate.runs import index
from viper.evaluate.runs.manifest import Manifest, RunEnvironment, SetDescription
from viper.evaluate.runs.store import DATABASE, MANIFEST, RUN, RunStore
from viper.evaluate.sample_result import (
    COLUMNS,
    INSERT,
    ROW_COLUMNS,
    Prediction,
    SampleResult,
    values_of,
)
from viper.schema import Answer, Query, ToolCall, Trace, Trial, Usage
from viper.storage.json_lines import dumps
from viper.storage.sqlite import open_to_write, transaction

SEARCHES = {
    "no filter, page 2": "?page=1",
    "no filter, page 20,000": "?page=20000",
    "a failure": "?failure=runtime",
    "a tool, slowest first": "?tool=find&sort=slowest",
    "scores, best first": "?low=0.5&high=0.9&sort=best",
    "a kind among the answered": "?kind=query_type%3Dkind+3&failure=answered",
    "a part, costliest first": "?part=wrong&sort=costliest",
    "a rare text": "?text=cube+77777%3F",
    "a text of a hundredth": "?text=word0042",
    "a text of every program": "?text=execute_command",
    "a text of none": "?text=no+such+text",
    "a short text": "?text=no",
    "a hostile text": "?text=%22+OR+%2A+NEAR%28",
    "a text with a failure": "?text=word0042&failure=runtime&sort=worst",
}
BATCH = 1_000
TOOLS = (["find"], ["find", "simple_query"], ["simple_query"])


def manifest(rows: int) -> Manifest:
    return Manifest(
        set=SetDescription("asked", None, 0, rows, rows, "0" * 64), metric="gqa", seeds=(0,),
        strategy="program", api="abstract", settings={}, profile="embedded", document={}, models={},
        environment=RunEnvironment({}, None, ""), created="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


def made_up(number: int, random: Random) -> tuple[SampleResult, Trace]:
    failure = random.choice([None, None, None, None, "runtime", "below_threshold"])
    score = 0.0 if failure else float(random.random() < 0.7)
    words = [f"word{random.randrange(5_000):04}" for _ in range(8)]
    lines = [f"    part_{n} = image_patch.find('{word}')[0]" for n, word in enumerate(words)]
    program = "\n".join(["def execute_command(image, question):", *lines, f"    return {number}"])
    usage = Usage(1, 900 + number % 300, 120 + number % 50, 8, 0.0004)
    confidence = None if failure else round(random.random(), 4)
    result = SampleResult(
        sample_id=f"sample-{number:07d}",
        seed=0,
        score=score,
        details={"exact": score},
        failure=failure,
        message="list index out of range" if failure else None,
        prediction=None if failure else Prediction(random.choice(["red", "blue", "3", "no"]),
                                                   confidence=confidence),
        text=f"what color is the ball left of cube {number}?",
        task="question",
        target="red",
        groups={"query_type": f"kind {number % 9}", "semantic": random.choice(["rel", "attr"])},
        cluster=f"picture{number // 4}",
        files=(f"{number // 4}.jpg",),
        program=program,
        marks=("warning:weak_evidence",) if random.random() < 0.1 else (),
        seconds=random.random(),
        usage=usage,
    )  # fmt: skip
    calls = tuple(
        ToolCall(n, random.choice(["find", "simple_query"]), (word,), {"box": [n, 2, 3, number]},
                 [{"kind": "patch", "fields": ["image0", n, 10.25, 100.5, 120.75, word]}] * 5, 0.01)
        for n, word in enumerate(words)
    )  # fmt: skip
    trial = Trial(0, program, "first", failure is None, None, {"detector.threshold": 0.5}, calls,
                  "", 0.2)  # fmt: skip
    trace = Trace(
        Query(result.text, "question", "image", (), result.sample_id), "question", "asked",
        None if failure else Answer("red", "text"), None, (trial,), usage, 0.2, "program", "e",
        "a", 0,
    )  # fmt: skip
    return result, trace


def write(run: Path, rows: int) -> None:
    """Write the rows, a thousand in a transaction; the trace is one text with other numbers."""
    random = Random(0)
    RunStore.create(run, manifest(rows)).close()
    trace = values_of(0, *made_up(7_777_777, random))[-1]
    with closing(open_to_write(run / DATABASE, RUN)) as connection:
        for start in range(0, rows, BATCH):
            with transaction(connection):
                for number in range(start, min(start + BATCH, rows)):
                    values = values_of(number, made_up(number, random)[0], None)
                    values[-2:] = dumps(TOOLS[number % 3]), trace.replace("7777777", str(number))
                    sample = connection.execute(INSERT, values).lastrowid
                    cells = dict(zip(COLUMNS, values, strict=True))
                    line = [cells[name] for name in (*ROW_COLUMNS, "tools")]
                    index.add(connection, sample, line)
            if (start + BATCH) % (100 * BATCH) == 0:
                print(f"  {start + BATCH:,} rows", flush=True)


def without_index(run: Path) -> None:
    """Make the run one of an earlier version."""
    with closing(sqlite3.connect(run / DATABASE, isolation_level=None)) as connection:
        for name in ("facts", "labels", "tagged", "texts"):
            connection.execute(f"DROP TABLE {name}")
        connection.execute("PRAGMA user_version = 1")


def measured(name: str, step: Callable[..., None], *arguments: Any) -> None:
    """Print what a step takes in a process of its own."""
    process = multiprocessing.get_context("spawn").Process(
        target=_measure, args=(name, step, *arguments)
    )
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(f"{name}: exit status {process.exitcode}")


def _measure(name: str, step: Callable[..., None], *arguments: Any) -> None:
    started = time.perf_counter()
    step(*arguments)
    report_line(name, time.perf_counter() - started)


def report_line(name: str, wall_s: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    processor, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    print(f"{name:45} {wall_s:8.2f} s, process so far {processor:7.2f} s, peak {peak:6.0f} MB",
          flush=True)  # fmt: skip


def view(run: Path) -> None:
    """Start the viewer, open its first page and search, as a browser asks for it."""
    from starlette.testclient import TestClient

    from viper.api.library import Library
    from viper.serve.gate import AccessRules
    from viper.strategies.replay import Replayer
    from viper.web.viewer.app import ViewedRun, Viewer, create_viewer
    from viper.web.viewer.gallery import RunGallery
    from viper.web.viewer.index import ViewerIndex

    def page(name: str, query: str) -> None:
        started = time.perf_counter()
        answer = client.get(f"/t/{query}")
        assert answer.status_code == 200, answer.text
        report_line(f"  {name}", time.perf_counter() - started)

    started = time.perf_counter()
    with RunStore.read(run) as store, Replayer(Library()) as replayer:
        shown = (ViewedRun("run", store, RunGallery(store, None)),)
        access = AccessRules("127.0.0.1", "t", in_path=True)
        app = create_viewer(Viewer(shown, ViewerIndex([store]), replayer, access))
        client = TestClient(app, base_url="http://127.0.0.1")
        report_line("  started", time.perf_counter() - started)
        page("first page", "")
        for name, query in SEARCHES.items():
            page(f"while its figure is computed: {name}", query)
        while "is being computed" in client.get("/t/").text:
            time.sleep(1)
        report_line("  figure computed", time.perf_counter() - started)
        for name, query in SEARCHES.items():
            page(name, query)


def make_report(run: Path) -> None:
    from viper.evaluate.reports.report import report

    with RunStore.read(run) as store:
        made = report(store)
    assert made["n"] == made["expected"], made["n"]


def compare_with_itself(run: Path) -> None:
    from viper.evaluate.reports.comparison import compare

    with RunStore.read(run) as before, RunStore.read(run) as after:
        assert not compare(before, after).changed_program


def done(run: Path) -> None:
    with RunStore.read(run) as store:
        stored = store.done()
        assert ("sample-0000007", 0) in stored and len(stored) == sum(1 for _ in stored)


def resume(run: Path) -> None:
    """Resume, count the earlier results, and find the items that are to do: none."""
    from viper.evaluate.campaign import RunProgress

    with RunStore.read(run) as store:
        rows = store.manifest.set.samples
    with RunStore.resume(run, manifest(rows)) as store:
        report_line("  opened", time.perf_counter() - STARTED)
        running = RunProgress(rows)
        for totals in store.totals():
            running.count(*totals)
        report_line("  counted", time.perf_counter() - STARTED)
        stored = set(store.done())
        assert all((f"sample-{number:07d}", 0) in stored for number in range(rows))


def catch_up(run: Path) -> None:
    with RunStore.read(run) as store:
        store.catch_up()


def add_one_by_one(folder: Path) -> None:
    random, rows = Random(0), 1_000
    made = [made_up(number, random) for number in range(rows)]
    started = time.perf_counter()
    with RunStore.create(folder / "small", manifest(rows)) as store:
        for number, (result, trace) in enumerate(made):
            store.add(number, result, trace)
    report_line("  1,000 rows by add()", time.perf_counter() - started)


STARTED = time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--old", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run = given.run or Path(scratch) / "run"
        measured("add", add_one_by_one, Path(scratch))
        if not (run / MANIFEST).is_file():
            measured(f"{given.rows:,} rows written", write, run, given.rows)
        print(f"{(run / DATABASE).stat().st_size / 1e9:.2f} GB")
        if given.old:
            without_index(run)
            measured("an old run indexed", catch_up, run)
        for name, step in {
            "view": view,
            "report": make_report,
            "compared with itself": compare_with_itself,
            "done()": done,
            "resume": resume,
        }.items():
            measured(name, step, run)


if __name__ == "__main__":
    main()
