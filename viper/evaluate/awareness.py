"""Tool awareness of an agent: its calls, how often each tool was right, why answers were wrong.

`run_awareness` reads the explored samples of a run as workflows, asks `causes_of` why each wrong
one is wrong (`right_with` runs its code again with perfect tools), and sums up in `awareness`.

The figures are counted over workflows of ``viper learn workflows --manner standard``. A tool is
judged by the answers that came from it: the answer that a turn stored is compared with the label.

Source: DWIM (2025), supplement, sec. 11 and figure 9: calls per question, and wrong answers divided
into right logic with a wrong tool, wrong logic, and wrong metric. Ours: the logic is right if the
same code gives the label when its tools make no mistake.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from viper.agreement import is_correct, normalise_answer
from viper.api.library import Library
from viper.data.sample import Sample, kind_of
from viper.errors import StoreError, ViperError
from viper.evaluate.intervals import Estimate, mean, proportion, share
from viper.evaluate.runs.store import RunStore, samples_of_run
from viper.prompting.exploring import FINAL
from viper.sandbox import Sandbox
from viper.schema import Failure, ToolCall
from viper.strategies.answers import is_desired, read_answer
from viper.strategies.exact import ExactInput, KnowsTruth
from viper.strategies.explore.code import view
from viper.strategies.explore.environment import OPENING
from viper.strategies.explore.flagging import is_rethinking
from viper.strategies.explore.workflow import Workflow, restated, tells, tool_of, written_answer
from viper.strategies.program import program_arguments

# Causes of a wrong answer; ``not told`` if no perfect tools are available to compare with.
CAUSES = ("wrong tool", "wrong logic", "wrong metric", "no answer", "not told")


ToolsOf = Callable[[Workflow], ExactInput | None]


def perfect_tools(samples: Iterable[Sample]) -> ToolsOf | None:
    """Return a function that finds a workflow's perfect tools. None if any scene is unknown."""
    loaders = {sample.sample_id: sample.load for sample in samples}
    if not all(isinstance(load, KnowsTruth) for load in loaders.values()):
        return None

    def tools_of(workflow: Workflow) -> ExactInput | None:
        load = loaders.get(workflow.id)
        if not isinstance(load, KnowsTruth):
            return None
        return load.exact(workflow.query.text, str(workflow.label))

    return tools_of


@dataclass(frozen=True)
class ToolFigures:
    """Figures of one tool on one type of question.

    Attributes:
        calls: number of calls of the tool.
        answers: number of answers that came from the tool.
        right: share of these answers that are the label.
        abandoned: number of these answers that a thought withdrew, or after which another tool
            answered differently.
    """

    tool: str
    kind: str
    calls: int
    answers: int
    right: Estimate
    abandoned: int


@dataclass(frozen=True)
class SampleFigures:
    """Figures of one sample.

    Attributes:
        unit: the workflow's :attr:`viper.strategies.explore.workflow.Workflow.unit`.
        calls: number of tool calls.
        cause: cause of a wrong answer, one of :data:`CAUSES`; "" if the answer was right.
    """

    unit: str
    calls: int
    cause: str


@dataclass(frozen=True)
class Awareness:
    """The figures of one agent.

    Attributes:
        calls: tool calls per question, without the caption at the start.
        turns, tokens, seconds: mean per question.
        each: figures of every sample, in order.
    """

    right: Estimate
    calls: Estimate
    turns: Estimate
    tokens: Estimate
    seconds: Estimate
    tools: tuple[ToolFigures, ...]
    each: tuple[SampleFigures, ...]

    @property
    def samples(self) -> int:
        """Return the number of samples."""
        return len(self.each)

    @property
    def causes(self) -> dict[str, int]:
        """Count the wrong answers of each cause that occurs, in the order of :data:`CAUSES`."""
        counted = Counter(sample.cause for sample in self.each)
        return {cause: counted[cause] for cause in CAUSES if counted[cause]}

    def share_of(self, cause: str) -> Estimate:
        """Return the share of all samples that were wrong for that cause."""
        return share([one.cause == cause for one in self.each], [one.unit for one in self.each])


def causes_of(
    explored: Sequence[Workflow], tools_of: ToolsOf | None = None, sandbox: Sandbox | None = None
) -> list[str]:
    """Return the cause of each wrong sample, one of :data:`CAUSES`; "" for right ones.

    Args:
        tools_of: returns a workflow's perfect tools, if it has any.
        sandbox: runs the code again with perfect tools.
    """
    return [
        "" if workflow.outcome in ("right", "copied") else cause_of(workflow, tools_of, sandbox)
        for workflow in explored
    ]


def awareness(explored: Sequence[Workflow], causes: Sequence[str] | None = None) -> Awareness:
    """Return the figures of explored samples.

    Args:
        causes: result of :func:`causes_of`; by default it is called without perfect tools.
    """
    causes = causes_of(explored) if causes is None else causes
    units = [workflow.unit for workflow in explored]
    spent = [each.usage.prompt_tokens + each.usage.completion_tokens for each in explored]
    calls = [len(_agent_calls(workflow)) for workflow in explored]

    of_a_question = partial(mean, clusters=units)
    return Awareness(
        right=share([not cause for cause in causes], units),
        calls=of_a_question(calls),
        turns=of_a_question([len(workflow.turns) for workflow in explored]),
        tokens=of_a_question(spent),
        seconds=of_a_question([workflow.seconds for workflow in explored]),
        tools=tuple(_of_tools(explored)),
        each=tuple(map(SampleFigures, units, calls, causes)),
    )


def cause_of(
    workflow: Workflow, tools_of: ToolsOf | None = None, sandbox: Sandbox | None = None
) -> str:
    """Return the cause of a wrong answer, one of :data:`CAUSES`."""
    if workflow.answer is None:
        return "no answer"
    if workflow.query.task == "question" and _nearly(workflow.answer, workflow.label):
        return "wrong metric"
    tools = tools_of(workflow) if tools_of is not None else None
    if tools is None or sandbox is None:
        return "not told"
    return "wrong tool" if right_with(workflow, tools, sandbox) else "wrong logic"


def right_with(workflow: Workflow, exact: ExactInput, sandbox: Sandbox) -> bool:
    """Return whether the code of a sample's turns gives the label with other tools.

    An answer that the code spells out counts as the result of the turn that it restates. A forced
    answer is the last value that can be an answer.
    """
    values: dict[int, Any] = {}
    with sandbox.session(tools=exact.tools) as session:
        arguments = program_arguments(workflow.query, exact.media)
        session.run(OPENING[workflow.query.media], args=arguments)
        for turn in workflow.turns:
            if turn.kind == "code" and turn.failure is None and not session.ended:
                outcome = session.run(turn.text, shows=True)
                if outcome.ok and outcome.value is not None:
                    values[turn.index] = outcome.value
        if session.ended:
            return False
        stored = session.run(FINAL, shows=True)
    constant = written_answer(workflow.turns)
    if constant is not None:
        source = restated(workflow.turns, constant)
        value = None if source is None else values.get(source.index)
        return any(tells(value, normalise_answer(label)) for label in _labels(workflow))
    candidates = [stored.value] if stored.ok else []
    if not stored.ok and workflow.turns and workflow.turns[-1].kind == "forced":
        candidates = list(reversed(values.values()))
    for value in candidates:
        read = read_answer(value, workflow.query, exact.media)
        if not isinstance(read, Failure):
            return is_desired(read, workflow.label, workflow.query.task)
    return False


def _nearly(answer: Any, label: Any) -> bool:
    """Return whether one text contains the other as whole words, or differs by a final s."""
    labels = label if isinstance(label, list | tuple) else [label]
    words = normalise_answer(answer)
    for label_words in map(normalise_answer, labels):
        if words and label_words and words != label_words:
            is_part = f" {label_words} " in f" {words} " or f" {words} " in f" {label_words} "
            if is_part or words.removesuffix("s") == label_words.removesuffix("s"):
                return True
    return False


def _agent_calls(workflow: Workflow) -> list[ToolCall]:
    """Return the calls that the agent's code made."""
    of_turns = {index for turn in workflow.turns for index in turn.calls}
    return [call for call in workflow.tool_calls if call.index in of_turns]


def _tool_answers(workflow: Workflow) -> list[tuple[str, int, Any]]:
    """Return the distinct answers of a sample that came from tools, in order.

    Each comes with its tool and the place of the turn that first stored it.
    An answer that code stores without a tool call came from the tool that was called last.
    """
    answers: list[tuple[str, int, Any]] = []
    sources: set[int] = set()
    source = -1
    for place, turn in enumerate(workflow.turns):
        code = view(turn.text) if turn.kind == "code" and turn.failure is None else None
        if code is None:
            continue
        source = place if code.tools else source
        # Boxes are no answers, because plain JSON values do not identify them.
        is_plain = isinstance(turn.value, str | int | float | bool)
        can_answer = is_plain and workflow.query.task != "ground"
        if code.is_candidate and can_answer and source not in {-1, *sources}:
            sources.add(source)
            answers.append((tool_of(workflow.turns[: place + 1]), place, turn.value))
    return answers


def _of_tools(explored: Iterable[Workflow]) -> Iterable[ToolFigures]:
    calls: Counter[tuple[str, str]] = Counter()
    answers: dict[tuple[str, str], list[bool]] = defaultdict(list)
    abandoned: Counter[tuple[str, str]] = Counter()
    for workflow in explored:
        calls.update((call.tool, workflow.kind) for call in _agent_calls(workflow))
        tool_answers = _tool_answers(workflow)
        for number, (tool, place, value) in enumerate(tool_answers, start=1):
            key, words = (tool, workflow.kind), normalise_answer(value)
            answers[key].append(words in map(normalise_answer, _labels(workflow)))
            # a thought withdrew the answer, or another tool answered differently later
            later = tool_answers[number:]
            end = later[0][1] if later else len(workflow.turns)
            is_withdrawn = any(map(is_rethinking, workflow.turns[place + 1 : end]))
            abandoned[key] += is_withdrawn or any(
                other != tool and normalise_answer(answer) != words for other, _, answer in later
            )
    for key in sorted({*calls, *answers}):
        right = answers[key]
        share_right = proportion(sum(right), len(right))
        yield ToolFigures(*key, calls[key], len(right), share_right, abandoned[key])


def _labels(workflow: Workflow) -> list[Any]:
    """Return the possible desired answers in words."""
    if workflow.query.task == "choice" and isinstance(workflow.label, int):
        return [workflow.query.options[workflow.label]]
    return list(workflow.label) if isinstance(workflow.label, list | tuple) else [workflow.label]


# Most wrong answers whose code is run again, because a person waits for the page.
MAX_RERUNS = 100


def run_awareness(store: RunStore, max_reruns: int = MAX_RERUNS) -> Awareness | None:
    """Return the figures of a run, or None if none of its samples was explored.

    Args:
        max_reruns: number of wrong answers, from the first, whose code is run again.

    Raises:
        StoreError: the store cannot be read.
    """
    explored = []
    for result in store.rows():
        trace = store.read_trace(result.sample_id, result.seed)
        if trace is None or not trace.turns:
            continue
        outcome = "right" if is_correct(result.score) else "wrong"
        if result.failure is not None or result.prediction is None:
            outcome = "unanswered"
        workflow = Workflow(
            id=result.sample_id,
            set=store.manifest.set.name,
            query=trace.query,
            captions=(),
            turns=trace.turns,
            answer=None if result.prediction is None else result.prediction.value,
            label=result.target,
            manner="standard",
            outcome=outcome,
            kind=kind_of(result.groups),
            tool_calls=trace.tool_calls,
            usage=result.usage,
            seconds=result.seconds,
            seed=result.seed,
        )
        explored.append(workflow)
    if not explored:
        return None
    wrong = [workflow for workflow in explored if workflow.outcome == "wrong"][:max_reruns]
    causes: list[str] | None = None
    try:
        samples = samples_of_run(store, None, {workflow.id for workflow in wrong})
        tools_of = perfect_tools(samples.values())
        if tools_of is not None and wrong:
            library = Library(depth_ratios=store.manifest.depth_ratios)
            chosen = set(map(id, wrong))
            with Sandbox(prelude=library.prelude()) as sandbox:
                causes = [
                    causes_of([workflow], tools_of if id(workflow) in chosen else None, sandbox)[0]
                    for workflow in explored
                ]
    except ViperError as error:  # samples of another edition, no strict sandbox on this machine
        if isinstance(error, StoreError):
            raise
    return awareness(explored, causes)
