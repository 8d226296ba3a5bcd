"""Runs methods: each learns from a stream of labelled samples, then answers others with that.

Each method begins with empty pools under every seed, and all share the loaded models, what these
computed, and prompts that were trained from the very same data, in this run or in one before that
was cut off. Answers and learning records are stored as they come: such a run goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from viper.ace.mining import ExampleSource, candidates
from viper.ace.select import Selection, select
from viper.data.sample import DatasetSpec
from viper.evaluate.campaign import answer_all
from viper.evaluate.engines.sample_runner import SampleRunner, items
from viper.evaluate.evaluation import Evaluation, manifest_of
from viper.evaluate.metrics import metric
from viper.evaluate.runs.learning_record import Journal
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.models.vision.prompt_pool import FOLDER as PROMPTS
from viper.models.vision.prompt_pool import PromptPool
from viper.reasoner import Reasoner, RunOptions
from viper.strategies.base import Components
from viper.strategies.demonstration_pool import FOLDER as DEMONSTRATIONS
from viper.strategies.demonstration_pool import DemonstrationPool, LearnedExamples, pool_example
from viper.strategies.examples import NoExamples
from viper.tuning.learner import LearnSettings
from viper.tuning.loop import LearningLoop, LearningProgress
from viper.tuning.tool_training import TrainedFiles
from viper.tuning.tool_updates import UpdateSettings
from viper.tuning.wiring import Data, Reflection, learner_for, origin_of
from viper_lab.papers.cell_runner import Document, Mining, Stored, Writers, mined_as, slug, spread

IN_MEDIA = 8


@dataclass(frozen=True)
class Method:
    """One way of learning.

    Attributes:
        name: unique among the methods of a reproduction.
        reflection: who is asked what was wrong.
        tools: how tools are trained; None trains none.
        demonstrations: which are kept; None keeps and shows none.
        writer: name of the language model, as the runner knows it.
        options: of every run.
        learns: False answers with what came with the package.
        mined: demonstrations are mined from the stream as ACE does, several programs a sample,
            instead of kept from one answer each; None learns from one answer after the other.
        course: learns from the subjects of this course alone.
    """

    name: str
    reflection: Reflection = "intervention"
    tools: UpdateSettings | None = UpdateSettings()
    demonstrations: LearnSettings | None = LearnSettings()
    writer: str = "main"
    options: RunOptions = RunOptions(trials=1, self_tune=False)
    learns: bool = True
    mined: Mining | None = None
    course: str = ""


@dataclass(frozen=True)
class Subject:
    """A part of the data, as the tables call it.

    Attributes:
        split: whose samples are answered.
        stream_split: samples that are learned from; empty: nothing is learned from this part.
        course: whose methods learn from it; the methods of another course never meet it.
    """

    name: str
    set_name: str
    split: str
    stream_split: str = ""
    root: Path | None = None
    course: str = ""

    def evaluation(self, seed: int, limit: int) -> Evaluation:
        """Return what is answered under a seed."""
        return Evaluation(self.set_name, DatasetSpec(self.root, self.split, seed), limit, (seed,))

    def stream(self, seed: int, limit: int) -> Evaluation:
        """Return what is learned from under a seed."""
        return replace(self, split=self.stream_split).evaluation(seed, limit)


@dataclass(frozen=True)
class Terms:
    """How much is measured.

    Attributes:
        stream: samples that a method learns from, of each subject and seed.
        samples: that are answered afterwards, of each subject and seed.
    """

    stream: int
    samples: int
    seeds: tuple[int, ...]


class MethodRunner(Stored):
    """Answers samples by each method after its training.

    Args:
        writers, document, folder: see :class:`viper_lab.papers.cell_runner.Stored`.
        subjects: parts of the data; those with a stream are learned from.
        say: told in words what is being done.
    """

    def __init__(
        self,
        writers: Writers,
        document: Document,
        folder: Path,
        scale: Terms,
        subjects: Sequence[Subject],
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        super().__init__(writers, document, folder)
        self.scale, self.subjects, self.say = scale, subjects, say
        self._results: dict[tuple[str, str, int], list[SampleResult]] = {}
        self._standings: dict[tuple[str, int], list[LearningProgress]] = {}
        self._trained = TrainedFiles(folder / "trained")

    def state(self, method: Method, seed: int) -> Path:
        """Return the folder of a method's pools."""
        return self.folder / "states" / slug(method.name) / str(seed)

    def components(self, method: Method, seed: int) -> Components:
        """Return the components with everything that a method has learned so far."""
        parts = self.writers[method.writer]
        if not method.learns:
            return parts
        state = self.state(method, seed)
        toolbox = parts.toolbox
        if method.tools is not None:
            toolbox = toolbox.with_soft_prompts(PromptPool(state / PROMPTS))
        if method.demonstrations is None:
            return replace(parts, toolbox=toolbox)
        pool = DemonstrationPool(state / DEMONSTRATIONS)
        examples = LearnedExamples(pool, NoExamples())
        return replace(parts, toolbox=toolbox, demonstrations=pool, examples=examples)

    def progress(self, method: Method, seed: int) -> list[LearningProgress]:
        """Return the progress after each stream. Runs the method now if it is not over."""
        key = (method.name, seed)
        if key not in self._standings:
            self._standings[key] = [
                self._learn(method, subject, seed)
                for subject in self.subjects
                if subject.stream_split and method.learns and subject.course == method.course
            ]
        return self._standings[key]

    def note(self, method: Method, subject: Subject) -> str:
        """Return the numbers of updates and demonstrations kept, over all seeds."""
        if not method.learns:
            return ""
        standings = [self.progress(method, seed) for seed in self.scale.seeds]
        updates = spread([sum(state.updates for state in each) for each in standings])
        sizes = spread([sum(state.demonstrations for state in each) for each in standings])
        return f"{updates} updates of tools, {sizes} demonstrations"

    def stream_results(self, method: Method, subject: Subject, seed: int) -> list[SampleResult]:
        """Return the first answers to the stream, in its order."""
        with RunStore.read(self._place("learning", method, subject, seed)) as store:
            return list(store.rows())

    def results(self, method: Method, subject: Subject, seed: int) -> list[SampleResult]:
        """Return the results of a subject after the training. Missing samples are answered now."""
        key = (method.name, subject.name, seed)
        if key not in self._results:
            self.progress(method, seed)
            self.say(f"{method.name}, seed {seed}: answering {subject.name}")
            evaluation = subject.evaluation(seed, self.scale.samples)
            self._results[key] = self._answered("answers", method, subject, evaluation)
        return self._results[key]

    def baseline_results(self, method: Method, subject: Subject, seed: int) -> list[SampleResult]:
        """Return answers to the stream by a method that does not learn, in its order."""
        stream = subject.stream(seed, self.scale.stream)
        return self._answered("stream", method, subject, stream)

    def _answered(
        self, what: str, method: Method, subject: Subject, evaluation: Evaluation
    ) -> list[SampleResult]:
        (seed,) = evaluation.seeds
        sampled = self.sampled(evaluation).under(method.options)
        folder = self._place(what, method, subject, seed)
        return answer_all(self.components(method, seed), sampled, folder, self.document)

    def _mine(
        self, method: Method, mining: Mining, subject: Subject, seed: int
    ) -> LearningProgress:
        """Fill the pool of demonstrations by ACE's mining of the stream."""
        plain = self.writers[method.writer]
        stream = self.sampled(subject.stream(seed, self.scale.stream))
        sampled = mined_as(stream, replace(mining, api=plain.settings.api))
        folder = self._place("learning", method, subject, seed)
        self.say(f"{method.name}, seed {seed}: mining {subject.name}")
        results = answer_all(plain, sampled, folder, self.document)
        source = ExampleSource(
            sampled.evaluation, plain.settings.api, plain.library, plain.llm.model_id
        )
        programs = candidates(results, sampled.samples, source)
        examples = select(programs, Selection(mining.keep, mining.agree, seed=seed))
        pool = DemonstrationPool(self.state(method, seed) / DEMONSTRATIONS)
        ids = pool.add([pool_example(replace(each, part="program")) for each in examples])
        count = len(sampled.samples)
        return LearningProgress(count, count, count, demonstrations=len(ids))

    def _learn(self, method: Method, subject: Subject, seed: int) -> LearningProgress:
        if method.mined is not None:
            return self._mine(method, method.mined, subject, seed)
        parts = self.components(method, seed)
        sampled = self.sampled(subject.stream(seed, self.scale.stream)).under(method.options)
        evaluation, folder = sampled.evaluation, self._place("learning", method, subject, seed)

        def say(text: str) -> None:
            self.say(f"{method.name}, seed {seed}: {text}")

        learner = learner_for(
            parts,
            self.state(method, seed),
            Data(seed=seed),
            reflection=method.reflection,
            settings=method.demonstrations or LearnSettings(False, False),
            tools=method.tools and replace(method.tools, seed=seed),
            origin=origin_of(parts, subject.set_name, subject.stream_split),
            on_step=say,
            memory=self._trained,
        )
        # Never closed: the sandbox is that of all methods.
        reasoner = Reasoner(parts, preload=False)
        plain = Reasoner(self.writers[method.writer], preload=False)
        manifest = manifest_of(evaluation, sampled.samples, plain, self.document, {})
        judge = metric(evaluation.metric)
        runner = SampleRunner.with_cache(reasoner, judge, evaluation.options, IN_MEDIA)
        with RunStore.resume(folder, manifest) as store:
            learning = LearningLoop(runner, learner, store, Journal(folder))
            learning.on_change = lambda now: say(
                f"{subject.name} {now.learned} of {now.total} lessons"
            )
            return learning.run(items(sampled.samples, evaluation.seeds), threading.Event())

    def _place(self, what: str, method: Method, subject: Subject, seed: int) -> Path:
        return self.folder / what / slug(method.name) / f"{slug(subject.name)}-{seed}"
