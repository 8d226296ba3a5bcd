"""Who says what made an answer wrong: by intervention here, by a language model next door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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

    Attributes:
        program: what a wrong program costs, in nats: a change that costs more is taken for less
            plausible than that the program is wrong.
        margin: by how much, in nats, the best explanation must be cheaper than the next.
    """

    program: float = 4.0
    margin: float = 1.0


class InterventionReflector:
    """Blames the call whose result needs the most plausible change; asks no language model.

    Every plausible change of every call's result is tried (:mod:`viper.tuning.intervention`). What
    cost the best explanations have decides: a call where its change is cheaper than a wrong program
    and than all changes of other calls, the program where no change is plausible, none where two
    of these are about equally plausible.

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
        if limits is None:
            limits = Limits(
                cost=weighing.program + weighing.margin, margin=weighing.margin
            )
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
        weighing, found = self._weighing, search.explanations
        if not found or found[0].cost > weighing.program + weighing.margin:
            return Critique("program", None, _no_change(search))
        best, others = found[0], found[1:]
        rivals = [one for one in others if one.cost < best.cost + weighing.margin]
        if weighing.program < best.cost + weighing.margin:
            return Critique("none", None, f"{_told(best)}, or the program is wrong")
        if any(one.tool != best.tool for one in rivals):
            return Critique("none", None, f"{_told(best)}, or {_told(rivals[0])}")
        if rivals:
            reason = f"{_told(best)}, or {_told(rivals[0])}"
            return Critique.of_tool(best.tool, None, reason)
        return Critique.of_tool(best.tool, best.calls[0], _told(best), best.result)


def _told(one: Explanation) -> str:
    return f"call {one.calls[0]}: {one.what} (cost {one.cost:.2f})"


def _no_change(search: Search) -> str:
    unknown = sorted({call.tool for call in search.calls} - CHANGEABLE)
    text = f"none of {search.runs - 1} changes of the calls' results gives the desired answer"
    return f"{text}; not examined: {', '.join(unknown)}" if unknown else text
