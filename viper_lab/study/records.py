"""What people, or a run, did step by step: records, the graph induced from them, their statistics.

A record is one question of one participant, a JSON object a line::

    {"participant": "p-3f9a", "question": "…", "found": true, "answer": "…", "steps": [
        {"state": "START", "query": "…", "known": [], "action": "detect", "words": "",
         "verdict": "informative"}, …]}

Source: AVIS (Hu et al. 2023), sec. 3.3 (the graph and the examples come from what users did) and
appendix C (the statistics).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tomlkit

from viper.errors import DataError, UsageError
from viper.prompting.seeking import DecisionExample
from viper.search.findings import MAX_NAME, plain
from viper.strategies.seek.graph import ACTIONS, START, TransitionGraph, problems

VERDICTS = ("informative", "uninformative", "answer")

# First to fourth action, of which the statistics say how often each was taken.
PLACES = 4

_MAX_LINE = 1 << 20


@dataclass(frozen=True)
class SearchStep:
    """One action that was taken.

    Attributes:
        state: the last action that had told something, or ``START``.
        known: what was known then, a line each.
        verdict: what it was held to be worth; "" where nobody said.
    """

    state: str
    action: str
    query: str = ""
    known: tuple[str, ...] = ()
    words: str = ""
    verdict: str = ""


@dataclass(frozen=True)
class Session:
    """One question of one participant.

    Attributes:
        found: whether the participant thinks to have found the answer; ``answer`` is what they
            said then, "" where nobody asked.
    """

    participant: str
    question: str
    steps: tuple[SearchStep, ...]
    found: bool
    answer: str = ""


@dataclass(frozen=True)
class Statistics:
    """Appendix C's figures, as shares.

    Attributes:
        actions: of all actions taken.
        places: for the first to the fourth action, of those sessions that have one.
        transitions: for each state, of the actions taken there.
        lengths: number of actions to share of sessions.
        verdicts: of all verdicts that were given.
        found: share of sessions that found an answer.
    """

    sessions: int
    actions: Mapping[str, float]
    places: Sequence[Mapping[str, float]]
    transitions: Mapping[str, Mapping[str, float]]
    lengths: Mapping[int, float]
    verdicts: Mapping[str, float]
    found: float


def read_sessions(path: Path) -> Iterator[Session]:
    """Read the records of a file.

    Raises:
        DataError: a line that is none; names it.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE + 1), b""), 1):
                if line.strip():
                    yield _session(line, f"{path}:{number}")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None


def session_line(session: Session) -> str:
    """Return a record as one JSON line."""
    return json.dumps(asdict(session), ensure_ascii=False) + "\n"


def of_path(path: Sequence[Mapping[str, Any]], participant: str, question: str) -> Session:
    """Return the steps of a run of strategy ``seek``, read from the path of its trace."""
    steps, facts = [], list[str]()
    for step in path:
        facts += map(str, step.get("picture", ()))  # known before the first action
        if "action" not in step:
            continue
        query, words, verdict = (str(step.get(key, "")) for key in ("query", "words", "verdict"))
        state, action = str(step["state"]), str(step["action"])
        steps.append(SearchStep(state, action, query, tuple(facts), words, verdict))
        if step.get("extracted"):
            facts.append(str(step["extracted"]))
    found = bool(steps) and steps[-1].verdict == "answer"
    return Session(participant, question, tuple(steps), found)


def induce(
    sessions: Iterable[Session], name: str = "induced", least: float = 0.0
) -> TransitionGraph:
    """Build the graph of the recorded actions: for each state, the next actions with their counts.

    Args:
        least: share of the actions taken at a state below which one is left out as a slip.

    Raises:
        UsageError: no actions, or what is left has a dead end: people never went on from there.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for session in sessions:
        for step in session.steps:
            counts[step.state][step.action] += 1
    if START not in counts:
        raise UsageError("nobody began: no record holds an action taken at START")
    transitions = {
        state: {action: n for action, n in taken.most_common() if n >= least * taken.total()}
        for state, taken in counts.items()
    }
    reached = [START]
    for state in reached:
        reached += [action for action in transitions.get(state, ()) if action not in reached]
    order = [START, *(action for action in ACTIONS if action in reached)]
    # Where everybody stopped, an answer was found: what is allowed there is what was done before.
    states = {state: tuple(transitions.get(state, ())) for state in order}
    ended = [state for state, allowed in states.items() if not allowed]
    for state in ended:
        before = [action for action in order if state in states[action]]
        states[state] = tuple(dict.fromkeys(a for source in before for a in states[source]))
    frequencies = {state: transitions[state] for state in order if state in transitions}
    graph = TransitionGraph(name, states, {}, frequencies)
    for problem in problems(graph):
        raise UsageError(f"the records make no graph: {problem}")
    return graph


def graph_text(graph: TransitionGraph, description: str = "") -> str:
    """Return a graph as TOML that :func:`viper.strategies.seek.graph.load_route` reads."""
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


def examples_of(sessions: Iterable[Session], most: int = 8) -> Iterator[DecisionExample]:
    """Return informative decisions as examples for a planner, with a bound per action."""
    taken: Counter[str] = Counter()
    for session in sessions:
        for step in session.steps if session.found else ():
            if step.verdict != "uninformative" and taken[step.action] < most:
                taken[step.action] += 1
                query = step.query or session.question
                yield DecisionExample(query, step.known, step.action, step.words)


def statistics(sessions: Sequence[Session]) -> Statistics:
    """Return shares of actions and outcomes.

    Raises:
        UsageError: there are no sessions.
    """
    if not sessions:
        raise UsageError("no records; nothing to count")
    paths = [session.steps for session in sessions]
    steps = [step for path in paths for step in path]
    states = dict.fromkeys(step.state for step in steps)
    return Statistics(
        len(sessions),
        _shares(step.action for step in steps),
        [
            _shares(path[place].action for path in paths if len(path) > place)
            for place in range(PLACES)
        ],
        {state: _shares(step.action for step in steps if step.state == state) for state in states},
        dict(sorted(_shares(map(len, paths)).items())),
        _shares(step.verdict for step in steps if step.verdict),
        sum(session.found for session in sessions) / len(sessions),
    )


def _shares(values: Iterable[Any]) -> dict[Any, float]:
    counts = Counter(values)
    return {value: count / counts.total() for value, count in counts.most_common()}


def _session(line: bytes, where: str) -> Session:
    try:
        value = json.loads(line)
        if len(line) > _MAX_LINE:
            raise ValueError("too long")
        steps = tuple(_step(step) for step in value["steps"])
        participant, question = plain(value["participant"], MAX_NAME), plain(value["question"])
        found, answer = value["found"] is True, plain(value.get("answer"))
        return Session(participant, question, steps, found, answer)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = f"no record of a session ({type(error).__name__}: {str(error)[:80]})"
        raise DataError(f"{where}: {why}; see viper lab seek record") from None


def _step(value: Mapping[str, Any]) -> SearchStep:
    state, action, verdict = value["state"], value["action"], value.get("verdict", "")
    if state != START and state not in ACTIONS or action not in ACTIONS:
        raise ValueError(f"unknown state or action {state!r}, {action!r}")
    if verdict not in ("", *VERDICTS):
        raise ValueError(f"unknown verdict {verdict!r}")
    query, words = plain(value.get("query")), plain(value.get("words"))
    known = tuple(map(plain, value.get("known", ())))
    return SearchStep(state, action, query, known, words, verdict)
