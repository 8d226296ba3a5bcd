"""The actions of a search, and the graphs and sequences that order them.

:func:`load_route` reads a route from data: a graph, in which the planner chooses, or a fixed
sequence. Nothing heavy is imported, because ``--help`` reads the names.

A graph is a TOML file::

    name = "avis"
    [states]
    START = ["caption", "vqa", "detect"]       # actions allowed first
    detect = ["select"]                        # actions allowed after detect
    [instructions]
    caption = "when the question is about the picture as a whole"
    [counts.START]                             # how often people chose it, if counted
    caption = 12

A state is the last informative action. A sequence leaves no decision to the planner. It is a TOML
file, too::

    name = "fixed-seeing"
    description = "what is to be seen, then an answer"
    actions = ["caption", "vqa"]       # each once, in this order, whatever they find
    splits = true                      # whether the question is split in two first
    nearest = false                    # whether the most similar picture names what is asked about

Source: AVIS (Hu et al. 2023), sec. 3.1 to 3.3, where each kind of knowledge about similar pictures
is also a separate action; sequences: sec. 4, baselines. The words are ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from viper.errors import UnknownNameError, UsageError
from viper.record import read_toml, record_from_toml


@dataclass(frozen=True)
class ActionName:
    """An action.

    Attributes:
        instruction: its purpose, for the planner.
        group: ``seeing``, ``object``, ``search`` or ``llm``; an ablation removes a whole group.
        takes: argument that the planner must write with its name; "" if it takes none.
    """

    instruction: str
    group: str
    takes: str = ""


ACTIONS: Mapping[str, ActionName] = {
    "caption": ActionName(
        "describes the picture in a sentence; of use to know what is there at all", "seeing"
    ),
    "vqa": ActionName(
        "answers a simple question about what is to be seen, as a color or a number",
        "seeing",
        "the question",
    ),
    "detect": ActionName(
        "lists the objects in the picture; of use when the question is about one of them", "object"
    ),
    "select": ActionName(
        "turns to one of the objects that were listed; all that follows is about it",
        "object",
        "which of them, by its number or its words",
    ),
    "ocr": ActionName(
        "reads what is written there; of use for labels, signs, names and numbers", "object"
    ),
    "entities": ActionName(
        "looks for pictures of the same thing and names what they are known to show", "search"
    ),
    "captions": ActionName(
        "looks for pictures of the same thing and shows what is written under them", "search"
    ),
    "identical": ActionName(
        "looks for this very picture elsewhere and shows what is written under it", "search"
    ),
    "titles": ActionName(
        "looks for pictures of the same thing and shows the titles of their pages", "search"
    ),
    "text_search": ActionName(
        "searches texts; of use for facts that no picture shows, once the thing has a name",
        "search",
        "the words to search for",
    ),
    "llm_qa": ActionName(
        "answers a short question from what everybody knows", "llm", "the question"
    ),
}

# Tool groups; table 1 of the paper removes ``seeing`` (its PALI), ``object`` and ``search``.
GROUPS: Mapping[str, tuple[str, ...]] = {
    group: tuple(name for name, action in ACTIONS.items() if action.group == group)
    for group in dict.fromkeys(action.group for action in ACTIONS.values())
}


# The state before any action.
START = "START"

SHIPPED = Path(__file__).parent / "graphs"
SEQUENCES = Path(__file__).parent / "sequences"

# Name of the graph in which every action may follow every other: a search without guidance.
EVERY = "every"


@dataclass(frozen=True)
class TransitionGraph:
    """Allowed actions by state.

    Attributes:
        states: allowed actions by state, in the order of the planner's prompt.
        instructions: purpose of an action in words; an action without one has the shipped one.
        counts: number of times that people chose an action, by state and action; may be empty.
    """

    __pydantic_config__ = {"extra": "forbid"}

    name: str
    states: Mapping[str, tuple[str, ...]]
    instructions: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    description: str = field(default="", compare=False)

    def allowed(self, state: str, excluded: Collection[str] = ()) -> tuple[str, ...]:
        """Return the allowed actions of a state, without the excluded ones."""
        return tuple(action for action in self.states.get(state, ()) if action not in excluded)

    def instruction(self, action: str) -> str:
        """Return the purpose of an action in words."""
        return self.instructions.get(action, ACTIONS[action].instruction)

    def without(self, actions: Collection[str]) -> TransitionGraph:
        """Return a copy without some actions, such as those of a missing tool group.

        States that become unreachable stay, because no search reaches them.

        Raises:
            UnknownNameError: one of them is no action.
            UsageError: no action is left to begin with.
        """
        _check_actions(actions)
        states = {
            state: tuple(action for action in allowed if action not in actions)
            for state, allowed in self.states.items()
            if state not in actions
        }
        if not states.get(START):
            raise UsageError(f"graph {self.name}: without {', '.join(actions)} nothing can begin")
        return replace(self, states=states)


def _check_actions(names: Iterable[str]) -> None:
    for name in names:
        if name not in ACTIONS:
            raise UnknownNameError("action", name, ACTIONS)


def problems(graph: TransitionGraph) -> Iterator[str]:
    """Yield the problems of a graph in words; none if it can be used."""
    known = ", ".join(ACTIONS)
    for state in graph.states:
        if state != START and state not in ACTIONS:
            yield f"unknown state {state!r}; known: {START}, {known}"
    for state, allowed in graph.states.items():
        for action in allowed:
            if action not in ACTIONS:
                yield f"state {state} allows the unknown action {action!r}; known: {known}"
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
        for action in graph.states.get(waiting.pop(), ()):
            if action not in reached:
                reached.add(action)
                waiting.append(action)
    for state in graph.states:
        if state not in reached:
            yield f"state {state} cannot be reached: no state that can be allows {state}"
    for state in sorted(reached):
        if not graph.states.get(state):
            yield f"state {state} is a dead end: it can be reached, and nothing is allowed there"


@dataclass(frozen=True)
class FixedSequence:
    """Actions in a fixed order.

    Attributes:
        splits: whether the question is split in two first; otherwise it is asked as a whole.
        nearest: whether the visual part is answered at once, by the entity of the picture in the
            collection that is most like the object that the question names.
    """

    __pydantic_config__ = {"extra": "forbid"}

    name: str
    actions: tuple[str, ...]
    splits: bool = True
    nearest: bool = False
    description: str = field(default="", compare=False)

    def without(self, actions: Collection[str]) -> FixedSequence:
        """Return a copy without some actions.

        Raises:
            UnknownNameError: one of them is no action.
        """
        _check_actions(actions)
        remaining = tuple(action for action in self.actions if action not in actions)
        return replace(self, actions=remaining)


def load_route(name_or_path: str) -> TransitionGraph | FixedSequence:
    """Return the shipped graph or sequence of that name, the one in a ``.toml`` file, or ``every``.

    Raises:
        UnknownNameError: no graph or sequence has that name.
        UsageError: the file holds neither, or an unknown action, or a graph with an unreachable
            state or a state without an allowed action.
    """
    if name_or_path == EVERY:
        actions = tuple(ACTIONS)
        return TransitionGraph(EVERY, dict.fromkeys((START, *actions), actions))
    shipped = {path.stem: path for folder in (SHIPPED, SEQUENCES) for path in folder.glob("*.toml")}
    if not name_or_path.endswith(".toml") and name_or_path not in shipped:
        raise UnknownNameError("graph", name_or_path, [*shipped, EVERY, "FILE.toml"])
    path = shipped.get(name_or_path, Path(name_or_path))
    if "actions" not in read_toml(path)[1]:
        graph = record_from_toml(TransitionGraph, path, name=path.stem)
        for problem in problems(graph):
            raise UsageError(f"{path}: {problem}")
        return graph
    sequence = record_from_toml(FixedSequence, path, name=path.stem)
    for action in sequence.actions:
        if action not in ACTIONS:
            known = ", ".join(ACTIONS)
            raise UsageError(f"{path}: unknown action {action[:80]!r}; known: {known}")
    return sequence
