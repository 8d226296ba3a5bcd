"""Programs of the demonstration pool as in-context examples, for strategies that show no others."""

from __future__ import annotations

from collections.abc import Sequence

from viper.schema import Example, Query
from viper.strategies.base import ExampleSource, Wanted
from viper.strategies.demonstrations import Demonstrations, WantedDemonstrations


class PoolExamples:
    """An :class:`~viper.strategies.base.ExampleSource`: a pool's programs, then those of a bank.

    Programs that worked and are most like the query come first; what room they leave is filled
    from the bank. An empty pool changes nothing.
    """

    def __init__(self, pool: Demonstrations, bank: ExampleSource) -> None:
        self.pool, self.bank = pool, bank

    def examples(self, query: Query, wanted: Wanted) -> Sequence[Example]:
        """The best ones first; raises as pool and bank do."""
        ranked = "bm25" if wanted.retrieval == "fixed" else wanted.retrieval
        asked = WantedDemonstrations(
            "program", wanted.task, wanted.api, wanted.count, 0, ranked, wanted.embed
        )
        found = [one.example for one in self.pool.demonstrations(query, asked).correct]
        programs = {one.program for one in found}
        more = self.bank.examples(query, wanted) if len(found) < wanted.count else ()
        found += [one for one in more if one.program not in programs]
        return found[: wanted.count]
