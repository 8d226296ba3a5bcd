"""Whether an agent knows which tool to trust: what it asks, what that was worth, why it was wrong.

Counted over workflows, as ``viper learn workflows --manner standard`` makes them. A tool is judged
by the answers that came from it: what a turn left as an answer, beside the label.

Source: DWIM (2025), supplement, sec. 11 and figure 9: calls of a question, and wrong answers told
apart as right logic with a wrong tool, wrong logic, wrong metric. Ours: logic is right where the
same code with tools that make no mistake gives the label.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from viper.agreement import normalise_answer
from viper.api.library import Library
from viper.data.sample import Sample
from viper.errors import StoreError, ViperError
from viper.evaluate.intervals import Estimate, mean, proportion, share
from viper.evaluate.runs.samples import samples_of_run
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.learning.workflows import kind_of
from viper.models.media import Media
from viper.prompting.exploring import FINAL
from viper.record import record_from_json
from viper.sandbox import Sandbox
from viper.schema import Failure, ToolCall, Trace
from viper.strategies.answers import read_answer
from viper.strategies.explore.environment import OPENING
from viper.strategies.program import program_arguments
from viper.tuning.agent.code import view
from viper.tuning.agent.flagging import is_rethinking
from viper.tuning.agent.verifier import tool_of
from viper.tuning.agent.workflow import Workflow, restated, tells, written_answer
from viper.tuning.case import is_desired

CAUSES = ("wrong tool", "wrong logic", "wrong metric", "no answer", "not told")
"""Of a wrong answer; ``not told`` where there are no tools without error to compare with."""


class PerfectTools(Protocol):
    """Tools of one sample that make no mistake, with its media."""

    @property
    def media(self) -> Media: ...

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None = None
    ) -> Any: ...


ToolsOf = Callable[[Workflow], PerfectTools | None]


@runtime_checkable
class KnowsTruth(Protocol):
    """What the ``load`` of a sample offers whose scene is known, as those of a renderer."""

    def perfect_tools(self, question: str, answer: str) -> PerfectTools | None:
        """Return tools without error about this sample, or None where there are none.

        Args:
            question: asked about the whole picture, its answer is known too.
        """
        ...


def perfect_tools(samples: Iterable[Sample]) -> ToolsOf | None:
    """Return what finds the perfect tools of a workflow; None if a sample's scene is not known."""
    loaders = {one.sample_id: one.load for one in samples}
    if not all(isinstance(load, KnowsTruth) for load in loaders.values()):
        return None

    def tools_of(workflow: Workflow) -> PerfectTools | None:
        load = loaders.get(workflow.id)
        if not isinstance(load, KnowsTruth):
            return None
        return load.perfect_tools(workflow.query.text, str(workflow.label))

    return tools_of


@dataclass(frozen=True)
class OfTool:
    """What became of the answers that a tool gave to questions of a type.

    Attributes:
        calls: of the tool.
        answers: that came from it.
        right: share of them that are the label.
        abandoned: of them, taken back by a thought, or followed by another tool's that differed.
    """

    tool: str
    kind: str
    calls: int
    answers: int
    right: Estimate
    abandoned: int


@dataclass(frozen=True)
class OfSample:
    """What a sample adds to the figures.

    Attributes:
        unit: as :attr:`viper.tuning.agent.workflow.Workflow.unit` has it.
        calls: of tools.
        cause: of a wrong answer, one of :data:`CAUSES`; "" of a right one.
    """

    unit: str
    calls: int
    cause: str


@dataclass(frozen=True)
class Awareness:
    """The figures of one agent.

    Attributes:
        calls: of tools, of a question; without the caption that it opens with.
        turns, tokens, seconds: of a question.
        each: of every sample, in their order.
    """

    right: Estimate
    calls: Estimate
    turns: Estimate
    tokens: Estimate
    seconds: Estimate
    tools: tuple[OfTool, ...]
    each: tuple[OfSample, ...]

    @property
    def samples(self) -> int:
        """Return the number of samples."""
        return len(self.each)

    @property
    def causes(self) -> dict[str, int]:
        """Count the wrong answers of each cause that occurs, in the order of :data:`CAUSES`."""
        counted = Counter(one.cause for one in self.each)
        return {cause: counted[cause] for cause in CAUSES if counted[cause]}

    def share_of(self, cause: str) -> Estimate:
        """Return the share of all samples that were wrong for that cause."""
        return share([one.cause == cause for one in self.each], [one.unit for one in self.each])

    def share_of_wrong(self, cause: str) -> Estimate:
        """Return the share of the wrong samples that were wrong for that cause."""
        wrong = [one for one in self.each if one.cause]
        return share([one.cause == cause for one in wrong], [one.unit for one in wrong])

    def of_tool(self, like: OfTool) -> OfTool:
        """Return the figures of the same tool and type of question, or zeros if there are none."""
        for one in self.tools:
            if (one.tool, one.kind) == (like.tool, like.kind):
                return one
        return OfTool(like.tool, like.kind, 0, 0, proportion(0, 0), 0)


def causes_of(
    explored: Sequence[Workflow], tools_of: ToolsOf | None = None, sandbox: Sandbox | None = None
) -> list[str]:
    """Return the cause of each wrong sample, one of :data:`CAUSES`; "" for right ones.

    Args:
        tools_of: tools without error, where there are any.
        sandbox: to run code with them again.
    """
    return [
        "" if one.outcome in ("right", "copied") else cause_of(one, tools_of, sandbox)
        for one in explored
    ]


def awareness(explored: Sequence[Workflow], causes: Sequence[str] | None = None) -> Awareness:
    """Return the figures of explored samples.

    Args:
        causes: of each what :func:`causes_of` says; by default what it says without tools.
    """
    causes = causes_of(explored) if causes is None else causes
    units = [one.unit for one in explored]
    spent = [one.usage.prompt_tokens + one.usage.completion_tokens for one in explored]
    calls = [len(_asked(one)) for one in explored]

    def of_a_question(values: Sequence[float]) -> Estimate:
        return mean([float(one) for one in values], clusters=units)

    return Awareness(
        right=share([not cause for cause in causes], units),
        calls=of_a_question(calls),
        turns=of_a_question([len(one.turns) for one in explored]),
        tokens=of_a_question(spent),
        seconds=of_a_question([one.seconds for one in explored]),
        tools=tuple(_of_tools(explored)),
        each=tuple(map(OfSample, units, calls, causes)),
    )


def cause_of(one: Workflow, tools_of: ToolsOf | None = None, sandbox: Sandbox | None = None) -> str:
    """Return the cause of a wrong answer, one of :data:`CAUSES`."""
    if one.answer is None:
        return "no answer"
    if one.query.task == "question" and _nearly(one.answer, one.label):
        return "wrong metric"
    tools = tools_of(one) if tools_of is not None else None
    if tools is None or sandbox is None:
        return "not told"
    return "wrong tool" if right_with(one, tools, sandbox) else "wrong logic"


def right_with(one: Workflow, tools: PerfectTools, sandbox: Sandbox) -> bool:
    """Return whether the code of a sample's turns gives the label with other tools.

    An answer that the code spells out is that of the turn whose result it restates; one that was
    forced is the last value that can be an answer.
    """
    values: dict[int, Any] = {}
    with sandbox.session(tools=tools) as session:
        arguments = program_arguments(one.query, tools.media)
        session.run(OPENING[one.query.media], args=arguments)
        for turn in one.turns:
            if turn.kind == "code" and turn.failure is None and not session.ended:
                outcome = session.run(turn.text, shows=True)
                if outcome.ok and outcome.value is not None:
                    values[turn.index] = outcome.value
        if session.ended:
            return False
        stored = session.run(FINAL, shows=True)
    written = written_answer(one.turns)
    if written is not None:
        source = restated(one.turns, written)
        value = None if source is None else values.get(source.index)
        return any(tells(value, normalise_answer(label)) for label in _labels(one))
    candidates = [stored.value] if stored.ok else []
    if not stored.ok and one.turns and one.turns[-1].kind == "forced":
        candidates = list(reversed(values.values()))
    for value in candidates:
        read = read_answer(value, one.query, tools.media)
        if not isinstance(read, Failure):
            return is_desired(read, one.label, one.query.task)
    return False


def _nearly(answer: Any, label: Any) -> bool:
    """Return whether one text contains the other as whole words, or differs by a final s."""
    labels = label if isinstance(label, list | tuple) else [label]
    words = normalise_answer(answer)
    for label_words in map(normalise_answer, labels):
        if not words or not label_words or words == label_words:
            continue
        if f" {label_words} " in f" {words} " or f" {words} " in f" {label_words} ":
            return True
        if words.removesuffix("s") == label_words.removesuffix("s"):
            return True
    return False


def _asked(one: Workflow) -> list[ToolCall]:
    """Return the calls that the agent's code made."""
    of_turns = {index for turn in one.turns for index in turn.calls}
    return [call for call in one.tool_calls if call.index in of_turns]


@dataclass(frozen=True)
class _Given:
    """An answer that came from a tool, and the place of the turn that stored it first."""

    tool: str
    place: int
    value: Any


def _given(one: Workflow) -> list[_Given]:
    """Return the distinct answers of a sample that came from tools, in order.

    What code stores as an answer without asking a tool came from the tool that was asked last.
    """
    answers: list[_Given] = []
    sources: set[int] = set()
    source = -1
    for place, turn in enumerate(one.turns):
        code = view(turn.text) if turn.kind == "code" and turn.failure is None else None
        if code is None:
            continue
        source = place if code.tools else source
        if not code.is_candidate or not _is_answer(turn.value, one) or source in {-1, *sources}:
            continue
        sources.add(source)
        answers.append(_Given(tool_of(one.turns[: place + 1]), place, turn.value))
    return answers


def _is_abandoned(one: Workflow, answers: Sequence[_Given], number: int) -> bool:
    """Return whether a thought withdrew an answer, or another tool answered otherwise
    afterwards."""
    this, rest = answers[number], answers[number + 1 :]
    end = rest[0].place if rest else len(one.turns)
    if any(map(is_rethinking, one.turns[this.place + 1 : end])):
        return True
    return any(
        other.tool != this.tool and normalise_answer(other.value) != normalise_answer(this.value)
        for other in rest
    )


def _of_tools(explored: Iterable[Workflow]) -> Iterable[OfTool]:
    calls: Counter[tuple[str, str]] = Counter()
    answers: dict[tuple[str, str], list[bool]] = defaultdict(list)
    abandoned: Counter[tuple[str, str]] = Counter()
    for one in explored:
        calls.update((call.tool, one.kind) for call in _asked(one))
        given = _given(one)
        for number, each in enumerate(given):
            answers[each.tool, one.kind].append(_is_label(each.value, one))
            abandoned[each.tool, one.kind] += _is_abandoned(one, given, number)
    for tool, kind in sorted({*calls, *answers}):
        right = answers[tool, kind]
        yield OfTool(
            tool,
            kind,
            calls[tool, kind],
            len(right),
            proportion(sum(right), len(right)),
            abandoned[tool, kind],
        )


def _is_answer(value: Any, one: Workflow) -> bool:
    """Return whether a value can be an answer to the task. Boxes cannot: JSON does not tell them
    apart."""
    return one.query.task != "ground" and isinstance(value, str | int | float | bool)


def _is_label(value: Any, one: Workflow) -> bool:
    """Return whether a turn's value is the label."""
    return normalise_answer(value) in {normalise_answer(label) for label in _labels(one)}


def _labels(one: Workflow) -> list[Any]:
    """Return the possible desired answers in words."""
    if one.query.task == "choice" and isinstance(one.label, int):
        return [one.query.options[one.label]]
    return list(one.label) if isinstance(one.label, list | tuple) else [one.label]


RIGHT_FROM = 0.5
"""Score from which an answer counts as right, as in the viewer."""


MOST_TOLD = 100
"""Wrong answers whose code is run again; somebody waits for it."""


def run_awareness(store: RunStore, most_told: int = MOST_TOLD) -> Awareness | None:
    """Return the figures of a run, or None if none of its samples was explored.

    Args:
        most_told: wrong answers at most, the first ones, whose code is run again.

    Raises:
        StoreError: the store cannot be read.
    """
    explored = list(explored_samples(store))
    return awareness(explored, _causes(store, explored, most_told)) if explored else None


def _causes(store: RunStore, explored: Sequence[Workflow], most_told: int) -> list[str]:
    """Return the cause of each wrong sample. Beyond ``most_told`` samples the logic is not
    checked."""
    wrong = [one for one in explored if one.outcome == "wrong"][:most_told]
    try:
        tools_of = perfect_tools(samples_of_run(store, None, {one.id for one in wrong}).values())
        if tools_of is None or not wrong:
            return causes_of(explored)
        chosen = {(one.id, one.seed) for one in wrong}
        with Sandbox(prelude=Library().prelude()) as sandbox:
            return [
                causes_of([one], tools_of if (one.id, one.seed) in chosen else None, sandbox)[0]
                for one in explored
            ]
    except StoreError:
        raise
    except ViperError:  # samples of another edition, no strict sandbox on this machine
        return causes_of(explored)


def explored_samples(store: RunStore) -> Iterator[Workflow]:
    """Return the samples of a run that have turns, as workflows."""
    for row in store.rows():
        values = store.trace(row.sample_id, row.seed)
        trace = record_from_json(Trace, values) if values is not None else None
        if trace is not None and trace.turns:
            yield _workflow(row, trace, store.manifest.set.name)


def _workflow(row: SampleResult, trace: Trace, set_name: str) -> Workflow:
    answer = None if row.prediction is None else row.prediction.value
    if row.failure is not None or row.prediction is None:
        outcome = "unanswered"
    else:
        outcome = "right" if row.score >= RIGHT_FROM else "wrong"
    return Workflow(
        id=row.sample_id,
        set=set_name,
        query=trace.query,
        captions=(),
        turns=trace.turns,
        answer=answer,
        label=row.target,
        manner="standard",
        outcome=outcome,
        kind=kind_of(row.groups),
        tool_calls=trace.tool_calls,
        usage=row.usage,
        seconds=row.seconds,
        seed=row.seed,
    )
