"""Items, and what stands for the engines' ``Answering``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from viper.data.sample import Sample
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.sample_runner import Item, ItemOutcome
from viper.evaluate.sample_result import SampleResult
from viper.schema import Usage
from viper.strategies.base import UsageMeter

GIVE_UP_S = 30.0
"""How long a double waits for its test; only ever used up by a test that fails."""

Act = Callable[[Item, threading.Event], ItemOutcome | None]


def a_sample(number: int, **changes: object) -> Sample:
    given = {
        "sample_id": f"s{number}",
        "text": f"question {number}?",
        "task": "question",
        "media": "image",
        "target": "red",
        "load": lambda: None,
        **changes,
    }
    return Sample(**given)  # type: ignore[arg-type]


def some_items(count: int) -> list[Item]:
    return [Item(number, a_sample(number), 0) for number in range(count)]


def answered(item: Item, cost_usd: float | None = None, score: float = 1.0) -> ItemOutcome:
    usage = Usage(1, 10, 5, 2, cost_usd)
    return ItemOutcome(
        item.position, SampleResult(item.sample.sample_id, item.seed, score, usage=usage)
    )


class Answers:
    """Answers as ``act`` does, and records what it was asked."""

    def __init__(self, act: Act | None = None) -> None:
        self._act = act or (lambda item, cancel: answered(item))
        self.asked: list[int] = []
        self.read: list[int] = []

    def ahead(self, in_flight: int) -> int:
        return 2 * in_flight

    def prefetch(self, item: Item) -> None:
        self.read.append(item.position)

    def answer(
        self, item: Item, cancel: threading.Event, usage: UsageMeter | None = None
    ) -> ItemOutcome | None:
        self.asked.append(item.position)
        return self._act(item, cancel)


def an_engine(
    act: Act | None = None, in_flight: int = 4, deadline_s: float | None = None
) -> LocalEngine:
    return LocalEngine(Answers(act), Bounds(in_flight, deadline_s))  # type: ignore[arg-type]


def outcomes(engine: LocalEngine, items: Iterable[Item]) -> list[ItemOutcome]:
    return list(engine.run(items, threading.Event()))
