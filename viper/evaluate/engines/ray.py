"""Answers samples on actors of Ray, on this machine or a cluster.

The driver hands out positions and gets judged rows; it loads no model and alone writes the
store. Who has which items, and what becomes of them when an actor dies, is the ledger's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any

from viper.evaluate.engines.ray_crew import Crew
from viper.evaluate.engines.ray_ledger import Ledger
from viper.evaluate.engines.work import Done, Item

_LOOK_EVERY_S = 0.2
"""How often the stop signal is looked at while nothing comes in."""


class RayEngine:
    """The engine of a crew of actors; good for one run.

    Args:
        crew: of actors that know the run's samples. Killed where the run ends early.
        in_flight: samples at once in each actor.
        on_death: is told which actor died, in words.
    """

    def __init__(
        self, crew: Crew, in_flight: int, on_death: Callable[[str], None] | None = None
    ) -> None:
        self._crew, self._in_flight, self._on_death = crew, in_flight, on_death
        self._actors = len(crew.seats)

    def describe(self) -> dict[str, Any]:
        """``{"engine": "ray", "actors": …, "in_flight": …}``, the latter in each actor."""
        return {"engine": "ray", "actors": self._actors, "in_flight": self._in_flight}

    def run(self, items: Iterable[Item], stop: threading.Event) -> Generator[Done, None, None]:
        """See :class:`viper.evaluate.engines.work.Engine`.

        Each actor has half as many items again as it answers at once, so that it never waits
        for the driver, and a budget is overspent by no more than these.

        Raises:
            UsageError, ModelError: an actor cannot begin, has another configuration, or all
                have died.
        """
        ledger = Ledger(items, self._in_flight + (self._in_flight + 1) // 2)
        try:
            while not ledger.finished:
                self._hand_out(ledger)
                for news in self._crew.news(_LOOK_EVERY_S):
                    yield from ledger.done(news.seat, news.outcomes)
                    if news.died is not None:
                        if self._on_death is not None:
                            self._on_death(news.died)
                        yield from ledger.lost(news.seat)
                if stop.is_set():
                    return
        finally:
            if not ledger.finished:
                self._crew.kill()

    def _hand_out(self, ledger: Ledger) -> None:
        for seat in self._crew.seats:
            if seat.idle:
                positions = ledger.hand_out(seat)
                if positions or ledger.busy(seat):
                    self._crew.ask(seat, positions)
