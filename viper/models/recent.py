"""What a model computed of texts, kept for those that were asked for last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

CAPACITY = 4096
"""Programs may ask for any phrase: a run of thousands of samples makes up thousands."""

Value = TypeVar("Value")


class RecentTexts(Generic[Value]):
    """Values by text; not for several threads at once.

    Args:
        capacity: how many are kept; a single request may be longer.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[str, Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(
        self, texts: Sequence[str], compute: Callable[[list[str]], Iterable[Value]]
    ) -> list[Value]:
        """The values of the texts, in order.

        Args:
            texts: may repeat.
            compute: gives the values of those that are not kept, each text once, in order.
        """
        wanted = list(dict.fromkeys(texts))
        new = [text for text in wanted if text not in self._kept]
        if new:
            self._kept.update(zip(new, compute(new), strict=True))
        for text in wanted:
            self._kept.move_to_end(text)
        found = [self._kept[text] for text in texts]
        while len(self._kept) > self._capacity:
            self._kept.popitem(last=False)
        return found
