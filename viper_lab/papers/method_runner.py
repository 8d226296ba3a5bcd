"""Runs methods: each learns from a stream of labelled samples, then answers others with that.

Each method has pools of its own under every seed. All pools of demonstrations begin with the same
ones (`MethodRunner._first`), mined as ``viper ace pool start`` does, from labelled samples outside
stream and test. All methods share the loaded models, what these computed, and prompts that were
trained from the very same data, in this run or in one before that was cut off. Answers and learning
records are stored as they come: such a run goes on.

Source: CLOVA (Gao et al. 2024), sec. 4.1: prompts of four correct and four incorrect examples, from
a pool that begins with about 20 (15 in the first version of the paper). Differs: nobody writes
those 20; see :mod:`viper.tuning.first_demonstrations`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from viper.ace.mining import ExampleSource, candidates, zero_shot
from viper.ace.select import Selection, select
from viper.data.sample import DatasetSpec
from viper.errors import UsageError
from viper.evaluate.campaign import SampledEvaluation, answer_all
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
from viper.strategies.demonstration_pool import (
    DemonstrationPool,
    LearnedExamples,
    PoolExample,
    pool_example,
)
from viper.strategies.examples import PARTS, NoExamples
from viper.strategies.plan import planner_of
from viper.strategies.prompts import query_for_prompt
from viper.tuning.first_demonstrations import Targets, first_demonstrations, solved_samples
from viper.tuning.learner import LearnSettings
from viper.tuning.loop import LearningLoop, LearningProgress
from viper.tuning.plan_edits import COMMON_FAMILIES
from viper.tuning.tool_training import Sources, TrainedFiles
from viper.tuning.tool_updates import UpdateSettings
from viper.tuning.validation import ValidationRun
from viper.tuning.wiring import Data, Reflection, learner_for, open_sources, origin_of
from viper_lab.papers.cell_runner import Document, Mining, Stored, Writers, mined_as, slug, spread

IN_MEDIA = 8

# Labelled samples that are answered for each of the first demonstrations: some answers are wrong,
# some demonstrations mislead their own query.
ANSWERED = 2


@dataclass(frozen=True)
class Method:
    """One way of learning.

    Attributes:
        name: unique among the methods of a reproduction.
        reflection: who is asked what was wrong; None asks whom the profile names.
        tools: how tools are trained; None trains none.
        demonstrations: which are kept; None adds none to the first ones.
        writer: name of the language model, as the runner knows it.
        options: of every run. A writer that cannot plan writes programs alone.
        learns: False answers with what came with the package, and with the first demonstrations.
        mined: demonstrations are mined from the stream as ACE does, several programs a sample,
            instead of kept from one answer each; None learns from one answer after the other.
        course: learns from the subjects of this course alone, and begins without demonstrations.
    """

    name: str
    reflection: Reflection | None = None
    tools: UpdateSettings | None = UpdateSettings()
    demonstrations: LearnSettings | None = LearnSettings()
    writer: str = "main"
    options: RunOptions = RunOptions(strategy="plan", trials=1, self_tune=False, careful=False)
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
        stream_set: the data set of the stream, if it is another one.
    """

    name: str
    set_name: str
    split: str
    stream_split: str = ""
    root: Path | None = None
    course: str = ""
    stream_set: str = ""

    def evaluation(self, seed: int, limit: int) -> Evaluation:
        """Return what is answered under a seed."""
        return Evaluation(self.set_name, DatasetSpec(self.root, self.split, seed), limit, (seed,))

    def stream(self, seed: int, limit: int) -> Evaluation:
        """Return what is learned from under a seed."""
        name = self.stream_set or self.set_name
        return replace(self, set_name=name, split=self.stream_split).evaluation(seed, limit)


@dataclass(frozen=True)
class Terms:
    """How much is measured.

    Attributes:
        stream: samples that a method learns from, of each subject and seed.
        samples: that are answered afterwards, of each subject and seed.
        start: demonstrations that pools begin with.
        data: sources of training pictures.
    """

    stream: int
    samples: int
    seeds: tuple[int, ...]
    start: int = 0
    data: Data = Data()


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
        self.trained = TrainedFiles(folder / "trained")
        self._firsts: dict[tuple[str, str, int], list[PoolExample]] = {}
        self._sources: dict[Data, Sources] = {}

    def state(self, method: Method, seed: int) -> Path:
        """Return the folder of a method's pools."""
        return self.folder / "states" / slug(method.name) / str(seed)

    def components(self, method: Method, seed: int) -> Components:
        """Return the components with everything that a method has learned so far."""
        parts, state = self.writers[method.writer], self.state(method, seed)
        toolbox = parts.toolbox
        if method.learns and method.tools is not None:
            toolbox = toolbox.with_soft_prompts(PromptPool(state / PROMPTS))
        pool = DemonstrationPool(state / DEMONSTRATIONS)
        if self.scale.start and not method.course and not pool.items():
            pool.add(self._first(method.writer, seed), "first demonstrations")
        examples = LearnedExamples(pool, NoExamples())
        return replace(parts, toolbox=toolbox, demonstrations=pool, examples=examples)

    def options(self, method: Method) -> RunOptions:
        """Return the options of a method's runs."""
        if method.options.strategy == "plan" and not plans(self.writers[method.writer]):
            return method.options.changed(strategy="program")
        return method.options

    def sources(self, seed: int) -> Sources:
        """Return the open sources of training pictures. Only drawn ones depend on the seed."""
        data = self.scale.data
        data = data if data.is_own else replace(data, seed=seed)
        if data not in self._sources:
            self._sources[data] = open_sources(data, self.writers["main"], self.folder)
        return self._sources[data]

    def _first(self, writer: str, seed: int) -> list[PoolExample]:
        """Return the demonstrations that pools begin with.

        About half of each task's are correct, half are incorrect; plans and programs in turn.
        """
        parts, (subject, *_) = self.writers[writer], self._streams("")
        key = (writer, subject.name, seed)
        if key in self._firsts:
            return self._firsts[key]
        forms = len(PARTS) if plans(parts) else 1
        options = zero_shot().changed(
            strategy="plan" if plans(parts) else "program",
            correct_demonstrations=0,
            incorrect_demonstrations=0,
        )
        sampled = self._labelled(subject, seed).under(options)
        evaluation, samples = sampled.evaluation, sampled.samples
        self.say(f"mining first demonstrations from {len(samples)} samples")
        folder = self.folder / "first" / slug(f"{writer} {subject.name} {seed}")
        answer_all(parts, sampled, folder, self.document)
        source = ExampleSource(evaluation, parts.settings.api, parts.library, parts.llm.model_id)
        with RunStore.read(folder) as store:
            solved = solved_samples(store, samples, source)
        share = self.scale.start // len({query_for_prompt(each.query).task for each in samples})
        families = parts.toolbox.settings.attribute_families or COMMON_FAMILIES
        targets = Targets(max(1, share // (2 * forms)), share // 2, seed, families)
        judge = metric(evaluation.metric)
        validation = ValidationRun(parts, judge, options.changed(seed=seed), folder / "tried.jsonl")
        tasks = first_demonstrations(solved, targets, validation, self.say)
        self._firsts[key] = [item for each in tasks for item in (*each.correct, *each.incorrect)]
        return self._firsts[key]

    def _labelled(self, subject: Subject, seed: int) -> SampledEvaluation:
        """Return labelled samples that are neither in the stream nor asked afterwards."""
        asked = [each.evaluation(seed, self.scale.samples) for each in self.subjects]
        stream = subject.stream(seed, self.scale.stream)
        taken = {s.sample_id for each in (stream, *asked) for s in self.sampled(each).samples}
        count = ANSWERED * self.scale.start
        drawn = self.sampled(replace(stream, limit=self.scale.stream + count)).samples
        samples = [sample for sample in drawn if sample.sample_id not in taken][:count]
        if not samples:
            raise UsageError(
                f"{stream.set_name} {stream.spec.split}: all samples are in the stream; take a "
                "smaller --stream, or --start 0"
            )
        return SampledEvaluation(stream, samples)

    def _streams(self, course: str) -> list[Subject]:
        return [each for each in self.subjects if each.stream_split and each.course == course]

    def progress(self, method: Method, seed: int) -> list[LearningProgress]:
        """Return the progress after each stream. Runs the method now if it is not over."""
        key = (method.name, seed)
        if key not in self._standings:
            self._standings[key] = [
                self._learn(method, subject, seed)
                for subject in self._streams(method.course)
                if method.learns
            ]
        return self._standings[key]

    def note(self, method: Method, subject: Subject) -> str:
        """Return the numbers of updates and demonstrations kept, over all seeds."""
        is_planned = self.options(method).strategy == method.options.strategy
        notes = [] if is_planned else ["without plans: the writer knows programs only"]
        if method.learns:
            standings = [self.progress(method, seed) for seed in self.scale.seeds]
            updates = spread([sum(state.updates for state in each) for each in standings])
            sizes = spread([sum(state.demonstrations for state in each) for each in standings])
            notes.insert(0, f"{updates} updates of tools, {sizes} new demonstrations")
        return "; ".join(notes)

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
        sampled = self.sampled(evaluation).under(self.options(method))
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
        stream = subject.stream(seed, self.scale.stream)
        sampled = self.sampled(stream).under(self.options(method))
        evaluation, folder = sampled.evaluation, self._place("learning", method, subject, seed)

        def say(text: str) -> None:
            self.say(f"{method.name}, seed {seed}: {text}")

        learner = learner_for(
            parts,
            self.state(method, seed),
            Sources() if method.tools is None else self.sources(seed),
            reflection=method.reflection or parts.settings.reflector,
            settings=method.demonstrations or LearnSettings(False, False),
            tools=method.tools and replace(method.tools, seed=seed),
            origin=origin_of(parts, stream.set_name, subject.stream_split),
            on_step=say,
            memory=self.trained,
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


def plans(components: Components) -> bool:
    """Return whether somebody writes plans: a planner, or a writer that follows instructions."""
    try:
        planner_of(components, components.settings)
    except UsageError:
        return False
    return True
