"""Perfect tools that also know the answer to the question itself, asked about the whole picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from viper.sandbox import Ref
from viper_lab.world.perfect import PerfectTools
from viper_lab.world.scene import RenderedScene


class KnowingTools(PerfectTools):
    """A visual answerer without error knows what the picture shows, whatever it is asked of it.

    Args:
        question: to which the answer is known.
    """

    def __init__(self, scenes: Sequence[RenderedScene], question: str, answer: str) -> None:
        super().__init__(scenes)
        self._question, self._answer = question, answer

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None = None
    ) -> Any:
        """As :meth:`PerfectTools.call`; the known question is answered where all is looked at."""
        asks = name in ("simple_query", "complex_query")
        if asks and args[1:2] == (self._question,) and self._is_whole(args[0]):
            return self._answer
        return super().call(name, args, kwargs, line)

    def _is_whole(self, ref: Any) -> bool:
        if not isinstance(ref, Ref) or ref.kind not in ("image", "patch"):
            return False
        if ref.kind == "image":
            return True
        height, width = self.media.pixels(str(ref.fields[0])).shape[:2]
        box = tuple(round(float(one)) for one in ref.fields[1:5])
        return box == (0, 0, width, height)
