"""Who says what made an answer wrong: by intervention here, by a language model next door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from viper.strategies.base import Components
from viper.tuning.case import Case
from viper.tuning.changes import CHANGEABLE
from viper.tuning.critique import Critique
from viper.tuning.intervention import Explanation, Intervention, Limits, Search


@runtime_checkable
class Reflector(Protocol):
    """Finds what is to blame for a wrong answer."""

    def reflect(self, case: Case) -> Critique:
        """A critique; its location is ``none`` where nothing can be blamed with reason.

        Raises:
            CritiqueError: a language model's words say nothing that can be understood.
        """
        ...


@dataclass(frozen=True)
class Weighing:
    """How explanations are weighed against each other and against a wrong program.

    The defaults were chosen on planted faults of the embedded world's validation split, see
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


class InterventionReflector:
    """Blames what needs the most plausible change; asks no language model.

    Every plausible change of every call's result is tried, and every program that differs in one
    thing (:mod:`viper.tuning.intervention`). What the best explanations cost decides: a call whose
    change is clearly cheaper than that of any other tool and than a wrong program, the program
    where no change of a result comes near it, nothing where two are about equally plausible.
    Where the two are calls of one tool, the tool is blamed and no single call.

    Args:
        components: whose hub and sandbox run programs again.
        words: further answers that visual questions may have.
    """

    def __init__(
        self,
        components: Components,
        weighing: Weighing = Weighing(),
        limits: Limits | None = None,
        words: Sequence[str] = (),
    ) -> None:
        self._weighing = weighing
        cost, margin = weighing.program + weighing.margin, weighing.margin
        limits = replace(limits or Limits(), cost=cost, margin=margin, edits=weighing.edits)
        self._intervention = Intervention(components, limits, words)

    def reflect(self, case: Case) -> Critique:
        """See :meth:`Reflector.reflect`. Without a desired answer nothing is blamed.

        Raises:
            SandboxUnavailableError, SandboxHostError: no program can be run here.
        """
        if case.desired is None:
            return Critique("none", None, "the desired answer is not known")
        return self.judged(self._intervention.search(case))

    def judged(self, search: Search) -> Critique:
        """The critique that a search leads to."""
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


def _told(one: Explanation) -> str:
    where = f"call {one.calls[0]}: " if one.calls else ""
    return f"{where}{one.what} (cost {one.cost:.2f})"


def _no_change(search: Search) -> str:
    unknown = sorted({call.tool for call in search.calls} - CHANGEABLE)
    text = "the program is wrong in another way"
    return f"{text}; not examined: {', '.join(unknown)}" if unknown else text
