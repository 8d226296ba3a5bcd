"""The seeker's recipe: an adapter of the program writer that plans searches and judges findings.

``viper lab world train seeker``. Its texts are simulated decisions
(:mod:`viper_lab.world.knowledge.simulate`), half of them over the shipped transition graph and half
over the graph that allows every transition, so it also knows the prompts of a search without the
graph. Catalogues are drawn anew all the time, so the model cannot learn their names.

``viper lab world train seeker-without-graph`` trains on the second half alone, for measuring what
the shipped graph is worth to a planner that never met its choices. The expert, whose decisions it
learns, still goes ways that the graph allows.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from viper.errors import UsageError
from viper.models.llm.protocol import LLM
from viper.schema import Failure, Query
from viper.strategies.base import RunContext
from viper.strategies.seek.decisions import RecordedDecisions
from viper.strategies.seek.graph import EVERY, FixedSequence, TransitionGraph, load_route
from viper.strategies.seek.seeker import Seeker
from viper.strategies.settings import RunSettings
from viper_lab.recipes.adapters import AdapterShape, AdapterTraining, learn
from viper_lab.recipes.optim import TrainOptions
from viper_lab.recipes.writer_documents import Piece
from viper_lab.recipes.writer_score import load_llm
from viper_lab.world.knowledge.catalogue import catalogue
from viper_lab.world.knowledge.questions import questions
from viper_lab.world.knowledge.reading import readings
from viper_lab.world.knowledge.simulate import STYLE, Expert, ExpertReply, Library, decisions

TRAINING = AdapterTraining(
    "seeker", steps=1400, step_tokens=6000, longest=600, shape=AdapterShape(rank=64)
)

_DESIGNS = (20, 60)
_QUESTIONS = 16
# Learned share of each sort; most decisions are alike, readings are not.
_KEPT = {"split": 1.0, "plan": 0.6, "judge": 0.7, "answer": 0.6, "read": 1.0}

# Verdicts about texts of each catalogue, in addition to those of its searches.
_READINGS = 240


def train(options: TrainOptions) -> Mapping[str, float]:
    """Train the seeker and save it to ``options.out``.

    Returns:
        Shares, see :func:`evaluate`.
    """
    learn(options, TRAINING, seeker_documents)
    return evaluate(options.out)


def train_without_graph(options: TrainOptions) -> Mapping[str, float]:
    """Train a seeker that never sees a choice restricted by the shipped graph.

    Returns:
        Shares without the graph, see :func:`evaluate`, and ``guided``: the share of right answers
        when the shipped graph restricts it.
    """
    training = replace(TRAINING, name="seeker-without-graph")
    learn(options, training, partial(seeker_documents, graphs=(EVERY,)))
    guided = evaluate(options.out)["all"]
    return {**evaluate(options.out, graph=EVERY), "guided": guided}


def seeker_documents(
    random: Random, graphs: Sequence[str] = ("avis", EVERY)
) -> Iterator[list[Piece]]:
    """Yield training texts without end."""
    for reply in seeker_texts(random, graphs):
        if random.random() < _KEPT[reply.sort]:
            yield [Piece(reply.prompt, False), Piece(reply.reply, True)]


def load_graph(name_or_path: str) -> TransitionGraph:
    """Return a route that is a graph.

    Raises:
        UnknownNameError, UsageError: as :func:`load_route`, or the route is a sequence.
    """
    route = load_route(name_or_path)
    if isinstance(route, FixedSequence):
        raise UsageError(f"{name_or_path}: a sequence of actions, where a graph is needed")
    return route


def seeker_texts(random: Random, graphs: Sequence[str] = ("avis", EVERY)) -> Iterator[ExpertReply]:
    """Yield prompts with their replies without end, one catalogue after the other.

    Args:
        graphs: names of the graphs of the searches, all equally likely.
    """
    loaded = [load_graph(name) for name in graphs]
    while True:
        library = Library.of(catalogue("train", random.randrange(10**9), random.randint(*_DESIGNS)))
        replies = []
        for question in questions(library.catalogue, _QUESTIONS):
            replies += decisions(library, question, random.choice(loaded), random)[0]
        replies += readings(library, _READINGS, random)
        random.shuffle(replies)
        yield from replies


def evaluate(
    seeker: Path | LLM,
    *,
    count: int = 100,
    seed: int = 0,
    graph: str = "avis",
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, float]:
    """Return shares of right answers: all, of each kind of question, and the expert's.

    Questions are of the validation split, about catalogues whose names no text of training holds.
    Tools make the mistakes of :mod:`viper_lab.world.knowledge.simulate`; decisions and verdicts are
    the seeker's.

    Args:
        seeker: the folder of a model or of an adapter over the small writer, or a loaded model.
    """
    llm = load_llm(seeker)
    library, transitions = Library.of(catalogue("val", seed)), load_graph(graph)
    right: dict[str, list[bool]] = defaultdict(list)
    for number, question in enumerate(questions(library.catalogue, count)):
        _, expected = decisions(library, question, transitions, Random(number))
        simulated = Expert(library, question, transitions, Random(number))
        context = RunContext(
            Query(question.text, "question", "image"),
            None,  # type: ignore[arg-type]
            RunSettings().changed(max_steps=24, grounding="exact"),
            threading.Event(),
        )
        search = Seeker(context, transitions, simulated.tools, llm, STYLE, RecordedDecisions())
        result = search.seek(question.text)
        answer = result[0] if not isinstance(result, Failure) else result.kind
        for name in ("all", question.kind, "" if question.is_answerable else "unanswerable"):
            if name:
                right[name].append(answer == question.answer)
        right["expert"].append(expected == question.answer)
        report(f"{question.text} -> {answer} ({question.answer})")
    return {name: round(sum(each) / len(each), 4) for name, each in sorted(right.items())}
