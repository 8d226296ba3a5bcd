"""Workflows of a set's samples, as training data for an agent: explored, judged, kept.

One line of JSON a workflow, appended as it ends; what is there is not made again, so a run that was
killed goes on. Several are on their way at once.

Source: DWIM (2025), supplement, secs. 8 and 10: the three modes and their data utilisation.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from viper.data.sample import Sample
from viper.errors import CancelledError, DataError, StoreError, UsageError
from viper.evaluate.engines.runner import UNBOUNDED, Budget
from viper.evaluate.intervals import Estimate, proportion
from viper.learning.loop import desired_of
from viper.models.media import media_from
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Usage
from viper.storage.json_lines import append_line, read_lines
from viper.strategies.explore import ExploreSettings
from viper.strategies.explore.agent import Verifier
from viper.strategies.explore.strategy import ExploreStrategy
from viper.tuning.agent.verifier import LabelVerifier, LanguageVerifier
from viper.tuning.agent.workflow import MODES, Workflow, outcome_of
from viper.tuning.case import is_desired

WORKFLOWS = "workflows.jsonl"
"""Of the folder."""

LONGEST_ERROR = 300

IN_A_ROW = 3
"""Samples that fail one after another: it is not theirs, a model is out of reach."""


@dataclass(frozen=True)
class WorkflowSettings:
    """How workflows are made.

    Attributes:
        set_name: the data set.
        mode: one of :data:`viper.tuning.agent.workflow.MODES`.
        options: settings of every run; task, options, seed and sample id come from the sample.
        seed: of sampling.
        checks_by: ``rules``, or ``llm`` for a language model that is shown the label.
        budget: of the whole.
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
    """Read the workflows of a file, or of a folder that holds :data:`WORKFLOWS`, in their order.

    Raises:
        UsageError: there is no such file.
        DataError: a line is no workflow.
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
    making: WorkflowSettings,
    folder: Path,
    *,
    workers: int = 1,
    cancel: threading.Event | None = None,
    on_made: Callable[[Workflow], None] = lambda workflow: None,
    on_kept: Callable[[Workflow], None] = lambda workflow: None,
) -> list[Workflow]:
    """Make the workflows of the samples, in their order. The budget may leave some out.

    The budget counts all that the folder holds, of every mode. A sample that cannot be explored,
    because its picture cannot be read or its prompt is too long, is kept as unanswered with the
    error; :data:`IN_A_ROW` of them one after another, or all there are, end the making and are not
    kept.

    Args:
        on_made: told of each as it ends; ``on_kept``, before, of those that are there already.

    Raises:
        UsageError: a sample of a task whose label cannot be compared with.
        CancelledError: ``cancel`` was set; what has ended is kept.
        StoreError: the file cannot be read or written.
        Exception: what the last of :data:`IN_A_ROW` samples failed with.
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
    made_by = _maker(reasoner, making)
    stored = {}
    spent = _Spent()
    for one in read_lines(file, Workflow, "a workflow"):
        spent.add(one)
        if one.set != making.set_name:
            raise UsageError(
                f"{folder} holds workflows of {one.set}, not of {making.set_name}; give another "
                "folder"
            )
        if (one.manner, one.seed) == (making.mode, making.seed) and one.made_by != made_by:
            raise UsageError(
                f"{folder} holds workflows of another agent or of other settings ({one.made_by}; "
                f"now {made_by}); give another folder"
            )
        stored[one.id, one.manner, one.seed] = one
    made: dict[str, Workflow] = {}
    todo = []
    for sample in samples:
        there = stored.get((sample.sample_id, making.mode, making.seed))
        if there is None:
            todo.append(sample)
        elif there.query.text != sample.text:
            raise UsageError(
                f"{folder} holds a workflow of another sample {sample.sample_id} "
                f"({there.query.text!r}, now {sample.text!r}); give another folder"
            )
        else:
            made[sample.sample_id] = there
            on_kept(there)

    def keep(workflow: Workflow) -> None:
        workflow = replace(workflow, made_by=made_by)
        append_line(file, workflow)
        made[workflow.id] = workflow
        spent.add(workflow)
        on_made(workflow)

    failed: list[tuple[Sample, Exception]] = []

    def settle(sample: Sample, made_of_it: Workflow | Exception) -> None:
        if isinstance(made_of_it, Exception):
            failed.append((sample, made_of_it))
            if len(failed) == IN_A_ROW:
                failed.clear()
                raise made_of_it
            return
        keep_failed()
        keep(made_of_it)

    def keep_failed() -> None:
        for sample, error in failed:
            keep(_failed(sample, making, error))
        failed.clear()

    _each(
        todo,
        lambda sample: workflow_of(reasoner, sample, making, cancel),
        settle,
        workers,
        cancel,
        lambda under_way: making.budget.allows(spent.usd, spent.llm_calls, under_way),
    )
    if failed and len(failed) == len(todo):
        raise failed[-1][1]
    keep_failed()
    return [made[one.sample_id] for one in samples if one.sample_id in made]


def workflow_of(
    reasoner: Reasoner,
    sample: Sample,
    making: WorkflowSettings,
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
    if making.mode == "discrepancy" and making.checks_by == "llm":
        verifier = language_verifier = LanguageVerifier(
            reasoner.components.llm, sample.query, label
        )
    elif making.mode == "discrepancy":
        verifier = LabelVerifier(sample.query, desired)
    options = making.options.changed(
        task=sample.task, options=sample.options, seed=making.seed, sample_id=sample.sample_id
    )
    media = media_from(sample.load())
    strategy = ExploreStrategy(verifier, hint=label if making.mode == "given" else "")
    result = reasoner.run(media, sample.text, options, cancel=cancel, using=strategy)
    trace, answer = result.trace, result.answer
    value = None if answer is None else answer.value
    is_right = is_desired(answer, desired, sample.task)
    return Workflow(
        id=sample.sample_id,
        set=making.set_name,
        query=trace.query,
        captions=_captions(result.trace.trials[0].tool_calls, media.kind),
        turns=trace.turns,
        answer=value,
        label=desired,
        manner=making.mode,
        outcome=outcome_of(trace.turns, value, is_right),
        kind=kind_of(sample.groups),
        tool_calls=trace.tool_calls,
        usage=trace.usage
        if language_verifier is None
        else _sum(trace.usage, language_verifier.meter.snapshot()),
        seconds=trace.seconds,
        seed=making.seed,
        cluster=sample.cluster or "",
    )


def _failed(sample: Sample, making: WorkflowSettings, error: Exception) -> Workflow:
    """Build the unanswered workflow of a sample that could not be explored."""
    return Workflow(
        id=sample.sample_id,
        set=making.set_name,
        query=sample.query,
        captions=(),
        turns=(),
        answer=None,
        label=desired_of(sample),
        manner=making.mode,
        outcome="unanswered",
        kind=kind_of(sample.groups),
        seed=making.seed,
        cluster=sample.cluster or "",
        error=f"{type(error).__name__}: {error}"[:LONGEST_ERROR],
    )


def _sum(one: Usage, other: Usage) -> Usage:
    """Add two usages. Unknown costs in dollars are left out."""
    costs = [cost for cost in (one.cost_usd, other.cost_usd) if cost is not None]
    return Usage(
        one.llm_calls + other.llm_calls,
        one.prompt_tokens + other.prompt_tokens,
        one.completion_tokens + other.completion_tokens,
        one.model_calls + other.model_calls,
        sum(costs) if costs else None,
    )


def utilisation(workflows: Sequence[Workflow]) -> tuple[Estimate, float]:
    """Return the share of usable workflows with its interval, and the share that copied the
    label."""
    right = sum(one.outcome == "right" for one in workflows)
    copied = sum(one.outcome == "copied" for one in workflows)
    return proportion(right, len(workflows)), copied / max(1, len(workflows))


_KINDS = ("query_type", "question_type", "type", "semantic")
"""Groups of samples that say of what type a question is, the first that there is."""


def kind_of(groups: Mapping[str, str]) -> str:
    """Return the type of a question from the groups of its sample, or "" if it has none."""
    for name in _KINDS:
        if name in groups:
            return groups[name]
    return next(iter(groups.values()), "")


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
class _Spent:
    """What workflows cost so far."""

    usd: float = 0.0
    llm_calls: int = 0

    def add(self, workflow: Workflow) -> None:
        self.usd += workflow.usage.cost_usd or 0.0
        self.llm_calls += workflow.usage.llm_calls


def _maker(reasoner: Reasoner, making: WorkflowSettings) -> str:
    """Describe in one line the agent and the settings that determine its workflows."""
    components = reasoner.components
    settings = making.options.settings(components.settings)
    agent = components.models.get("explorer", components.llm)
    checks = f", checked by {making.checks_by}" if making.mode == "discrepancy" else ""
    return (
        f"{agent.model_id}, api {settings.api}, temperature {settings.temperature:g}, "
        f"{settings.of(ExploreSettings).max_turns} turns{checks}"
    )


def _each(
    todo: Sequence[Sample],
    work: Callable[[Sample], Workflow],
    settle: Callable[[Sample, Workflow | Exception], None],
    workers: int,
    cancel: threading.Event,
    has_room: Callable[[int], bool],
) -> None:
    """Work on several samples at once. Finished ones are settled even while an error or Ctrl-C ends
    the rest.

    An error that comes with a sample, of viper or of a library, is settled as well.
    """
    waiting, running = list(todo), dict[Future[Workflow], Sample]()

    def settled(one: Future[Workflow]) -> None:
        sample, error = running.pop(one), one.exception()
        if error is None:
            settle(sample, one.result())
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
                for one in sorted(done, key=lambda each: each.exception() is not None):
                    settled(one)
                if cancel.is_set():
                    raise CancelledError("making workflows was cancelled")
        except BaseException:
            cancel.set()
            for one, sample in list(running.items()):
                if not one.cancel() and one.exception() is None:
                    settle(sample, one.result())
            raise
