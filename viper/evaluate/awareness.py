"""Whether an agent knows which tool to trust: what it asks, what that was worth, why it was wrong.

Counted over workflows, as ``viper tune workflows --manner standard`` makes them. A tool is judged
by the answers that came from it: what a turn left as an answer, beside the label.

Source: DWIM (2025), supplement, sec. 11 and figure 9: calls of a question, and wrong answers told
apart as right logic with a wrong tool, wrong logic, wrong metric. Ours: logic is right where the
same code with tools that make no mistake gives the label.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from viper.agreement import normalised
from viper.evaluate.intervals import Estimate, mean, proportion
from viper.prompting.exploring import FINAL
from viper.sandbox import Sandbox
from viper.schema import Failure, ToolCall
from viper.strategies.answers import read_answer
from viper.strategies.explore.environment import OPENING
from viper.strategies.program import program_arguments
from viper.tools.media import Media
from viper.tuning.agent.checker import tool_of
from viper.tuning.agent.code import view
from viper.tuning.agent.flagging import is_rethinking
from viper.tuning.agent.workflow import Workflow
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


@dataclass(frozen=True)
class OfTool:
    """What became of the answers that a tool gave to questions of a type.

    Attributes:
        calls: of the tool.
        answers: that came from it.
        right: share of them that are the label.
        abandoned: of them, taken back by a thought right after.
    """

    tool: str
    kind: str
    calls: int
    answers: int
    right: Estimate
    abandoned: int


@dataclass(frozen=True)
class Awareness:
    """The figures of one agent.

    Attributes:
        calls: of tools, of a question; without the caption that it opens with.
        turns, tokens, seconds: of a question.
        causes: how many wrong answers have which cause, by :data:`CAUSES`.
    """

    samples: int
    right: Estimate
    calls: Estimate
    turns: Estimate
    tokens: Estimate
    seconds: Estimate
    tools: tuple[OfTool, ...]
    causes: Mapping[str, int]

    def share_of(self, cause: str) -> float:
        """Of all samples, those that were wrong for that cause."""
        return self.causes.get(cause, 0) / max(1, self.samples)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def awareness(
    explored: Sequence[Workflow], tools_of: ToolsOf | None = None, sandbox: Sandbox | None = None
) -> Awareness:
    """The figures of explored samples.

    Args:
        tools_of: tools without error, where there are any.
        sandbox: to run code with them again.
    """
    is_right = [one.outcome in ("right", "copied") for one in explored]
    causes = Counter(
        cause_of(one, tools_of, sandbox)
        for one, right in zip(explored, is_right, strict=True)
        if not right
    )
    spent = [one.usage.prompt_tokens + one.usage.completion_tokens for one in explored]
    return Awareness(
        samples=len(explored),
        right=proportion(sum(is_right), len(explored)),
        calls=mean([float(len(_asked(one))) for one in explored]),
        turns=mean([float(len(one.turns)) for one in explored]),
        tokens=mean([float(one) for one in spent]),
        seconds=mean([one.seconds for one in explored]),
        tools=tuple(_of_tools(explored)),
        causes={cause: causes[cause] for cause in CAUSES if causes[cause]},
    )


def cause_of(one: Workflow, tools_of: ToolsOf | None = None, sandbox: Sandbox | None = None) -> str:
    """Why a wrong answer is wrong, one of :data:`CAUSES`."""
    if one.answer is None:
        return "no answer"
    if one.query.task == "question" and _nearly(one.answer, one.label):
        return "wrong metric"
    tools = tools_of(one) if tools_of is not None else None
    if tools is None or sandbox is None:
        return "not told"
    return "wrong tool" if right_with(one, tools, sandbox) else "wrong logic"


def right_with(one: Workflow, tools: PerfectTools, sandbox: Sandbox) -> bool:
    """Whether the code of a sample's turns gives the label with other tools."""
    with sandbox.session(tools=tools) as session:
        arguments = program_arguments(one.query, tools.media)
        session.run(OPENING[one.query.media], args=arguments)
        for turn in one.turns:
            if turn.kind == "code" and turn.failure is None and not session.ended:
                session.run(turn.text)
        if session.ended:
            return False
        outcome = session.run(FINAL, shows=True)
    if not outcome.ok:
        return False
    read = read_answer(outcome.value, one.query, tools.media)
    return not isinstance(read, Failure) and is_desired(read, one.label, one.query.task)


def _nearly(answer: Any, label: Any) -> bool:
    """Whether one of two texts holds the other, word for word, or differs in a final s."""
    labels = label if isinstance(label, list | tuple) else [label]
    said = normalised(answer)
    for wanted in map(normalised, labels):
        if not said or not wanted or said == wanted:
            continue
        if f" {wanted} " in f" {said} " or f" {said} " in f" {wanted} ":
            return True
        if said.removesuffix("s") == wanted.removesuffix("s"):
            return True
    return False


def _asked(one: Workflow) -> list[ToolCall]:
    """Calls that the agent's code made."""
    of_turns = {index for turn in one.turns for index in turn.calls}
    return [call for call in one.tool_calls if call.index in of_turns]


def _of_tools(explored: Iterable[Workflow]) -> Iterable[OfTool]:
    calls: Counter[tuple[str, str]] = Counter()
    answers: dict[tuple[str, str], list[bool]] = defaultdict(list)
    abandoned: Counter[tuple[str, str]] = Counter()
    for one in explored:
        calls.update((call.tool, one.kind) for call in _asked(one))
        for place, turn in enumerate(one.turns):
            found = view(turn.text) if turn.kind == "code" and turn.failure is None else None
            if found is None:
                continue
            if not found.is_candidate or not _is_answer(turn.value, one):
                continue
            if FINAL in found.stored and not found.tools:
                continue  # what is stored was counted where it came from
            key = (tool_of(one.turns[: place + 1]), one.kind)
            answers[key].append(_is_label(turn.value, one))
            after = one.turns[place + 1] if place + 1 < len(one.turns) else None
            abandoned[key] += after is not None and is_rethinking(after)
    for tool, kind in sorted({*calls, *answers}):
        given = answers[tool, kind]
        yield OfTool(
            tool,
            kind,
            calls[tool, kind],
            len(given),
            proportion(sum(given), len(given)),
            abandoned[tool, kind],
        )


def _is_answer(value: Any, one: Workflow) -> bool:
    """Whether a value can be one of the task; boxes, which JSON does not tell apart, are none."""
    return one.query.task != "ground" and isinstance(value, str | int | float | bool)


def _is_label(value: Any, one: Workflow) -> bool:
    """Whether a turn's value is the label."""
    labels = one.label if isinstance(one.label, list | tuple) else [one.label]
    if one.query.task == "choice" and isinstance(one.label, int):
        labels = [one.query.options[one.label]]
    return normalised(value) in {normalised(label) for label in labels}
