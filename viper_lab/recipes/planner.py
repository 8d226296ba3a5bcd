"""The planner's recipe: an adapter of the program writer that plans, and writes from plans.

``viper world train planner``. Plans are the canonical programs' steps in words
(:mod:`viper_lab.world.queries.plan_wordings`), so nothing is rendered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from tokenizers import Tokenizer

from viper_lab.recipes.adapters import Course, Row, learn
from viper_lab.recipes.optim import TrainOptions
from viper_lab.recipes.planner_documents import PlanDocuments, plan_document
from viper_lab.recipes.planner_score import evaluate
from viper_lab.recipes.writer import encode_pieces

COURSE = Course("planner", steps=480, step_tokens=2000)

LONGEST = 1500
"""Tokens of a document at most."""


def train(options: TrainOptions) -> Mapping[str, float]:
    """Trains the planner and saves it to ``options.out``.

    Returns:
        Shares as :func:`viper_lab.recipes.planner_score.evaluate` has them.
    """
    learn(options, COURSE, planner_rows)
    return evaluate(options.out)


def planner_rows(
    tokenizer: Tokenizer, random: Random, options: PlanDocuments | None = None
) -> Iterator[Row]:
    """Texts without end."""
    options = options or PlanDocuments()
    while True:
        row = encode_pieces(tokenizer, plan_document(random, options))
        if len(row[0]) <= LONGEST:
            yield row
