"""Watches what memory an evaluation of thousands of samples takes.

    python benchmarks/eval_memory.py [--samples 5000] [--split val:referring4] [--fake]
        [--cache-mb 256] [--workers 16]

Samples of the embedded world go through the runner into a store, as ``viper eval`` does it.
``--fake`` replaces every model by one that answers from a table, and the pictures by one of a
few, so that thousands of samples take minutes: the sandbox, runner, store and caches are real.
Prints resident memory of the process and of the sandbox's zygote, what the caches hold, and
the slope of each by least squares over the second half. Caches are meant to fill up to their
bound: a smaller ``--cache-mb`` has them full sooner. Claimed: without the caches, less than 5 MB
more for 1,000 samples. Exit status 1 otherwise.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from viper.data.sample import DatasetSpec, Sample
from viper.evaluate.campaign import RunProgress, bound_arenas, run
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.sample_runner import SampleRunner, items
from viper.evaluate.evaluation import Evaluation, manifest_of
from viper.evaluate.metrics import metric
from viper.evaluate.reports.report import report
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.models.llm.scripted import ScriptedLLM
from viper.profiles import load_profile
from viper.profiles.wiring import Profile
from viper.reasoner import Reasoner
from viper.schema import to_json
from viper.testing.fakes import FakeAnswerer, FakeDepth, FakeDetector, FakeMatcher
from viper.tools.models import ModelSet
from viper.tools.toolbox import Toolbox

MOST_MB = 5.0
"""For 1,000 samples."""

PROGRAM = """def execute_command(image, question):
    patches = ImagePatch(image).find(question)
    patches.sort(key=lambda patch: patch.compute_depth())
    return patches[0] if patches[0].verify_property("cube", "red") else patches[-1]
"""


@dataclasses.dataclass
class Watch:
    """Memory by number of samples, in MB."""

    reasoner: Reasoner
    every: int
    seen: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    def look(self, row: SampleResult | None, running: RunProgress) -> None:
        if running.done % self.every or running.done > running.total - 100:
            return  # towards the end threads leave, and take their memory along
        toolbox = self.reasoner.components.toolbox
        found = {
            "samples": float(running.done),
            "process": resident_mb("self"),
            "zygote": resident_mb(str(self.reasoner.components.sandbox.zygote_pid)),
            "caches": (toolbox.encodings.bytes + toolbox.results.bytes) / 2**20,
            "threads": float(threading.active_count()),
        }
        found["without caches"] = found["process"] - found["caches"]
        for name, value in found.items():
            self.seen.setdefault(name, []).append(value)
        print(", ".join(f"{name} {value:.1f}" for name, value in found.items()), flush=True)

    def slopes(self) -> dict[str, float]:
        """Growth for 1,000 samples over the second half."""
        half = len(self.seen["samples"]) // 2
        at = np.array(self.seen["samples"][half:]) / 1_000
        return {
            name: float(np.polyfit(at, np.array(values[half:]), 1)[0])
            for name, values in self.seen.items()
            if name != "samples"
        }


def resident_mb(process: str) -> float:
    """Resident memory of a process; 0 where it is none."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def with_fakes(reasoner: Reasoner, samples: list[Sample]) -> tuple[Reasoner, list[Sample]]:
    """The same with models that answer from tables, and one of a few pictures for each four."""
    boxes = [((10.0, 10.0, 40.0, 40.0), 0.9), ((50.0, 20.0, 80.0, 60.0), 0.8)]

    class Anything(FakeDetector):
        def detect(self, encoding: Any, phrases: Any) -> Any:
            self._boxes = dict.fromkeys(phrases, boxes)
            found = super().detect(encoding, phrases)
            self.detected.clear()
            self.encoded.clear()
            return found

    models = ModelSet(
        {
            "detector": lambda: Anything({}),
            "matcher": FakeMatcher,
            "depth": FakeDepth,
            "vqa": FakeAnswerer,
        }
    )

    class Writer(ScriptedLLM):
        def generate(self, prompts: Any, sampling: Any) -> Any:
            found = super().generate(prompts, sampling)
            self.calls.clear()
            return found

    parts = reasoner.components
    toolbox = Toolbox(models, parts.toolbox.settings, parts.library.tool_routines)
    llm = Writer(lambda prompt: PROGRAM)
    reasoner = Reasoner(
        dataclasses.replace(parts.with_models(llm=llm), toolbox=toolbox), preload=False
    )
    shades = np.random.default_rng(0).integers(0, 255, (4096, 3), np.uint8)

    def drawn(sample: Sample, number: int) -> Sample:
        shade = shades[number // 4 % len(shades)]
        picture = np.broadcast_to(shade, (144, 192, 3)).copy
        return dataclasses.replace(sample, load=picture)

    return reasoner, [drawn(sample, number) for number, sample in enumerate(samples)]


def with_caches(profile: Profile, cache_mb: int) -> Profile:
    tools = dataclasses.replace(profile.document.tools, cache_mb=cache_mb)
    return dataclasses.replace(profile, document=dataclasses.replace(profile.document, tools=tools))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=5_000)
    parser.add_argument("--split", default="val:referring4")
    parser.add_argument("--cache-mb", type=int, default=256)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--fake", action="store_true")
    given = parser.parse_args()
    bound_arenas()
    evaluation = Evaluation("world", DatasetSpec(split=given.split), limit=given.samples)
    profile = with_caches(load_profile("embedded"), given.cache_mb)
    samples = evaluation.samples()
    reasoner = Reasoner(profile, preload=False)
    if given.fake:
        reasoner, samples = with_fakes(reasoner, samples)
    watch = Watch(reasoner, max(1, given.samples // 40))
    judge = metric(evaluation.metric)
    with reasoner, tempfile.TemporaryDirectory() as scratch:
        manifest = manifest_of(evaluation, samples, reasoner, to_json(profile.document), {})
        answering = SampleRunner.with_cache(reasoner, judge, evaluation.options, given.workers + 8)
        engine = LocalEngine(answering, Bounds(given.workers))
        with RunStore.create(Path(scratch) / "run", manifest) as store:
            run(engine, items(samples, evaluation.seeds), store, on_done=watch.look)
            made = report(store)
    slopes = watch.slopes()
    print(f"{made['n']} samples, {sum(one['count'] for one in made['failures'].values())} failed")
    print("growth for 1,000 samples, second half, in MB:",
          ", ".join(f"{name} {value:+.2f}" for name, value in slopes.items()))  # fmt: skip
    return int(slopes["without caches"] > MOST_MB)


if __name__ == "__main__":
    sys.exit(main())
