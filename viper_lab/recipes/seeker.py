"""The seeker's recipe: an adapter of the program writer that plans searches and judges findings.

``viper world train seeker``. Its texts are simulated decisions
(:mod:`viper_lab.world.knowledge.simulate`), over the shipped transition graph and over the one that
allows everything, equally: without the graph it is not asked anything that it has not seen.
Catalogues are drawn anew all the time, so no name can be known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING

from viper.strategies.seek.graph import EVERY, load_graph
from viper_lab.recipes.adapters import AdapterShape, Course, Row, learn
from viper_lab.recipes.optim import TrainOptions
from viper_lab.recipes.writer import encode_pieces
from viper_lab.recipes.writer_documents import Piece
from viper_lab.world.knowledge.catalogue import catalogue
from viper_lab.world.knowledge.questions import questions
from viper_lab.world.knowledge.reading import readings
from viper_lab.world.knowledge.simulate import Asked, Library, decisions

if TYPE_CHECKING:
    from tokenizers import Tokenizer

COURSE = Course(
    "seeker", steps=1400, learning_rate=3e-3, step_tokens=6000, shape=AdapterShape(rank=64)
)

LONGEST = 600
"""Tokens of a text at most."""

_DESIGNS = (20, 60)
_QUESTIONS = 16
_KEPT = {"split": 1.0, "plan": 0.6, "judge": 0.7, "answer": 0.6, "read": 1.0}
"""Share of each sort that is learned: most decisions are alike, what is read is not."""

_READINGS = 240
"""Verdicts about texts of each catalogue beside those of its searches."""


def train(options: TrainOptions) -> Mapping[str, float]:
    """Trains the seeker and saves it to ``options.out``.

    Returns:
        Shares as :func:`viper_lab.recipes.seeker_score.evaluate` has them.
    """
    from viper_lab.recipes.seeker_score import evaluate

    learn(options, COURSE, seeker_rows)
    return evaluate(options.out)


def seeker_rows(tokenizer: Tokenizer, random: Random) -> Iterator[Row]:
    """Texts without end."""
    for one in seeker_texts(random):
        if random.random() < _KEPT[one.sort]:
            row = encode_pieces(tokenizer, [Piece(one.prompt, False), Piece(one.reply, True)])
            if len(row[0]) <= LONGEST:
                yield row


def seeker_texts(random: Random) -> Iterator[Asked]:
    """Prompts with their replies, without end, from one catalogue after the other."""
    graphs = [load_graph("avis"), load_graph(EVERY)]
    while True:
        library = Library.of(catalogue("train", random.randrange(10**9), random.randint(*_DESIGNS)))
        asked = []
        for question in questions(library.catalogue, _QUESTIONS):
            asked += decisions(library, question, random.choice(graphs), random)[0]
        asked += readings(library, _READINGS, random)
        random.shuffle(asked)
        yield from asked
