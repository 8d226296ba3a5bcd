"""The explorer's score: how often it acts as workflows with invented results do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

from viper.models.llm.protocol import LLM, Sampling
from viper.prompting.exploring import STOP, Action, read_action
from viper_lab.recipes.writer_score import load_llm
from viper_lab.world.queries.texts import text_sample
from viper_lab.world.queries.workflows import WorkflowText, routes, workflow


def evaluate(explorer: Path | LLM, *, count: int = 60, seed: int = 0) -> dict[str, float]:
    """Return shares of turns, by kind of turn, in which the agent acts as the workflow does.

    The questions are of the validation split. ``first``: the agent takes one of the valid routes,
    whichever it prefers; ``after a doubt``: one that it has not tried.
    """
    llm = load_llm(explorer)
    turns: list[tuple[str, str, Action, set[str]]] = []
    for number in range(count):
        random = Random(f"explorer {seed} {number}")
        sample = text_sample(random, "val", family="question")
        ways = {route.turns[0] for route in routes(sample).values()}
        turns += [(*turn, ways) for turn in _due(workflow(sample, random))]
    replies = llm.generate([turn[1] for turn in turns], Sampling(max_tokens=320, stop=STOP))
    right: dict[str, list[bool]] = defaultdict(list)
    for (due, prompt, action, ways), reply in zip(turns, replies, strict=True):
        predicted = read_action(reply[0].text, in_words=False)
        code = predicted.text if predicted else ""
        if due == "after a doubt":
            right[due].append(code in ways and code not in prompt)
        elif due == "first":
            right[due].append(code in ways)
        else:
            right[due].append(predicted == action)
    return {name: round(sum(each) / len(each), 4) for name, each in sorted(right.items())}


def _due(turns: WorkflowText) -> Iterator[tuple[str, str, Action]]:
    """Yield kind, prompt and action of each of the agent's turns."""
    text, before = "", ""
    for piece, is_own in turns.pieces():
        action = read_action(piece, in_words=False) if is_own else None
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
