"""Error attribution: the reflector protocol, and a reflector that works by intervention.

`InterventionReflector.reflect` lets `Intervention.search` try all changes, cheapest first, and
`judged` compares the explanations that it found.

An intervention runs a program again with one change and checks whether it gives the desired answer.
The change is one result of one tool, or one edit of the program. Calls that ask a tool the same
question are changed together. :mod:`viper.tuning.language_reflector` asks a language model instead.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from viper.errors import ToolError
from viper.schema import ToolCall, Trial
from viper.strategies.answers import is_desired
from viper.strategies.base import Components, RunContext
from viper.strategies.critique import Critique
from viper.strategies.program import Generation, run_once
from viper.tools.call_log import plain
from viper.tuning.alternatives import WITH_ALTERNATIVES, CallContext, alternatives_of
from viper.tuning.case import Case, desired_texts
from viper.tuning.program_edits import Vocabulary, edited_programs

# Errors that a call's arguments may raise when its candidates are computed again.
_STRANGE_ARGUMENTS = (ToolError, TypeError, ValueError, LookupError)


@runtime_checkable
class Reflector(Protocol):
    """Protocol of error attribution for a wrong answer."""

    def reflect(self, case: Case) -> Critique:
        """Return a critique. Its location is ``none`` if the error cannot be attributed.

        Raises:
            CritiqueError: the reply of a language model cannot be understood.
        """


@dataclass(frozen=True)
class Weighing:
    """Settings for comparing explanations with each other and with a wrong program, and bounds.

    The defaults were chosen on injected faults of the embedded world's validation split, see
    ``benchmarks/blame.py``.

    Attributes:
        program: cost in nats of a program that is wrong in an unknown way. An edit of the program
            that helps costs less.
        margin: least difference in nats between the best explanation and the next. Changes that
            cost more than a wrong program, or than the first success, by this much are not tried.
        edits: whether edits of the program are tried.
        runs: most runs of the program in a search.
        time_s: time after which no further run begins. The search is then incomplete.
    """

    program: float = 5.0
    margin: float = 1.0
    edits: bool = True
    runs: int = 400
    time_s: float = 30.0


@dataclass(frozen=True)
class Explanation:
    """A change of one tool result, or of the program, that may give the desired answer.

    Attributes:
        tool: name of the tool; "" for an edit of the program.
        calls: indices of the calls that asked the question, ascending; empty for the program.
        cost: cost in nats; see :mod:`viper.tuning.alternatives` and
            :mod:`viper.tuning.program_edits`.
        result: the result that the tool should have given, as in the call log; or the edited
            program.
        what: the change in words.
    """

    tool: str
    calls: tuple[int, ...]
    cost: float
    result: Any
    what: str


@dataclass(frozen=True)
class Search:
    """Result of a search.

    Attributes:
        explanations: at most one per question and one for the program, cheapest first.
        calls: call log of the unchanged program as it runs now.
        runs: number of runs of the program.
        complete: False if a limit ended the search before all changes were tried.
        already: whether the unchanged program gives the desired answer, so that nothing was
            searched.
    """

    explanations: tuple[Explanation, ...]
    calls: tuple[ToolCall, ...]
    runs: int
    complete: bool = True
    already: bool = False


class InterventionReflector:
    """Attributes the error to the part with the most plausible change. Needs no language model.

    Every plausible change of every call's result is tried, and every program with one edit
    (:class:`Intervention`). The costs of the explanations decide. A call is at fault if its change
    is clearly cheaper than the change of any other tool and than a wrong program. The program is
    at fault if no change of a result is nearly as cheap. If two explanations are about equally
    plausible, the error is not attributed; if both are calls of one tool, the tool is at fault
    without a single call.

    Args:
        components: toolbox and sandbox that run the programs again.
    """

    def __init__(self, components: Components, weighing: Weighing = Weighing()) -> None:
        self._weighing, self._intervention = weighing, Intervention(components, weighing)

    def reflect(self, case: Case) -> Critique:
        """Return a critique as :meth:`Reflector.reflect` does.

        Its location is ``none`` without a desired answer, and for edits, because each of hundreds
        of painted pictures would need a judge.

        Raises:
            SandboxUnavailableError, SandboxHostError: no program can run on this machine.
        """
        if case.desired is None:
            return Critique("none", None, "the desired answer is not known")
        if case.query.task == "edit":
            return Critique("none", None, "no change of a result shows whether an edit is right")
        return self.judged(self._intervention.search(case))

    def judged(self, search: Search) -> Critique:
        """Return the critique that a search leads to."""
        if search.already:
            return Critique("none", None, "the program gives the desired answer")
        if not search.complete:
            return Critique("none", None, f"the budget ended after {search.runs} runs")
        other = "the program is wrong in another way"
        unknown = sorted({call.tool for call in search.calls} - WITH_ALTERNATIVES)
        if unknown:
            other += f"; not examined: {', '.join(unknown)}"
        unnamed = Explanation("", (), self._weighing.program, None, other)
        best, *ranked = sorted([*search.explanations, unnamed], key=lambda each: each.cost)
        rivals = [each for each in ranked if each.cost < best.cost + self._weighing.margin]
        rival = next((each for each in rivals if each.tool != best.tool), None)
        if rival is not None:
            return Critique("none", None, f"{_text(best)}; or {_text(rival)}")
        if not best.tool:
            return Critique("program", None, _text(best), best.result)
        if rivals:
            reason = f"{_text(best)}; or {_text(rivals[0])}"
            return Critique.of_tool(best.tool, None, reason)
        return Critique.of_tool(best.tool, best.calls[0], _text(best), best.result)


class Intervention:
    """Searches for the change that would have given the desired answer.

    Args:
        components: toolbox and sandbox that run the program. The language model is not used.
        weighing: settings of each search.
    """

    def __init__(self, components: Components, weighing: Weighing = Weighing()) -> None:
        self._components, self._weighing = components, weighing

    def search(self, case: Case) -> Search:
        """Search for the cheapest change of each question that gives the desired answer.

        Changes are tried in order of cost, then of calls. So a search is repeatable unless its time
        runs out.

        Raises:
            SandboxUnavailableError, SandboxHostError: no program can run on this machine.
        """
        began, weighing = time.monotonic(), self._weighing
        base, answered = self._run(case, {})
        if answered:
            return Search((), base.tool_calls, 1, already=True)
        explanations: dict[tuple[int, ...], Explanation] = {}
        runs, bound, complete = 1, weighing.program + weighing.margin, True
        for change in self._tries(case, base.tool_calls):
            if change.cost > bound:
                break
            if change.calls in explanations:
                continue
            if runs >= weighing.runs or time.monotonic() - began > weighing.time_s:
                complete = False
                break
            runs += 1
            overrides = dict.fromkeys(change.calls, change.result)
            program = None if change.tool else change.result
            rerun, answered = self._run(case, overrides, program)
            # the changed calls that ran again must still ask the same question
            again = [i for i in change.calls if i < len(rerun.tool_calls)]
            if answered and all(
                _question(base.tool_calls[i]) == _question(rerun.tool_calls[i]) for i in again
            ):
                explanations[change.calls] = replace(
                    change, cost=round(change.cost, 4), result=plain(change.result)
                )
                bound = min(bound, change.cost + weighing.margin)
        ordered = sorted(explanations.values(), key=lambda each: (each.cost, each.calls))
        return Search(tuple(ordered), base.tool_calls, runs, complete)

    def _tries(self, case: Case, log: Sequence[ToolCall]) -> list[Explanation]:
        """Return all interventions to try, cheapest first.

        Of equal costs, edits of the program come first, then earlier calls.
        """
        session = self._components.toolbox.session(case.media, thresholds=case.trial.thresholds)
        context = CallContext(session, log, desired_texts(case))
        tries: list[Explanation] = []
        for calls in questions(log):
            first = log[calls[0]]
            with suppress(*_STRANGE_ARGUMENTS):
                tries += [
                    Explanation(first.tool, calls, change.cost, change.result, change.what)
                    for change in alternatives_of(first, context)
                ]
        if self._weighing.edits:
            families = self._components.toolbox.settings.attribute_families
            vocabulary = Vocabulary.of_query(families, case.query.text)
            tries += [
                Explanation("", (), edit.cost, edit.program, f"another {edit.kind} in the program")
                for edit in edited_programs(case.trial.program, vocabulary)
            ]
        return sorted(tries, key=lambda change: (change.cost, change.calls))

    def _run(
        self, case: Case, overrides: Mapping[int, Any], program: str | None = None
    ) -> tuple[Trial, bool]:
        """Run the program, or an edited one, and return whether it gives the desired answer."""
        parts = self._components
        context = RunContext(case.query, case.media, parts.settings, threading.Event())
        generation = Generation(program or case.trial.program)
        trial = run_once(parts, context, generation, 0, case.trial.thresholds, overrides)
        return trial, is_desired(trial.answer, case.desired, case.query.task)


def questions(log: Sequence[ToolCall]) -> list[tuple[int, ...]]:
    """Return the indices of calls in groups that ask a tool the same question, in call order."""
    indices: dict[str, list[int]] = {}
    for call in log:
        key = json.dumps([call.tool, list(call.args), dict(call.kwargs)], sort_keys=True)
        indices.setdefault(key, []).append(call.index)
    return [tuple(calls) for calls in indices.values()]


def _question(call: ToolCall) -> tuple[Any, ...]:
    return call.tool, call.args, call.kwargs


def _text(explanation: Explanation) -> str:
    where = f"call {explanation.calls[0]}: " if explanation.calls else ""
    return f"{where}{explanation.what} (cost {explanation.cost:.2f})"
