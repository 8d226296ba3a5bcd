"""Who says what made an answer wrong: by intervention here, by a language model next door.

To intervene is to run a program again with one thing changed: does the desired answer come out?
Changed is one answer of one tool, or one thing in the program itself. Whatever a program asks twice
in the same words is one question to the tool and is changed in all its places at once.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from viper.ace.critique import Critique
from viper.errors import ToolError
from viper.schema import ToolCall, Trial
from viper.strategies.base import Components, RunContext
from viper.strategies.program import run_once
from viper.strategies.writing import Generation
from viper.tools.session import plain
from viper.tuning.alternatives import WITH_ALTERNATIVES, CallContext, alternatives_of
from viper.tuning.case import Case, desired_texts, is_desired
from viper.tuning.program_edits import Vocabulary, edited_programs

_STRANGE_ARGUMENTS = (ToolError, TypeError, ValueError, LookupError)
"""What arguments that a tool took, or repaired, may raise where its candidates are read."""


@runtime_checkable
class Reflector(Protocol):
    """Finds what is to blame for a wrong answer."""

    def reflect(self, case: Case) -> Critique:
        """Return a critique. Its location is ``none`` if the error cannot be attributed with
        reason.

        Raises:
            CritiqueError: a language model's words say nothing that can be understood.
        """
        ...


@dataclass(frozen=True)
class Weighing:
    """How explanations are weighed against each other and against a wrong program.

    The defaults were chosen on injected faults of the embedded world's validation split, see
    ``benchmarks/blame.py``.

    Attributes:
        program: cost in nats of a program that is wrong in a way nobody can name; a change of one
            thing in it that helps costs less.
        margin: by how much, in nats, the best explanation must be cheaper than the next.
        edits: whether changes of the program are tried at all.
    """

    program: float = 5.0
    margin: float = 1.0
    edits: bool = True


@dataclass(frozen=True)
class Limits:
    """How far a search goes.

    Attributes:
        runs: of the program at most.
        time_s: after which no further run is begun; what was found by then is not complete.
        cost: in nats; more implausible changes are not tried.
        margin: in nats; once a change is found, only those that cost at most this much more
            are tried.
        edits: whether other programs are tried, too.
    """

    runs: int = 400
    time_s: float = 30.0
    cost: float = 12.0
    margin: float = 4.0
    edits: bool = True


@dataclass(frozen=True)
class Explanation:
    """The cheapest change of one question's answer, or of the program, that gives the desired one.

    Attributes:
        tool: empty for a change of the program.
        calls: indices of the calls that asked the question, rising; none of the program.
        cost: in nats, see :mod:`viper.tuning.alternatives` and :mod:`viper.tuning.program_edits`.
        result: what the tool should have said, as in the log of calls; or the other program.
        what: the change in words.
    """

    tool: str
    calls: tuple[int, ...]
    cost: float
    result: Any
    what: str


@dataclass(frozen=True)
class Search:
    """What a search came to.

    Attributes:
        explanations: one a question at most, and one of the program; the cheapest first.
        calls: the log of the program as it runs now, unchanged.
        runs: how often it ran.
        complete: False where the budget ended before the changes did.
        already: the program gives the desired answer as it is; nothing was searched.
    """

    explanations: tuple[Explanation, ...]
    calls: tuple[ToolCall, ...]
    runs: int
    complete: bool = True
    already: bool = False


@dataclass(frozen=True)
class _Try:
    """One change that may explain the answer; ``program`` is set for one of the program."""

    cost: float
    calls: tuple[int, ...]
    tool: str
    what: str
    result: Any = None
    program: str | None = None

    def explanation(self) -> Explanation:
        result = plain(self.result) if self.program is None else self.program
        return Explanation(self.tool, self.calls, round(self.cost, 4), result, self.what)


class InterventionReflector:
    """Blames what needs the most plausible change; asks no language model.

    Every plausible change of every call's result is tried, and every program that differs in one
    thing (:class:`Intervention`). What the best explanations cost decides: a call whose
    change is clearly cheaper than that of any other tool and than a wrong program, the program
    where no change of a result comes near it, nothing where two are about equally plausible.
    Where the two are calls of one tool, the tool is blamed and no single call.

    Args:
        components: whose toolbox and sandbox run programs again.
    """

    def __init__(self, components: Components, weighing: Weighing = Weighing()) -> None:
        self._weighing = weighing
        cost, margin = weighing.program + weighing.margin, weighing.margin
        limits = Limits(cost=cost, margin=margin, edits=weighing.edits)
        self._intervention = Intervention(components, limits)

    def reflect(self, case: Case) -> Critique:
        """Return a critique; see :meth:`Reflector.reflect`. Without a desired answer its location
        is ``none``.

        Raises:
            SandboxUnavailableError, SandboxHostError: no program can be run here.
        """
        if case.desired is None:
            return Critique("none", None, "the desired answer is not known")
        return self.judged(self._intervention.search(case))

    def judged(self, search: Search) -> Critique:
        """Return the critique that a search leads to."""
        if search.already:
            return Critique("none", None, "the program gives the desired answer")
        if not search.complete:
            return Critique("none", None, f"the budget ended after {search.runs} runs")
        unnamed = Explanation("", (), self._weighing.program, None, _no_change(search))
        ranked = sorted([*search.explanations, unnamed], key=lambda one: one.cost)
        best = ranked[0]
        rivals = [one for one in ranked[1:] if one.cost < best.cost + self._weighing.margin]
        if any(one.tool != best.tool for one in rivals):
            rival = next(one for one in rivals if one.tool != best.tool)
            return Critique("none", None, f"{_told(best)}; or {_told(rival)}")
        if not best.tool:
            return Critique("program", None, _told(best), best.result)
        if rivals:
            reason = f"{_told(best)}; or {_told(rivals[0])}"
            return Critique.of_tool(best.tool, None, reason)
        return Critique.of_tool(best.tool, best.calls[0], _told(best), best.result)


class Intervention:
    """Searches for the change that would have given the desired answer.

    Args:
        components: whose toolbox and sandbox run the program; no language model writes.
        limits: of each search.
    """

    def __init__(self, components: Components, limits: Limits = Limits()) -> None:
        self._components, self._limits = components, limits

    def search(self, case: Case) -> Search:
        """Search for every question of the run whose plausible alternatives explain the desired
        answer.

        Changes are tried in the order of their cost, then of their calls, so that a search gives
        the same every time unless its time ends.

        Raises:
            SandboxUnavailableError, SandboxHostError: no program can be run here.
        """
        began = time.monotonic()
        base, answered = self._run(case, {})
        if answered:
            return Search((), base.tool_calls, 1, already=True)
        explanations: dict[tuple[int, ...], Explanation] = {}
        runs, bound = 1, self._limits.cost
        for one in self._tries(case, base.tool_calls):
            if one.cost > bound:
                break
            if one.calls in explanations:
                continue
            if runs >= self._limits.runs or time.monotonic() - began > self._limits.time_s:
                return _search(explanations, base, runs, complete=False)
            runs += 1
            again, answered = self._run(case, dict.fromkeys(one.calls, one.result), one.program)
            if answered and _asked_the_same(base.tool_calls, again.tool_calls, one.calls):
                explanations[one.calls] = one.explanation()
                bound = min(bound, one.cost + self._limits.margin)
        return _search(explanations, base, runs)

    def _tries(self, case: Case, log: Sequence[ToolCall]) -> list[_Try]:
        """Return all interventions to try, the cheapest first. Of equals the earlier call wins, the
        program first."""
        session = self._components.toolbox.session(case.media, thresholds=case.trial.thresholds)
        context = CallContext(session, log, desired_texts(case))
        tries = []
        for calls in questions(log):
            first = log[calls[0]]
            try:
                changes = alternatives_of(first, context)
            except _STRANGE_ARGUMENTS:
                continue
            tries += [_Try(one.cost, calls, first.tool, one.what, one.result) for one in changes]
        if self._limits.edits:
            families = self._components.toolbox.settings.attribute_families
            vocabulary = Vocabulary.of_query(families, case.query.text)
            tries += [
                _Try(one.cost, (), "", f"another {one.kind} in the program", program=one.program)
                for one in edited_programs(case.trial.program, vocabulary)
            ]
        return sorted(tries, key=lambda one: (one.cost, one.calls))

    def _run(
        self, case: Case, overrides: Mapping[int, Any], program: str | None = None
    ) -> tuple[Trial, bool]:
        """Run the program, or another one, again and return whether it gives the desired answer."""
        settings = self._components.settings
        context = RunContext(case.query, case.media, settings, threading.Event())
        generation = Generation(program or case.trial.program, "", "first", None, None)
        thresholds = case.trial.thresholds
        trial = run_once(self._components, context, generation, 0, thresholds, overrides)
        answer = context.final_value[0] if context.final_value else None
        return trial, is_desired(answer, case.desired, case.query.task)


def questions(log: Sequence[ToolCall]) -> list[tuple[int, ...]]:
    """Return groups of indices of calls that ask one tool the same, in order of the first call."""
    indices: dict[str, list[int]] = {}
    for call in log:
        key = json.dumps([call.tool, list(call.args), dict(call.kwargs)], sort_keys=True)
        indices.setdefault(key, []).append(call.index)
    return [tuple(calls) for calls in indices.values()]


def _asked_the_same(
    before: Sequence[ToolCall], after: Sequence[ToolCall], calls: Sequence[int]
) -> bool:
    """Return whether the changed calls that ran again still ask the same."""
    return all(
        (before[i].tool, before[i].args, before[i].kwargs)
        == (after[i].tool, after[i].args, after[i].kwargs)
        for i in calls
        if i < len(after)
    )


def _search(
    explanations: Mapping[tuple[int, ...], Explanation],
    base: Trial,
    runs: int,
    complete: bool = True,
) -> Search:
    ordered = sorted(explanations.values(), key=lambda one: (one.cost, one.calls))
    return Search(tuple(ordered), base.tool_calls, runs, complete)


def _told(one: Explanation) -> str:
    where = f"call {one.calls[0]}: " if one.calls else ""
    return f"{where}{one.what} (cost {one.cost:.2f})"


def _no_change(search: Search) -> str:
    unknown = sorted({call.tool for call in search.calls} - WITH_ALTERNATIVES)
    text = "the program is wrong in another way"
    return f"{text}; not examined: {', '.join(unknown)}" if unknown else text
