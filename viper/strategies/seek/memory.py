"""Working memory: a stack of states, so that going back is a pop.

Source: AVIS (Hu et al. 2023), sec. 3.1 and listing 7.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from viper.strategies.seek.graph import START


@dataclass
class MemoryState:
    """A state of the search, with the facts known there.

    Attributes:
        state: the last informative action, or ``START``.
        query: the present question: first the visual part, then the knowledge part.
        is_visual: whether that is the visual part.
        context: findings so far, one per line.
        focus: the object to look at; None means the whole picture.
        objects: objects listed by detection, with their descriptions.
        excluded: actions that were performed here and were uninformative or led to no answer;
            ``select`` with the number of the object.
        led_here: the action that led here from the state below, in the form of ``excluded``.
        searches: searches made on the way here or at this state, with the question of each.
        is_settled: whether the visual part is answered here. The search does not go back beyond
            it, because it would then end with a fact about another object.
    """

    state: str = START
    query: str = ""
    is_visual: bool = True
    context: tuple[str, ...] = ()
    focus: Any = None
    objects: tuple[tuple[Any, str], ...] = ()
    excluded: dict[tuple[str, str], None] = field(default_factory=dict)
    led_here: tuple[str, str] | None = None
    searches: set[tuple[str, ...]] = field(default_factory=set)
    is_settled: bool = False


class WorkingMemory:
    """The states from the first to the present one."""

    def __init__(self, query: str) -> None:
        self._states = [MemoryState(query=query)]

    @property
    def now(self) -> MemoryState:
        """Return the present state."""
        return self._states[-1]

    def __len__(self) -> int:
        return len(self._states)

    def push(self, state: MemoryState) -> None:
        """Move on to a state."""
        self._states.append(state)

    def pop(self) -> bool:
        """Go back to the previous state and exclude the action that led here.

        Return False if there is no previous state or this one is settled; then nothing is left to
        try.
        """
        if len(self._states) == 1 or self.now.is_settled:
            return False
        left = self._states.pop()
        if left.led_here is not None:
            self.now.excluded[left.led_here] = None
        return True
