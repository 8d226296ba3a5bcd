"""Collection of an agent's workflows on a set's samples, as training data.

Each workflow is one line of JSON, appended when it ends. Stored workflows are not made again, so
an interrupted run resumes. Several workflows are made in parallel.

Source: DWIM (2025), supplement, secs. 8 and 10: the three modes and their data utilisation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from viper.data.sample import Sample, kind_of
from viper.errors import CancelledError, DataError, StoreError, UsageError
from viper.evaluate.engines.runner import UNBOUNDED, Budget
from viper.evaluate.intervals import Estimate, proportion
from viper.models.media import media_from
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Usage
from viper.storage.json_lines import append_line, read_lines
from viper.strategies.answers import is_desired
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
    """

    set_name: str
    mode: str
    options: RunOptions = RunOptions()
    seed: int = 0
    checks_by: str = "rules"
    budget: Budget = UNBOUNDED

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
    file = folder / WORKFLOWS
    folder.mkdir(parents=True, exist_ok=True)
    made_by = _maker(reasoner, settings)
    stored = {}
    spent = _Cost()
    for workflow in read_lines(file, Workflow, "a workflow"):
        spent.add(workflow)
        if workflow.set != settings.set_name:
            raise UsageError(
                f"{folder} holds workflows of {workflow.set}, not of {settings.set_name}; give "
                "another folder"
            )
        same_mode = (workflow.manner, workflow.seed) == (settings.mode, settings.seed)
        if same_mode and workflow.made_by != made_by:
            raise UsageError(
                f"{folder} holds workflows of another agent or of other settings "
                f"({workflow.made_by}; now {made_by}); give another folder"
            )
        stored[workflow.id, workflow.manner, workflow.seed] = workflow
    workflows: dict[str, Workflow] = {}
    todo = []
    for sample in samples:
        existing = stored.get((sample.sample_id, settings.mode, settings.seed))
        if existing is None:
            todo.append(sample)
        elif existing.query.text != sample.text:
            raise UsageError(
                f"{folder} holds a workflow of another sample {sample.sample_id} "
                f"({existing.query.text!r}, now {sample.text!r}); give another folder"
            )
        else:
            workflows[sample.sample_id] = existing
            on_kept(existing)

    def keep(workflow: Workflow) -> None:
        workflow = replace(workflow, made_by=made_by)
        append_line(file, workflow)
        workflows[workflow.id] = workflow
        spent.add(workflow)
        on_made(workflow)

    failed: list[tuple[Sample, Exception]] = []

    def settle(sample: Sample, outcome: Workflow | Exception) -> None:
        if isinstance(outcome, Exception):
            failed.append((sample, outcome))
            if len(failed) == IN_A_ROW:
                failed.clear()
                raise outcome
            return
        keep_failed()
        keep(outcome)

    def keep_failed() -> None:
        for sample, error in failed:
            keep(_failed(sample, settings, error))
        failed.clear()

    _each(
        todo,
        lambda sample: workflow_of(reasoner, sample, settings, cancel),
        settle,
        workers,
        cancel,
        lambda under_way: settings.budget.allows(spent.usd, spent.llm_calls, under_way),
    )
    if failed and len(failed) == len(todo):
        raise failed[-1][1]
    keep_failed()
    return [workflows[sample.sample_id] for sample in samples if sample.sample_id in workflows]


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
        verifier = language_verifier = LanguageVerifier(
            reasoner.components.llm, sample.query, label
        )
    elif settings.mode == "discrepancy":
        verifier = LabelVerifier(sample.query, desired)
    options = settings.options.changed(
        task=sample.task, options=sample.options, seed=settings.seed, sample_id=sample.sample_id
    )
    media = media_from(sample.load())
    strategy = ExploreStrategy(verifier, hint=label if settings.mode == "given" else "")
    result = reasoner.run(media, sample.text, options, cancel=cancel, using=strategy)
    trace, answer = result.trace, result.answer
    value = None if answer is None else answer.value
    is_right = is_desired(answer, desired, sample.task)
    return Workflow(
        id=sample.sample_id,
        set=settings.set_name,
        query=trace.query,
        captions=_captions(result.trace.trials[0].tool_calls, media.kind),
        turns=trace.turns,
        answer=value,
        label=desired,
        manner=settings.mode,
        outcome=outcome_of(trace.turns, value, is_right),
        kind=kind_of(sample.groups),
        tool_calls=trace.tool_calls,
        usage=trace.usage
        if language_verifier is None
        else _sum(trace.usage, language_verifier.meter.snapshot()),
        seconds=trace.seconds,
        seed=settings.seed,
        cluster=sample.cluster or "",
    )


def _failed(sample: Sample, settings: WorkflowSettings, error: Exception) -> Workflow:
    """Build the unanswered workflow of a sample that could not be explored."""
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
        error=f"{type(error).__name__}: {error}"[:LONGEST_ERROR],
    )


def _sum(first: Usage, second: Usage) -> Usage:
    """Add two usages. Unknown costs in dollars are left out."""
    costs = [cost for cost in (first.cost_usd, second.cost_usd) if cost is not None]
    return Usage(
        first.llm_calls + second.llm_calls,
        first.prompt_tokens + second.prompt_tokens,
        first.completion_tokens + second.completion_tokens,
        first.model_calls + second.model_calls,
        sum(costs) if costs else None,
    )


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


def _captions(calls: Iterable[Any], kind: str) -> tuple[str, ...]:
    """Return the captions at the start of the run, before any turn."""
    named = "caption_video" if kind == "video" else "caption_image"
    captions = []
    for call in calls:
        if call.tool != named or call.line is not None:
            break
        captions.append(str(call.result))
    return tuple(captions)


@dataclass
class _Cost:
    """Sum of the costs of workflows."""

    usd: float = 0.0
    llm_calls: int = 0

    def add(self, workflow: Workflow) -> None:
        self.usd += workflow.usage.cost_usd or 0.0
        self.llm_calls += workflow.usage.llm_calls


def _maker(reasoner: Reasoner, settings: WorkflowSettings) -> str:
    """Describe in one line the agent and the settings that determine its workflows."""
    components = reasoner.components
    run_settings = settings.options.settings(components.settings)
    agent = components.models.get("explorer", components.llm)
    checks = f", checked by {settings.checks_by}" if settings.mode == "discrepancy" else ""
    return (
        f"{agent.model_id}, api {run_settings.api}, temperature {run_settings.temperature:g}, "
        f"{run_settings.of(ExploreSettings).max_turns} turns{checks}"
    )


def _each(
    todo: Sequence[Sample],
    work: Callable[[Sample], Workflow],
    settle: Callable[[Sample, Workflow | Exception], None],
    workers: int,
    cancel: threading.Event,
    has_room: Callable[[int], bool],
) -> None:
    """Work on several samples in parallel and settle each result or error.

    Finished samples are settled even if an error or Ctrl-C ends the others. A cancellation or a
    store error is raised instead of settled.
    """
    waiting, running = list(todo), dict[Future[Workflow], Sample]()

    def settle_future(future: Future[Workflow]) -> None:
        sample, error = running.pop(future), future.exception()
        if error is None:
            settle(sample, future.result())
        elif isinstance(error, CancelledError | StoreError) or not isinstance(error, Exception):
            raise error
        else:
            settle(sample, error)

    with ThreadPoolExecutor(workers, thread_name_prefix="viper-workflow") as pool:
        try:
            while waiting or running:
                while waiting and len(running) < workers and has_room(len(running)):
                    sample = waiting.pop(0)
                    running[pool.submit(work, sample)] = sample
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda each: each.exception() is not None):
                    settle_future(future)
                if cancel.is_set():
                    raise CancelledError("making workflows was cancelled")
        except BaseException:
            cancel.set()
            for future, sample in list(running.items()):
                if not future.cancel() and future.exception() is None:
                    settle(sample, future.result())
            raise
