"""In-context examples: the request of a prompt to an example store, and the reply.

Banks, demonstration pools and their combinations (:mod:`viper.ace`) are such stores.
"""

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

    # fmt: off
    correct_demonstrations: int = setting(4,
        "Maximum number of correct demonstrations in the prompt.", least=0, most=MAX_EXAMPLES,
        cli=False)
    incorrect_demonstrations: int = setting(4,
        "Maximum number of incorrect demonstrations, each with its critique.", least=0,
        most=MAX_EXAMPLES, cli=False)
    # fmt: on


@dataclass(frozen=True)
class Demonstration:
    """An example with its id in a demonstration pool; examples of a bank have no id."""

    id: str
    example: Example

    @property
    def program(self) -> str:
        return self.example.program


@dataclass(frozen=True)
class ExampleRequest:
    """The examples that a prompt has room for.

    Attributes:
        task: as the language model is asked it.
        correct: at most so many that worked.
        incorrect: at most so many that did not, each with the critique of it.
        part: what they demonstrate: writing the plan, or the program.
        retrieval: one of ``RETRIEVALS``; a store without an order of its own takes ``fixed`` for
            the best of those it has.
        embed: what ``embeddings`` compares queries by.
    """

    task: str
    api: str
    correct: int
    incorrect: int = 0
    part: Part = "program"
    retrieval: str = "fixed"
    embed: Embed | None = None


@dataclass(frozen=True)
class SelectedExamples:
    """The examples for one prompt, the best of each kind first."""

    correct: Sequence[Demonstration] = ()
    incorrect: Sequence[Demonstration] = ()


class ExampleStore(Protocol):
    """Where in-context examples come from; safe to ask from several threads."""

    def select(self, query: Query, request: ExampleRequest) -> SelectedExamples:
        """Return examples for the query; never more than requested, none of its own sample.

        Raises:
            UsageError: the retrieval needs a model that is not there.
            UnknownNameError: no such retrieval.
            StoreError: the store cannot be read.
        """
        ...


class NoExamples:
    """The zero-shot setting."""

    def select(self, query: Query, request: ExampleRequest) -> SelectedExamples:
        return SelectedExamples()
