"""How quick the pages are: a filter over many rows, a page's size, a page's opening.

    python benchmarks/viewing.py [--rows 10000]

Targets (two cores): a filter over 10,000 answers within 300 ms; the page of a video query with
five trials at most 3 MB, open within 1 s in a browser (skipped where there is none). Answers are
made up, traces are a real one's; the page is of the embedded clip and its real answer.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from starlette.testclient import TestClient

from viper import Reasoner, load_profile
from viper.api.library import Library
from viper.evaluate.runs.manifest import Manifest, RunEnvironment, SetDescription
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import Prediction, SampleResult
from viper.reasoner import RunOptions
from viper.run_result import RunResult
from viper.schema import Trace
from viper.serve.gate import AccessRules
from viper.strategies.replay import Replayer
from viper.web.trace_page import Extras, replay_all, trace_page
from viper.web.viewer.app import ViewedRun, Viewer, create_viewer
from viper.web.viewer.gallery import RunGallery
from viper.web.viewer.index import ViewerIndex

CLIP = Path(__file__).parents[1] / "viper" / "embedded" / "media" / "clip.mp4"
TRIALS = 5
FILTERS = (
    "", "?page=200", "?failure=runtime", "?tool=find&sort=worst", "?low=0.5&sort=slowest",
    "?text=cube+7", "?text=no+such+text", "?kind=query_type%3Dkind+3&failure=answered",
    "?part=wrong&sort=costliest", "?text=execute_command&tool=simple_query&page=50",
)  # fmt: skip


def made_up(number: int, random: Random) -> SampleResult:
    failure = random.choice([None, None, None, "runtime", "below_threshold"])
    score = 0.0 if failure else float(random.random() < 0.7)
    return SampleResult(
        sample_id=f"sample-{number:06d}",
        seed=0,
        score=score,
        failure=failure,
        prediction=None if failure else Prediction(random.choice(["red", "blue", "3", "no"])),
        text=f"what color is the ball left of cube {number}?",
        task="question",
        target="red",
        groups={"query_type": f"kind {number % 9}"},
        program="def execute_command(image):\n    # a line of it\n" * 8 + f"    return {number}",
        seconds=random.random(),
    )


def a_run(folder: Path, rows: int, like: Trace) -> None:
    """A run with that many made-up answers, each with the trace of a real one."""
    random = Random(0)
    manifest = Manifest(
        set=SetDescription("world", "val", 0, rows, rows, "0" * 64), metric="world", seeds=(0,),
        strategy="program", api="abstract", settings={}, profile="embedded", document={}, models={},
        environment=RunEnvironment.here(),
    )  # fmt: skip
    with RunStore.create(folder, manifest) as store:
        for number in range(rows):
            store.add(number, made_up(number, random), like)


def milliseconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - started)


def filters(rows: int, like: Trace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        a_run(Path(folder) / "run", rows, like)
        with RunStore.read(Path(folder) / "run") as store, Replayer(Library()) as replayer:
            made: list[ViewerIndex] = []
            took = milliseconds(lambda: made.append(ViewerIndex([store])))
            print(f"{rows:,} rows, their index opened: {took:.0f} ms")
            access = AccessRules("127.0.0.1", "t", in_path=True)
            shown = (ViewedRun("run", store, RunGallery(store, None)),)
            viewer = Viewer(shown, made[0], replayer, access)
            client = TestClient(create_viewer(viewer), base_url="http://127.0.0.1")
            client.get("/t/")
            for query in FILTERS:
                times = [milliseconds(lambda q=query: client.get(f"/t/{q}")) for _ in range(7)]
                print(f"  {statistics.median(times):6.1f} ms, at most {max(times):6.1f}  /{query}")


def five_trials(result: RunResult) -> Trace:
    """The trace with its last trial repeated, as where five programs were tried."""
    last = result.trace.trials[-1]
    trials = tuple(replace(last, index=n, program=f"{last.program}\n# {n}") for n in range(TRIALS))
    return replace(result.trace, trials=trials, chosen=TRIALS - 1)


def page(result: RunResult) -> None:
    trace = five_trials(result)
    with Replayer(Library()) as replayer, tempfile.TemporaryDirectory() as folder:
        replay_all(trace, result.media, replayer)
        made: list[str] = []
        took = milliseconds(
            lambda: made.append(
                trace_page(trace, result.media, replay_all(trace, result.media, replayer), Extras())
            )
        )
        size = len(made[0].encode())
        print(f"page of a video query, {TRIALS} trials: {size / 1e6:.2f} MB, made in {took:.0f} ms")
        path = Path(folder) / "page.html"
        path.write_text(made[0], "utf-8")
        opened(path)


def opened(path: Path) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        print("no browser here: the opening was not timed")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        times = []
        for _ in range(5):
            tab = chromium.new_page()
            times.append(milliseconds(lambda tab=tab: tab.goto(path.as_uri(), wait_until="load")))
            tab.close()
        chromium.close()
    print(f"  opens in {statistics.median(times):.0f} ms, at most {max(times):.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    given = parser.parse_args()
    with Reasoner(load_profile("embedded")) as reasoner:
        options = RunOptions(task="choice", options=("it stops", "it falls", "it appears"))
        result = reasoner.run(CLIP, "what does the red ball do first?", options)
    page(result)
    filters(given.rows, result.trace)


if __name__ == "__main__":
    main()
