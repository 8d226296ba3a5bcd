"""What travels between a runner and the engine that answers samples for it."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from viper.data.sample import Sample
from viper.evaluate.row import Row
from viper.schema import Trace


@dataclass(frozen=True)
class Item:
    """One thing to do: a sample under a seed. ``position`` is its place in the whole run."""

    position: int
    sample: Sample
    seed: int

    @property
    def key(self) -> tuple[str, int]:
        """What the run store tells rows apart by."""
        return self.sample.sample_id, self.seed


@dataclass(frozen=True)
class Done:
    """One thing done. ``trace`` is None where the media could not even be read."""

    position: int
    row: Row
    trace: Trace | None = None


class Engine(Protocol):
    """Answers items, many at once, in whatever order they are done."""

    def run(self, items: Iterable[Item], stop: threading.Event) -> Generator[Done, None, None]:
        """Each item's outcome as soon as it is there; never raises for a single item.

        Args:
            items: taken one by one as there is room, so that the caller may end them early.
            stop: set it to give up at once: what is under way is cancelled and not yielded.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """How the run is spread, for the manifest and the progress line."""
        ...
