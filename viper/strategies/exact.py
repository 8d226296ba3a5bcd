"""Media and tools whose truth is known: the one place where such truth enters.

Verification asks for exact inputs near a query (:data:`ExactInputs`, from the entry point that the
profile's domain names). Environments and figures of agents ask the ``load`` of a sample, if it
:class:`KnowsTruth`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from viper.models.media import Media
from viper.plugins import Registry
from viper.sandbox import ToolClient
from viper.schema import Query

# Group under which an installed package offers exact inputs; a profile's domain names them.
EXACT_INPUTS = Registry("viper.exact_inputs", "source of exact inputs")


class ExactInput(NamedTuple):
    """Media, and tools that answer the calls of programs about them without error."""

    media: Media
    tools: ToolClient


# Returns that many exact inputs near a query, or none; the same ones for the same query.
ExactInputs = Callable[[Query, int], Sequence[ExactInput]]


@runtime_checkable
class KnowsTruth(Protocol):
    """A sample's ``load`` whose scene is known, for example because it was rendered."""

    def exact(self, question: str = "", answer: str = "") -> ExactInput | None:
        """Return the sample's media with tools that make no mistake, or None if it has none.

        Args:
            question: a question about the whole picture whose answer the tools know, too.
            answer: that answer.
        """


@runtime_checkable
class KnowsScenes(KnowsTruth, Protocol):
    """One that also knows other scenes about which the same question can be asked."""

    def cases(self, count: int) -> Sequence[tuple[ExactInput, Any]]:
        """Return up to ``count`` other media with exact tools, each with its right answer."""
