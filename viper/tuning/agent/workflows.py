"""Collection of an agent's workflows on a set's samples, as training data.

`make_workflows` runs the samples as a campaign (`viper/evaluate/campaign.py`): `_WorkflowRunner`
makes a workflow with `workflow_of`, and `_WorkflowStore` appends it as a line of JSON when it ends.
Stored workflows are not made again, so an interrupted run resumes.

Source: DWIM (2025), supplement, secs. 8 and 10: the three modes and their data utilisation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from viper.data.sample import Sample, kind_of
from viper.errors import CancelledError, DataError, ModelError, StoreError, UsageError
from viper.evaluate.campaign import UNBOUNDED, Budget, run
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.sample_runner import Engine, Item, ItemOutcome, Work
from viper.evaluate.intervals import Estimate, proportion
from viper.evaluate.sample_result import SampleResult
from viper.models.media import media_from
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Usage, to_json
from viper.storage.json_lines import append_line, read_lines
from viper.strategies.answers import is_desired
from viper.strategies.base import UsageMeter
from viper.strategies.explore import ExploreSettings
from viper.strategies.explore.strategy import ExploreStrategy, Verifier
from viper.strategies.explore.workflow import MODES, Workflow, outcome_of
from viper.tuning.agent.verifier import LabelVerifier, LanguageVerifier
from viper.tuning.loop import desired_of

# Name of the file in its folder.
WORKFLOWS = "workflows.jsonl"

# Enough to recognise an error; some messages quote a whole prompt.
LONGEST_ERROR = 300

# Failures in a row that end the collection, because a model is probably out of reach.
IN_A_ROW = 3


@dataclass(frozen=True)
class WorkflowSettings:
    """Settings for making workflows.

    Attributes:
        set_name: the data set.
        mode: one of :data:`viper.strategies.explore.workflow.MODES`.
        options: settings of every run; task, options, seed and sample id come from the sample.
        seed: random seed for sampling.
        checks_by: ``rules``, or ``llm`` for a language model that is shown the label.
        budget: limit for all workflows of the folder together.
        examples: solved queries in the agent's prompts, see
            :func:`viper.prompting.exploring.explore_prompt`.
    """

    set_name: str
    mode: str
    options: RunOptions = RunOptions()
    seed: int = 0
    checks_by: str = "rules"
    budget: Budget = UNBOUNDED
    examples: str = ""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"mode is {self.mode!r}; expected one of {', '.join(MODES)}")


def read_workflows(path: Path) -> list[Workflow]:
    """Read the workflows of a file, or of a folder that holds :data:`WORKFLOWS`, in file order.

    Raises:
        UsageError: there is no such file.
        DataError: a line is not a workflow.
    """
    file = path / WORKFLOWS if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"{file}: no such file; make workflows with viper learn workflows")
    try:
        return read_lines(file, Workflow, "a workflow")
    except StoreError as error:
        raise DataError(f"{error}; expected what viper learn workflows writes") from None


def make_workflows(
    reasoner: Reasoner,
    samples: Sequence[Sample],
    settings: WorkflowSettings,
    folder: Path,
    *,
    workers: int = 1,
    cancel: threading.Event | None = None,
    on_made: Callable[[Workflow], None] = lambda workflow: None,
    on_kept: Callable[[Workflow], None] = lambda workflow: None,
    opened: Callable[[Work], AbstractContextManager[Engine]] = lambda work: nullcontext(
        work.engine
    ),
) -> list[Workflow]:
    """Make the workflows of the samples and return them in order. The budget may leave some out.

    The budget counts every workflow in the folder, of every mode. A sample that cannot be explored,
    because its picture cannot be read or its prompt is too long, is stored as unanswered with the
    error. If :data:`IN_A_ROW` samples fail one after another, or all of them fail, the last error
    is raised and these samples are not stored.

    Args:
        workers: number of samples that are explored in parallel.
        on_made: called with each new workflow when it ends.
        on_kept: called first, with each workflow that the folder already holds.
        opened: opens an engine for the work, by default threads of this process.

    Raises:
        UsageError: a sample's task has no label to compare answers with, or the folder holds
            workflows of another set, agent, settings or query.
        CancelledError: ``cancel`` was set; finished workflows are stored.
        StoreError: the file cannot be read or written.
        Exception: the error of the last of :data:`IN_A_ROW` failed samples.
    """
    cancel = cancel or threading.Event()
    for sample in samples:
        if desired_of(sample) is None:
            raise UsageError(
                f"sample {sample.sample_id} is of task {sample.task}; workflows are made of "
                "grounding, questions, choices and statements"
            )
    work = workflow_work(reasoner, samples, settings, workers)
    store = _WorkflowStore(folder, samples, settings, work.facts["made_by"], on_made)
    kept = store.of(samples)
    for workflow in kept:
        on_kept(workflow)
    with opened(work) as engine:
        run(engine, work.items, store, budget=settings.budget, stop=cancel)
    if cancel.is_set():
        raise CancelledError("making workflows was cancelled")
    store.finish(len(samples) - len(kept))
    return store.of(samples)


def workflow_work(
    reasoner: Reasoner, samples: Sequence[Sample], settings: WorkflowSettings, workers: int
) -> Work:
    """Return what there is to do, with the agent and the settings that determine the workflows."""
    components = reasoner.components
    used = settings.options.settings(components.settings)
    agent = components.models.get("explorer", components.llm)
    checks = f", checked by {settings.checks_by}" if settings.mode == "discrepancy" else ""
    made_by = (
        f"{agent.model_id}, api {used.api}, temperature {used.temperature:g}, "
        f"{used.of(ExploreSettings).max_turns} turns{checks}"
        f"{', with examples' if settings.examples else ''}"
    )
    todo = [Item(place, sample, settings.seed) for place, sample in enumerate(samples)]
    engine = LocalEngine(_WorkflowRunner(reasoner, settings), Bounds(workers))
    facts = {"made_by": made_by, "routines": to_json(components.library.stored())}
    return Work(todo, engine, facts, reasoner.close)


@dataclass(frozen=True)
class _WorkflowRunner:
    """Makes the workflow of an item. Beside the row stand the workflow and the error, if any."""

    reasoner: Reasoner
    settings: WorkflowSettings

    def answer(
        self, item: Item, cancel: threading.Event, usage: UsageMeter | None = None
    ) -> ItemOutcome:
        sample, seed = item.sample, item.seed
        try:
            workflow = workflow_of(self.reasoner, sample, self.settings, cancel)
        except BaseException as error:  # noqa: BLE001 (the store decides which errors end the run)
            row = SampleResult.of(sample, seed, failure=type(error).__name__)
            why = f"{type(error).__name__}: {error}"[:LONGEST_ERROR]
            failed = _unanswered(sample, self.settings, why)
            return ItemOutcome(item.position, row, (failed, error))
        row = SampleResult.of(sample, seed, usage=workflow.usage)
        return ItemOutcome(item.position, row, (workflow, None))

    def ahead(self, in_flight: int) -> int:
        return 0  # reading a picture takes no time beside the many requests of an exploration

    def prefetch(self, item: Item) -> None: ...


class _WorkflowStore:
    """The folder's file of workflows; see :class:`viper.evaluate.campaign.ResultStore`.

    A sample that failed is held back until a later one succeeds or the run ends.
    """

    def __init__(
        self,
        folder: Path,
        samples: Sequence[Sample],
        settings: WorkflowSettings,
        made_by: str,
        on_made: Callable[[Workflow], None],
    ) -> None:
        self._folder, self._settings, self._made_by = folder, settings, made_by
        self._samples, self._on_made = samples, on_made
        self._failed: list[tuple[Workflow, Exception]] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._all = read_lines(folder / WORKFLOWS, Workflow, "a workflow")
        self._of_mode: dict[str, Workflow] = {}
        for workflow in self._all:
            if workflow.set != settings.set_name:
                raise UsageError(
                    f"{folder} holds workflows of {workflow.set}, not of {settings.set_name}; give "
                    "another folder"
                )
            if (workflow.manner, workflow.seed) != (settings.mode, settings.seed):
                continue
            if workflow.made_by != made_by:
                raise UsageError(
                    f"{folder} holds workflows of another agent or of other settings "
                    f"({workflow.made_by}; now {made_by}); give another folder"
                )
            self._of_mode[workflow.id] = workflow

    def of(self, samples: Sequence[Sample]) -> list[Workflow]:
        """Return the workflows of those samples that have one."""
        workflows = []
        for sample in (each for each in samples if each.sample_id in self._of_mode):
            workflow = self._of_mode[sample.sample_id]
            if workflow.query.text != sample.text:
                raise UsageError(
                    f"{self._folder} holds a workflow of another sample {sample.sample_id} "
                    f"({workflow.query.text!r}, now {sample.text!r}); give another folder"
                )
            workflows.append(workflow)
        return workflows

    def rows(self) -> Iterator[SampleResult]:
        """Yield the cost of every workflow of the folder: the budget is for all modes together."""
        for workflow in self._all:
            yield SampleResult(workflow.id, workflow.seed, 0.0, usage=workflow.usage)

    def done(self) -> set[tuple[str, int]]:
        return {(sample_id, self._settings.seed) for sample_id in self._of_mode}

    def add(
        self,
        position: int,
        result: SampleResult,
        trace: tuple[Workflow, BaseException | None] | None,
    ) -> None:
        if trace is None:  # two actors died of it
            why = result.message or ""
            trace = _unanswered(self._samples[position], self._settings, why), ModelError(why)
        workflow, error = trace
        if error is None:
            self._keep_failed(workflow)
        elif isinstance(error, CancelledError | StoreError) or not isinstance(error, Exception):
            raise error
        else:
            self._failed.append((workflow, error))
            if len(self._failed) == IN_A_ROW:
                self._failed.clear()
                raise error

    def finish(self, tried: int) -> None:
        """Store the samples that failed last, or raise if all of ``tried`` did."""
        if self._failed and len(self._failed) == tried:
            raise self._failed[-1][1]
        self._keep_failed()

    def _keep_failed(self, *more: Workflow) -> None:
        """Store the samples that were held back, and then more."""
        waiting = [*(failed for failed, _ in self._failed), *more]
        self._failed.clear()  # first, so that an error here stores no sample twice
        for made in waiting:
            workflow = replace(made, made_by=self._made_by)
            append_line(self._folder / WORKFLOWS, workflow)
            self._of_mode[workflow.id] = workflow
            self._on_made(workflow)


def workflow_of(
    reasoner: Reasoner,
    sample: Sample,
    settings: WorkflowSettings,
    cancel: threading.Event | None = None,
) -> Workflow:
    """Make the workflow of one sample.

    Raises:
        CancelledError: ``cancel`` was set.
    """
    desired = desired_of(sample)
    label = _in_words(sample, desired)
    verifier: Verifier | None = None
    language_verifier: LanguageVerifier | None = None
    if settings.mode == "discrepancy" and settings.checks_by == "llm":
        llm = reasoner.components.llm
        verifier = language_verifier = LanguageVerifier(llm, sample.query, label)
    elif settings.mode == "discrepancy":
        verifier = LabelVerifier(sample.query, desired)
    options = settings.options.changed(
        task=sample.task, options=sample.options, seed=settings.seed, sample_id=sample.sample_id
    )
    media = media_from(sample.load())
    hint = label if settings.mode == "given" else ""
    strategy = ExploreStrategy(verifier, hint, settings.examples)
    result = reasoner.run(media, sample.text, options, cancel=cancel, using=strategy)
    trace, answer = result.trace, result.answer
    value, usage = None if answer is None else answer.value, trace.usage
    if language_verifier is not None:
        usage = _sum(usage, language_verifier.meter.snapshot())
    is_right = is_desired(answer, desired, sample.task)
    caption = "caption_video" if media.kind == "video" else "caption_image"
    # captions stand at the start of the run, before any turn
    calls = takewhile(lambda c: c.tool == caption and c.line is None, trace.trials[0].tool_calls)
    return replace(
        _unanswered(sample, settings),
        query=trace.query,
        captions=tuple(str(call.result) for call in calls),
        turns=trace.turns,
        answer=value,
        outcome=outcome_of(trace.turns, value, is_right),
        tool_calls=trace.tool_calls,
        usage=usage,
        seconds=trace.seconds,
    )


def _unanswered(sample: Sample, settings: WorkflowSettings, error: str = "") -> Workflow:
    """Return the workflow of a sample without any turn."""
    return Workflow(
        id=sample.sample_id,
        set=settings.set_name,
        query=sample.query,
        captions=(),
        turns=(),
        answer=None,
        label=desired_of(sample),
        manner=settings.mode,
        outcome="unanswered",
        kind=kind_of(sample.groups),
        seed=settings.seed,
        cluster=sample.cluster or "",
        error=error,
    )


def _sum(first: Usage, second: Usage) -> Usage:
    """Add two usages. Unknown costs in dollars are left out."""
    sums = dict(vars(first))
    for name, count in vars(second).items():
        if count is not None:
            sums[name] = (sums[name] or 0) + count
    return Usage(**sums)


def utilisation(workflows: Sequence[Workflow]) -> tuple[Estimate, float]:
    """Return the share of usable workflows with its interval, and the share that copied labels."""
    right = sum(workflow.outcome == "right" for workflow in workflows)
    copied = sum(workflow.outcome == "copied" for workflow in workflows)
    return proportion(right, len(workflows)), copied / max(1, len(workflows))


def _in_words(sample: Sample, desired: Any) -> str:
    if sample.task == "choice":
        return sample.options[desired]
    if sample.task == "statement":
        return "yes" if desired else "no"
    if isinstance(desired, list | tuple) and sample.task == "question":
        return str(desired[0]) if desired else ""
    return str(desired)
