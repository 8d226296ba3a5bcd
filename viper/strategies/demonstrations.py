"""What a strategy that is shown demonstrations asks of whoever keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from viper.schema import Example, Query
from viper.strategies.settings import MAX_EXAMPLES, Settings, setting

if TYPE_CHECKING:
    from viper.prompting.ranking import Embed

Part = Literal["plan", "program"]
PARTS: tuple[Part, ...] = ("plan", "program")


@dataclass(frozen=True)
class PlanSettings(Settings):
    """Settings of strategy ``plan``; the defaults are CLOVA's."""

    correct_demonstrations: int = setting(
        4, "Demonstrations that worked, at most.", least=0, most=MAX_EXAMPLES, cli=False
    )
    incorrect_demonstrations: int = setting(
        4, "Those that failed, with their critique.", least=0, most=MAX_EXAMPLES, cli=False
    )


@dataclass(frozen=True)
class Demonstration:
    """An example with the id by which its keeper knows it."""

    id: str
    example: Example

    @property
    def program(self) -> str:
        return self.example.program


@dataclass(frozen=True)
class WantedDemonstrations:
    """Which demonstrations a prompt has room for.

    Attributes:
        part: what they demonstrate: writing the plan, or the program.
        task: as the language model is asked it.
        correct: at most so many that worked.
        incorrect: at most so many that did not, each with the critique of it.
        retrieval: one of ``RETRIEVALS``; a keeper without an order of its own takes ``fixed`` for
            the best of those it has.
        embed: what ``embeddings`` compares queries by.
    """

    part: Part
    task: str
    api: str
    correct: int = 4
    incorrect: int = 4
    retrieval: str = "bm25"
    embed: Embed | None = None


@dataclass(frozen=True)
class Chosen:
    """The demonstrations for one prompt, the best of each kind first."""

    correct: Sequence[Demonstration] = ()
    incorrect: Sequence[Demonstration] = ()


class Demonstrations(Protocol):
    """Where demonstrations come from; safe to ask from several threads."""

    def demonstrations(self, query: Query, wanted: WantedDemonstrations) -> Chosen:
        """Those for the query; never more than are wanted, and none of its own sample.

        Raises:
            UsageError: the retrieval needs a model that is not there.
            StoreError: they cannot be read.
        """
        ...


class NoDemonstrations:
    """The zero-shot setting."""

    def demonstrations(self, query: Query, wanted: WantedDemonstrations) -> Chosen:
        return Chosen()
