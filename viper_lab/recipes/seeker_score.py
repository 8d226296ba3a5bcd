"""What the seeker reaches with simulated tools: its searches beside the expert's.

Questions of the validation split about catalogues whose names no text of training holds. Tools
make the mistakes that :mod:`viper_lab.world.knowledge.simulate` says; decisions and verdicts are
the seeker's.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random

from viper.models.llm.protocol import LLM
from viper.schema import Failure, Query
from viper.strategies.base import RunContext
from viper.strategies.seek.decisions import NoDecisions
from viper.strategies.seek.graph import load_graph
from viper.strategies.seek.search import Seeker
from viper.strategies.settings import RunSettings
from viper_lab.recipes.adapters import WRITER
from viper_lab.world.knowledge.catalogue import catalogue
from viper_lab.world.knowledge.questions import questions
from viper_lab.world.knowledge.simulate import STYLE, Expert, Library, decisions


def evaluate(
    seeker: Path | LLM,
    *,
    count: int = 100,
    seed: int = 0,
    graph: str = "avis",
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, float]:
    """Shares of right answers: all, of each kind of question, and the expert's.

    Args:
        seeker: an adapter over the shipped writer, or a model that was loaded already.
    """
    llm = _loaded(seeker) if isinstance(seeker, Path) else seeker
    library, transitions = Library.of(catalogue("val", seed)), load_graph(graph)
    right: dict[str, list[bool]] = defaultdict(list)
    for number, question in enumerate(questions(library.catalogue, count)):
        _, expected = decisions(library, question, transitions, Random(number))
        simulated = Expert(library, question, transitions, Random(number))
        context = RunContext(
            Query(question.text, "question", "image"),
            None,  # type: ignore[arg-type]
            RunSettings().changed(max_steps=24),
            threading.Event(),
        )
        search = Seeker(context, transitions, simulated.scene, llm, STYLE, NoDecisions())
        found = search.seek(question.text)
        answer = found[0] if not isinstance(found, Failure) else found.kind
        for name in ("all", question.kind, "" if question.is_answerable else "unanswerable"):
            if name:
                right[name].append(answer == question.answer)
        right["expert"].append(expected == question.answer)
        report(f"{question.text} -> {answer} ({question.answer})")
    return {name: round(sum(each) / len(each), 4) for name, each in sorted(right.items())}


def _loaded(adapter: Path) -> LLM:
    from viper.models.llm.transformers_llm import TransformersLLM

    return TransformersLLM(WRITER, template="plain", local_only=True, adapter=adapter)
