"""What a whole run may cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """Bounds of a whole run, the sessions before a resumption included; None sets no bound.

    Attributes:
        usd: no item is begun once programs cost this much; what is under way is finished.
        llm_calls: requests to the program writer. No item is begun that could pass it, those
            under way counted with all they may ask, so that it holds exactly.
        calls_an_item: requests that one item makes at most.
    """

    usd: float | None = None
    llm_calls: int | None = None
    calls_an_item: int = 1

    def allows(self, spent_usd: float, llm_calls: int, under_way: int) -> bool:
        """Whether one more item may be begun."""
        if self.usd is not None and spent_usd >= self.usd:
            return False
        if self.llm_calls is None:
            return True
        return llm_calls + (under_way + 1) * self.calls_an_item <= self.llm_calls


UNBOUNDED = Budget()
