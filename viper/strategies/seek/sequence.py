"""Fixed sequences of actions: searches that decide nothing, to compare with those that do.

A sequence is a TOML file::

    name = "fixed-seeing"
    description = "what is to be seen, then an answer"
    actions = ["caption", "vqa"]       # taken once each, in this order, whatever they find
    splits = true                      # whether the question is split in two first

Splitting, verdicts and bounds are those of strategy ``seek``; nothing is planned, and nothing is
gone back on. Where no verdict is the answer at the end, the language model is asked the whole
question with all that was found. Source: AVIS (Hu et al. 2023), sec. 4, baselines.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from viper.errors import UnknownNameError, UsageError
from viper.prompting.seeking import Split
from viper.record import read_toml, record_from_toml
from viper.schema import Failure
from viper.strategies.seek.actions import is_possible
from viper.strategies.seek.graph import EVERY, TransitionGraph, load_graph
from viper.strategies.seek.graph import SHIPPED as GRAPHS
from viper.strategies.seek.memory import WorkingMemory
from viper.strategies.seek.names import ACTIONS, SeekSettings
from viper.strategies.seek.search import Seeker

SHIPPED = Path(__file__).parent / "sequences"


@dataclass(frozen=True)
class FixedSequence:
    """Actions in the order in which they are taken.

    Attributes:
        splits: whether the question is split in two first; else all of it is asked at once.
    """

    __pydantic_config__ = {"extra": "forbid"}

    name: str
    actions: tuple[str, ...]
    splits: bool = True
    description: str = field(default="", compare=False)

    def without(self, actions: Collection[str]) -> FixedSequence:
        """The same sequence less some actions.

        Raises:
            UnknownNameError: one of them is no action.
        """
        for one in actions:
            if one not in ACTIONS:
                raise UnknownNameError("action", one, ACTIONS)
        return replace(self, actions=tuple(one for one in self.actions if one not in actions))

    @property
    def as_graph(self) -> TransitionGraph:
        """A graph of nothing, which gives the actions their instructions."""
        return TransitionGraph(self.name, {})


@dataclass
class FixedSeeker(Seeker):
    """Walks a sequence once."""

    sequence: FixedSequence = field(kw_only=True)

    def seek(self, question: str) -> tuple[Any, Any] | Failure:
        """As :meth:`Seeker.seek`."""
        split = self._split(question) if self.sequence.splits else Split(question)
        if split is None:
            return self._ended()
        memory = WorkingMemory(split.visual)
        for action in self.sequence.actions[: self.context.settings.of(SeekSettings).max_steps]:
            if is_possible(action, memory.now):
                outcome = self._step(memory, (action,), split)
                if outcome is not None:
                    return outcome
        answer = self.scene.ask(question, memory.now.context)
        if over := self.context.over_budget():
            return over
        return (answer, self._info("")) if answer else self._nothing("the sequence is at its end")


def load_route(name_or_path: str) -> TransitionGraph | FixedSequence:
    """The graph or sequence of that name or in that file.

    Raises:
        UnknownNameError: neither has that name.
        UsageError: as :func:`viper.strategies.seek.graph.load_graph`.
    """
    sequences = {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}
    if name_or_path in sequences:
        return read_sequence(sequences[name_or_path])
    if name_or_path.endswith(".toml"):
        path = Path(name_or_path)
        return read_sequence(path) if "actions" in read_toml(path)[1] else load_graph(name_or_path)
    graphs = [path.stem for path in sorted(GRAPHS.glob("*.toml"))]
    if name_or_path not in (*graphs, EVERY):
        known = [*graphs, EVERY, *sequences, "FILE.toml"]
        raise UnknownNameError("graph", name_or_path, known)
    return load_graph(name_or_path)


def read_sequence(path: Path) -> FixedSequence:
    """The sequence in a file.

    Raises:
        UsageError: a file that is none, or an unknown action.
    """
    sequence = record_from_toml(FixedSequence, path, name=path.stem)
    for action in sequence.actions:
        if action not in ACTIONS:
            known = ", ".join(ACTIONS)
            raise UsageError(f"{path}: unknown action {action[:80]!r}; known: {known}")
    return sequence
