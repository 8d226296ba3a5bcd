"""Injects faults into programs that answer right, to measure and train reflection."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

from viper.errors import ToolError
from viper.models.media import Media
from viper.schema import Answer, Query, Trial
from viper.strategies.answers import is_desired
from viper.strategies.base import Components, RunContext, answering_trial
from viper.strategies.critique import Critique
from viper.strategies.program import Generation, run_program
from viper.tools.toolbox import Toolbox
from viper.tuning.case import Case
from viper.tuning.program_edits import Vocabulary, edited_programs
from viper.tuning.reflector import questions
from viper_lab.faults.faulty_toolbox import FaultyToolbox
from viper_lab.faults.tool_faults import FaultSampler

Sort = Literal["tool", "program"]

TRIES = 24


@dataclass(frozen=True)
class SolvedQuery:
    """A program with a right answer to a query.

    Attributes:
        desired: the right answer, see :class:`viper.tuning.case.Case`.
    """

    query: Query
    media: Media
    program: str
    desired: Any


@dataclass(frozen=True)
class Fault:
    """One fault with its truth.

    Attributes:
        sort: ``tool`` or ``program``.
        kind: description of the fault: ``a box missed``, ``direction``, …
        truth: output of a perfect reflector; the step is the first wrong call, ``desired`` its
            correct result.
        calls: indices of all wrong calls; empty for a wrong program.
        case: the wrong answer with the right one.
        toolbox: the tools for a reflector: the wrong one stays wrong.
    """

    sort: Sort
    kind: str
    truth: Critique
    calls: tuple[int, ...]
    case: Case
    toolbox: Toolbox

    def components(self, base: Components) -> Components:
        """Return the parts of a reasoner around the tools of this fault."""
        return replace(base, toolbox=self.toolbox)


def inject(components: Components, solved: SolvedQuery, sort: Sort, random: Random) -> Fault | None:
    """Return one fault that makes the answer wrong, or None if several attempts fail.

    The program still gives an answer, and thresholds are tuned as in any run: an error that
    self-tuning repairs does not count.

    Raises:
        SandboxUnavailableError, SandboxHostError: no program can be run here.
    """
    trial, answer = _run(components, solved, solved.program)
    if not is_desired(answer, solved.desired, solved.query.task):
        return None
    if sort == "program":
        return _wrong_program(components, solved, random)
    return _wrong_tool(components, solved, trial, random)


def _wrong_program(components: Components, solved: SolvedQuery, random: Random) -> Fault | None:
    families = components.toolbox.settings.attribute_families
    wrong = edited_programs(solved.program, Vocabulary(families))
    kinds = sorted({edit.kind for edit in wrong})
    random.shuffle(wrong)
    # Kinds take turns, so that the many exchangeable words do not outweigh the other kinds.
    random.shuffle(kinds)
    turns = [[edit for edit in wrong if edit.kind == kind] for kind in kinds]
    attempts = [turn[place] for place in range(TRIES) for turn in turns if place < len(turn)]
    for edit in attempts[:TRIES]:
        trial, answer = _run(components, solved, edit.program)
        if answer is None or is_desired(answer, solved.desired, solved.query.task):
            continue
        truth = Critique("program", None, edit.kind, solved.program)
        case = Case(solved.query, solved.media, trial, answer, solved.desired)
        return Fault("program", edit.kind, truth, (), case, components.toolbox)
    return None


def _wrong_tool(
    components: Components, solved: SolvedQuery, right: Trial, random: Random
) -> Fault | None:
    log = list(right.tool_calls)
    session = components.toolbox.session(solved.media, thresholds=right.thresholds)
    sampler = FaultSampler(session, solved.query, log)
    calls_by_tool: dict[str, list[int]] = {}
    for calls in questions(log):
        calls_by_tool.setdefault(log[calls[0]].tool, []).append(calls[0])
    for _ in range(TRIES if calls_by_tool else 0):
        call = log[random.choice(calls_by_tool[random.choice(sorted(calls_by_tool))])]
        sampled = sampler.sample(call, random)
        if sampled is None:
            continue
        kind, wrong = sampled
        toolbox = FaultyToolbox(components.toolbox, wrong)
        trial, answer = _run(replace(components, toolbox=toolbox), solved, solved.program)
        if answer is None or is_desired(answer, solved.desired, solved.query.task):
            continue
        case = Case(solved.query, solved.media, trial, answer, solved.desired)
        fault = _with_truth(components, case, kind, call.index, toolbox)
        if fault is not None:
            return fault
    return None


def _with_truth(
    components: Components, case: Case, kind: str, index: int, toolbox: FaultyToolbox
) -> Fault | None:
    """Return the fault with its wrong calls, or None if no call of its tool is wrong."""
    log = list(case.trial.tool_calls)
    session = components.toolbox.session(case.media, thresholds=case.trial.thresholds)
    true = FaultSampler(session, case.query, log)
    try:
        results = [true.replay(call) for call in log]
    except ToolError:
        return None
    # The mistake may appear earlier than the sampled call, or in no call at all.
    tool = log[index].tool if index < len(log) else ""
    calls = tuple(c.index for c in log if c.tool == tool and results[c.index] != c.result)
    if not calls:
        return None
    truth = Critique.of_tool(tool, calls[0], kind, results[calls[0]])
    return Fault("tool", kind, truth, calls, case, toolbox)


def _run(components: Components, solved: SolvedQuery, program: str) -> tuple[Trial, Answer | None]:
    """Return the last trial of a program, thresholds tuned, and its answer."""
    context = RunContext(solved.query, solved.media, components.settings, threading.Event())
    generation = Generation(program)
    trials: Sequence[Trial] = list(run_program(components, context, generation))
    answering = answering_trial(trials)
    return trials[-1], None if answering is None else answering.answer
