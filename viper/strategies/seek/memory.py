"""Working memory: a stack of states, so that going back is popping.

Source: AVIS (Hu et al. 2023), sec. 3.1 and listing 7.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from viper.strategies.seek.graph import START


@dataclass
class MemoryState:
    """Where the search is, and what is known there.

    Attributes:
        state: the last action that told something, or ``START``.
        query: the question at hand: the visual one, then the one about knowledge.
        is_visual: whether that is the visual one.
        context: what was found so far, a line each.
        focus: the object that is looked at; None: the whole picture.
        objects: those that detection listed, with their descriptions.
        excluded: actions that were taken here already and told nothing, or led nowhere; of
            ``select`` with the object's number.
        led_here: the action that led here from the state below, as ``excluded`` has it.
        is_settled: whether the picture's part is answered here: the search does not go back behind
            it. Else, where no text tells a fact, it would end with that of another object.
    """

    state: str = START
    query: str = ""
    is_visual: bool = True
    context: tuple[str, ...] = ()
    focus: Any = None
    objects: tuple[tuple[Any, str], ...] = ()
    excluded: dict[tuple[str, str], None] = field(default_factory=dict)
    led_here: tuple[str, str] | None = None
    is_settled: bool = False


class WorkingMemory:
    """The states from the first to the one at hand."""

    def __init__(self, query: str) -> None:
        self._states = [MemoryState(query=query)]

    @property
    def now(self) -> MemoryState:
        """The state at hand."""
        return self._states[-1]

    def __len__(self) -> int:
        return len(self._states)

    def push(self, state: MemoryState) -> None:
        """Goes on to a state."""
        self._states.append(state)

    def pop(self) -> bool:
        """Goes back to the state before, where what led here is excluded now.

        False where there is none, or where this one is settled: nothing is left to try.
        """
        if len(self._states) == 1 or self.now.is_settled:
            return False
        left = self._states.pop()
        if left.led_here is not None:
            self.now.excluded[left.led_here] = None
        return True
