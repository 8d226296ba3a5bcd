"""Does a routine help? The same samples and seeds with and without it, compared in pairs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viper.api.called import called_names
from viper.evaluate.engines.work import Engine, Item
from viper.evaluate.intervals import Estimate, Paired, mean, paired
from viper.evaluate.row import Row


@dataclass(frozen=True)
class Effect:
    """Two APIs on the same samples.

    Attributes:
        without, with_it: mean scores.
        gain: what changed, sample by sample.
        used: share of programs that called one of the routines.
    """

    without: Estimate
    with_it: Estimate
    gain: Paired
    used: Estimate


def answered(
    engine: Engine, items: Sequence[Item], on_done: Callable[[Row], None] | None = None
) -> list[Row]:
    """Every item's row, in the items' order; one without an answer scores 0."""
    rows: dict[int, Row] = {}
    for done in engine.run(items, threading.Event()):
        rows[done.position] = done.row
        if on_done is not None:
            on_done(done.row)
    return [rows[item.position] for item in items]


def compare(without: Sequence[Row], with_it: Sequence[Row], names: Sequence[str]) -> Effect:
    """The paired comparison; both lists are of the same samples in the same order."""
    before, after = ([row.score for row in rows] for rows in (without, with_it))
    clusters = [row.cluster or row.sample_id for row in without]
    return Effect(
        without=mean(before, clusters=clusters),
        with_it=mean(after, clusters=clusters),
        gain=paired(before, after, clusters),
        used=mean([float(bool(called_names(row.program or "") & set(names))) for row in with_it]),
    )
