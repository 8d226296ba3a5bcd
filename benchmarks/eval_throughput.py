"""Our evaluation against a plain loop in the manner of the peers, on the same samples.

``python benchmarks/eval_throughput.py`` answers each set twice in one process: in a loop that
takes one sample at a time, asks ``generate`` of transformers for one program at a time,
sends every tool call through its model alone and keeps nothing; and as ``viper eval`` does.
Models, prompts, programs, sandbox and thresholds are the same, and so must be the answers.
A third row is the same loop over our own language model backend, which keeps read prefixes
and guesses ahead, so that one sees what comes of the backend and what of the rest.

``--slow-preprocessing 30`` measures something else: ``viper eval`` alone, where the detector waits
30 ms for each picture's preprocessing, as published detectors do for pictures of a megapixel while
their model is on a GPU. The wait takes no processor time, so cores are not the limit. Programs are
written before and replayed, because a language model on a processor would hide everything else.

Every sample gets one greedy program (and self-tuning), because the library's ``generate``
draws other random numbers than ours. The faster of ``--rounds`` counts; caches are emptied
before each. Run it with nothing else on the machine.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from llm_engines import WRITER, Generate

from viper.data.sample import DatasetSpec
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.sample_runner import Item, SampleRunner
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import SampleResult
from viper.models.llm.protocol import Completion, Sampling
from viper.models.llm.transformers_llm import TransformersLLM
from viper.profiles import load_profile
from viper.reasoner import Reasoner, RunOptions
from viper.storage.cache import RecentTexts
from viper.strategies.base import Components
from viper.tools.toolbox import OPERATIONS, Toolbox

SETS = {
    "referring, 4 expressions a picture": "val:referring4",
    "referring, 1 a picture": "val:referring",
    "questions, 1 a picture": "val:question",
    "video, 1 a clip": "val:video",
}


class NothingKept:
    """Stands for a cache that keeps nothing."""

    def get(self, key: Any, compute: Callable[[], Any]) -> tuple[Any, bool]:
        return compute(), False


class PlainHub(Toolbox):
    """Every call is a forward pass of its own."""

    def __init__(self, toolbox: Toolbox) -> None:
        super().__init__(toolbox.models, toolbox.settings, toolbox.routines)
        self.encodings = self.results = NothingKept()  # type: ignore[assignment]

    def ask(self, role: str, operation: str, *args: Any, charge: Any = None, **named: Any) -> Any:
        with self.models.using(role) if role != "text" else nullcontext() as backend:
            if (role, operation) in OPERATIONS:
                forget_phrases(backend)
                return OPERATIONS[role, operation].run(backend, [args])[0]
            return getattr(self.models.get(role), operation)(*args, **named)


class PlainLLM:
    """The library's own ``generate``, one prompt at a time."""

    def __init__(self, llm: Any) -> None:
        self._llm = llm
        self.model_id, self.max_context = llm.model_id, llm.max_context
        self._writers: dict[Sampling, Any] = {}

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        if sampling not in self._writers:
            self._writers[sampling] = Generate(WRITER, sampling)
        return [[Completion(text, 0, 0)] for text in self._writers[sampling](prompts)]

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        return list(self._llm.score(prompt, continuations))

    def count_tokens(self, text: str) -> int:
        return int(self._llm.count_tokens(text))


class Replayed:
    """Writes each program once; afterwards it costs nothing."""

    def __init__(self, llm: Any) -> None:
        self._llm = llm
        self.model_id, self.max_context = llm.model_id, llm.max_context
        self.concurrent = self.sees_pictures = False
        self._written: dict[Any, list[Completion]] = {}

    def generate(self, prompts: Sequence[Any], sampling: Sampling) -> list[list[Completion]]:
        for prompt in prompts:
            if (prompt, sampling) not in self._written:
                (self._written[prompt, sampling],) = self._llm.generate([prompt], sampling)
        return [self._written[prompt, sampling] for prompt in prompts]

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        return list(self._llm.score(prompt, continuations))

    def count_tokens(self, text: str) -> int:
        return int(self._llm.count_tokens(text))


class SlowProcessor:
    """An image processor that first waits, for each picture."""

    def __init__(self, processor: Any, milliseconds: float) -> None:
        self._processor, self._seconds = processor, milliseconds / 1000

    def __call__(self, images: Sequence[Any], **more: Any) -> Any:
        time.sleep(self._seconds * len(images))
        return self._processor(images=images, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)


def forget_phrases(backend: Any) -> None:
    """Makes a detector encode its phrases again, as one does that keeps nothing."""
    if hasattr(backend, "_phrases"):
        backend._phrases = RecentTexts()


def plain_round(components: Components, judge: str, items: Sequence[Item]) -> list[SampleResult]:
    """The plain loop."""
    answers, rows = answering(components, judge, 0), []
    for item in items:
        done = answers.answer(item, threading.Event())
        assert done is not None
        rows.append(done.row)
    return rows


def eval_round(
    components: Components, judge: str, items: Sequence[Item], in_flight: int
) -> list[SampleResult]:
    """What ``viper eval`` does."""
    engine = LocalEngine(answering(components, judge, 2 * in_flight), Bounds(in_flight))
    done = sorted(engine.run(items, threading.Event()), key=lambda one: one.position)
    return [one.row for one in done]


def answering(components: Components, judge: str, kept: int) -> SampleRunner:
    """With empty caches."""
    toolbox = components.toolbox
    fresh = (
        toolbox
        if isinstance(toolbox, PlainHub)
        else Toolbox(toolbox.models, toolbox.settings, toolbox.routines)
    )
    reasoner = Reasoner(replace(components, toolbox=fresh), preload=False)
    return SampleRunner.with_cache(reasoner, metric(judge), RunOptions(trials=1), kept)


def with_pixels(item: Item, pixels: Any) -> Item:
    """The item with its picture rendered already: rendering is not what is measured."""
    return replace(item, sample=replace(item.sample, load=lambda: pixels))


def same(rows: Sequence[SampleResult], others: Sequence[SampleResult]) -> int:
    """How many answers are equal."""
    return sum(
        (one.prediction, one.failure) == (other.prediction, other.failure)
        for one, other in zip(rows, others, strict=True)
    )


def timed(
    action: Callable[[], list[SampleResult]], rounds: int
) -> tuple[float, list[SampleResult]]:
    """Seconds of the fastest round, and its rows."""
    best, rows = float("inf"), []
    for _ in range(rounds):
        started = time.perf_counter()
        found = action()
        seconds = time.perf_counter() - started
        if seconds < best:
            best, rows = seconds, found
    return best, rows


def slow_preprocessing(components: Components, given: argparse.Namespace) -> None:
    """Prints samples a second with waits and without."""
    detector = components.toolbox.models.get("detector")
    quick = detector._processor.image_processor
    components = components.with_models(llm=Replayed(components.llm))
    for title in given.sets:
        evaluation = Evaluation(
            "world", DatasetSpec(Path(), SETS[title], given.seed), given.samples
        )
        items = evaluation.items()
        pixels = {item.sample.files: item.sample.load() for item in items}
        items = [with_pixels(item, pixels[item.sample.files]) for item in items]
        eval_round(components, evaluation.metric, items, given.in_flight)  # writes the programs
        print(f"{title}: {len(items)} samples, {len(pixels)} pictures or clips")
        for milliseconds in (0.0, given.slow_preprocessing):
            detector._processor.image_processor = SlowProcessor(quick, milliseconds)
            action = partial(eval_round, components, evaluation.metric, items, given.in_flight)
            seconds, rows = timed(action, given.rounds)
            score = sum(row.score for row in rows) / len(rows)
            print(
                f"  {milliseconds:4.0f} ms a picture {len(items) / seconds:6.2f} samples/s   "
                f"score {score:.4f}",
                flush=True,
            )


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=96, help="of each set")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--in-flight", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--slow-preprocessing", type=float, metavar="MS")
    given = parser.parse_args()
    with Reasoner(load_profile("embedded"), preload=False) as reasoner:
        components = reasoner.components
        components.toolbox.models.load_all()
        if given.slow_preprocessing is not None:
            slow_preprocessing(components, given)
            return
        alone = TransformersLLM(WRITER, template="plain", local_only=True, device="cpu")
        loops = {
            "plain loop": replace(
                components.with_models(llm=PlainLLM(components.llm)),
                toolbox=PlainHub(components.toolbox),
            ),
            "plain loop, our LLM backend": replace(
                components.with_models(llm=alone), toolbox=PlainHub(components.toolbox)
            ),
        }
        for title in given.sets:
            spec = DatasetSpec(Path(), SETS[title], given.seed)
            evaluation = Evaluation("world", spec, given.samples)
            items = evaluation.items()
            pixels = {item.sample.files: item.sample.load() for item in items}
            items = [with_pixels(item, pixels[item.sample.files]) for item in items]
            print(f"{title}: {len(items)} samples, {len(pixels)} pictures or clips")
            ours, rows = timed(
                partial(eval_round, components, evaluation.metric, items, given.in_flight),
                given.rounds,
            )
            print(f"  {'viper eval':<28} {len(items) / ours:6.2f} samples/s")
            for name, parts in loops.items():
                seconds, others = timed(
                    partial(plain_round, parts, evaluation.metric, items), given.rounds
                )
                print(
                    f"  {name:<28} {len(items) / seconds:6.2f} samples/s   viper eval is "
                    f"{seconds / ours:.2f}x   answers equal {same(rows, others)}/{len(items)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
