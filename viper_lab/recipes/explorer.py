"""The explorer's recipe: an adapter of the program writer that acts turn by turn.

``viper lab world train explorer``. Its texts are workflows
(:mod:`viper_lab.world.queries.workflows`) with made-up results, so nothing is rendered; what the
environment and the checker say is context, what the agent does is learned. It has no
preference among the ways to an answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

from viper.models.llm.protocol import Sampling
from viper.prompting.exploring import STOP, Action, read_action
from viper_lab.recipes.adapters import WRITER, AdapterTraining, learn
from viper_lab.recipes.optim import TrainOptions
from viper_lab.recipes.writer_documents import Piece
from viper_lab.recipes.writer_score import opened
from viper_lab.world.queries.texts import text_sample
from viper_lab.world.queries.workflows import WHOLE, WorkflowText, routes, workflow

COURSE = AdapterTraining("explorer", steps=450, learning_rate=3e-3, step_tokens=6000, longest=900)


def train(options: TrainOptions) -> Mapping[str, float]:
    """Trains the explorer and saves it to ``options.out``.

    Returns:
        Shares as :func:`evaluate` has them.
    """
    learn(options, COURSE, explorer_documents)
    return evaluate(options.out)


def explorer_documents(random: Random) -> Iterator[list[Piece]]:
    """Texts without end."""
    while True:
        made = workflow(text_sample(random, "train", family="question"), random)
        yield [Piece(text, is_own) for text, is_own in made.pieces()]


def evaluate(explorer: Path, *, count: int = 60, seed: int = 0) -> dict[str, float]:
    """Shares of turns, by what is due, in which the agent does what a workflow has there.

    Of questions of the validation split. ``first``: it goes one of the ways that there are; which
    one is its own business, and ``whole`` the share of those that ask about the whole picture.
    """
    llm = opened(explorer, WRITER)
    right: dict[str, list[bool]] = defaultdict(list)
    for number in range(count):
        random = Random(f"explorer {seed} {number}")
        sample = text_sample(random, "val", family="question")
        ways = {name: one.turns[0] for name, one in routes(sample).items()}
        for due, prompt, action in _due(workflow(sample, random)):
            sampling = Sampling(max_tokens=320, stop=STOP)
            done = read_action(llm.generate([prompt], sampling)[0][0].text)
            if due == "first":
                taken = done.text if done else ""
                right["first"].append(taken in ways.values())
                right["whole"].append(taken == ways[WHOLE])
            else:
                right[due].append(done == action)
    return {name: round(sum(each) / len(each), 4) for name, each in sorted(right.items())}


def _due(made: WorkflowText) -> Iterator[tuple[str, str, Action]]:
    """Prompts of the agent's turns with what the workflow has there."""
    text, before = "", ""
    for piece, is_own in made.pieces():
        action = read_action(piece) if is_own else None
        if action is not None:
            due: str = "first" if before == "" else action.kind
            if action.kind == "code" and action.text.startswith("final_answer"):
                due = "store"
            elif before == "doubted" and action.kind == "code":
                due = "after a doubt"
            yield due, text, action
            before = "acted"
        elif "<thought>" in piece:
            before = "doubted"
        text += piece
