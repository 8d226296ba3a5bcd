"""Which actions are taken where, as data: transition graphs, and fixed sequences beside them.

A graph is a TOML file::

    name = "avis"
    [states]
    START = ["caption", "vqa", "detect"]       # what may be done first
    detect = ["select"]                        # what may follow detect
    [instructions]
    caption = "when the question is about the picture as a whole"
    [counts.START]                             # how often people did so, where that is known
    caption = 12

A state is the last action that told something. A sequence, which decides nothing, is one, too::

    name = "fixed-seeing"
    description = "what is to be seen, then an answer"
    actions = ["caption", "vqa"]       # taken once each, in this order, whatever they find
    splits = true                      # whether the question is split in two first

Source: AVIS (Hu et al. 2023), sec. 3.1 and 3.3; sequences: sec. 4, baselines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from viper.errors import UnknownNameError, UsageError
from viper.record import read_toml, record_from_toml
from viper.strategies.seek.names import ACTIONS

START = "START"

SHIPPED = Path(__file__).parent / "graphs"
SEQUENCES = Path(__file__).parent / "sequences"

EVERY = "every"
"""The graph in which every action may follow every other: seeking without guidance."""


@dataclass(frozen=True)
class TransitionGraph:
    """Allowed actions by state.

    Attributes:
        states: state to what may be done there, in the order in which a planner is shown it.
        instructions: action to when it is of use, in words; the shipped ones where it has none.
        counts: state to action to how often it was taken there; empty where nobody counted.
    """

    __pydantic_config__ = {"extra": "forbid"}

    name: str
    states: Mapping[str, tuple[str, ...]]
    instructions: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    description: str = field(default="", compare=False)

    def allowed(self, state: str, excluded: Collection[str] = ()) -> tuple[str, ...]:
        """What may be done at a state but for what was excluded there."""
        return tuple(one for one in self.states.get(state, ()) if one not in excluded)

    def instruction(self, action: str) -> str:
        """When an action is of use, in words."""
        return self.instructions.get(action, ACTIONS[action].instruction)

    def without(self, actions: Collection[str]) -> TransitionGraph:
        """The same graph where some actions cannot be taken; a tool group that is missing.

        States that nothing leads to any more stay: nobody comes there.

        Raises:
            UnknownNameError: one of them is no action.
            UsageError: nothing is left to begin with.
        """
        for one in actions:
            if one not in ACTIONS:
                raise UnknownNameError("action", one, ACTIONS)
        left = {
            state: tuple(one for one in allowed if one not in actions)
            for state, allowed in self.states.items()
            if state not in actions
        }
        if not left.get(START):
            raise UsageError(f"graph {self.name}: without {', '.join(actions)} nothing can begin")
        return replace(self, states=left)


def load_graph(name_or_path: str) -> TransitionGraph:
    """The shipped graph of that name, the one in a ``.toml`` file, or ``every``.

    Raises:
        UnknownNameError: no graph of that name.
        UsageError: a file that is none, or a graph with an unknown action, a state that cannot be
            reached, or one that no action leaves.
    """
    if name_or_path == EVERY:
        return every_action()
    if name_or_path.endswith(".toml"):
        return read_graph(Path(name_or_path))
    shipped = {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}
    if name_or_path not in shipped:
        raise UnknownNameError("graph", name_or_path, [*shipped, EVERY, "FILE.toml"])
    return read_graph(shipped[name_or_path])


def every_action() -> TransitionGraph:
    """The graph that guides nobody."""
    actions = tuple(ACTIONS)
    return TransitionGraph(EVERY, dict.fromkeys((START, *actions), actions))


def read_graph(path: Path) -> TransitionGraph:
    """The graph in a file; raises as :func:`load_graph`."""
    graph = record_from_toml(TransitionGraph, path, name=path.stem)
    for problem in problems(graph):
        raise UsageError(f"{path}: {problem}")
    return graph


def problems(graph: TransitionGraph) -> Iterator[str]:
    """What is wrong with a graph, in words, one after the other; nothing if it can be used."""
    for state in graph.states:
        if state != START and state not in ACTIONS:
            yield f"unknown state {state!r}; known: {START}, {', '.join(ACTIONS)}"
    for state, allowed in graph.states.items():
        for one in allowed:
            if one not in ACTIONS:
                yield f"state {state} allows the unknown action {one!r}; known: {_listed()}"
        if len(set(allowed)) < len(allowed):
            yield f"state {state} allows an action twice"
    for action in graph.instructions:
        if action not in ACTIONS:
            yield f"an instruction for the unknown action {action!r}"
    for state, counts in graph.counts.items():
        for action, count in counts.items():
            if count < 0:
                yield f"state {state} counts {action} {count} times"
    if START not in graph.states:
        yield f"no state {START}; expected what may be done first"
        return
    reached, waiting = {START}, [START]
    while waiting:
        for one in graph.states.get(waiting.pop(), ()):
            if one not in reached:
                reached.add(one)
                waiting.append(one)
    for state in graph.states:
        if state not in reached:
            yield f"state {state} cannot be reached: no state that can be allows {state}"
    for state in sorted(reached):
        if not graph.states.get(state):
            yield f"state {state} is a dead end: it can be reached, and nothing is allowed there"


def graph_text(graph: TransitionGraph, description: str = "") -> str:
    """The TOML of a graph; :func:`read_graph` reads it again."""
    import tomlkit

    document = tomlkit.document()
    document["name"] = graph.name
    if description:
        document["description"] = description
    document["states"] = {state: list(allowed) for state, allowed in graph.states.items()}
    if graph.instructions:
        document["instructions"] = dict(graph.instructions)
    if graph.counts:
        document["counts"] = {state: dict(counts) for state, counts in graph.counts.items()}
    return tomlkit.dumps(document)


def _listed() -> str:
    return ", ".join(ACTIONS)


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


def load_route(name_or_path: str) -> TransitionGraph | FixedSequence:
    """The graph or sequence of that name or in that file.

    Raises:
        UnknownNameError: neither has that name.
        UsageError: as :func:`load_graph`.
    """
    sequences = {path.stem: path for path in sorted(SEQUENCES.glob("*.toml"))}
    if name_or_path in sequences:
        return read_sequence(sequences[name_or_path])
    if name_or_path.endswith(".toml"):
        path = Path(name_or_path)
        return read_sequence(path) if "actions" in read_toml(path)[1] else load_graph(name_or_path)
    graphs = [path.stem for path in sorted(SHIPPED.glob("*.toml"))]
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
