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


@dataclass(frozen=True)
class ExampleRequest:
    """The examples that a prompt asks for.

    Attributes:
        task: the task as named in the prompt.
        correct: greatest number of examples that worked.
        incorrect: greatest number of examples that did not work, each with its critique.
        part: the part that they demonstrate: the plan or the program.
        retrieval: one of ``RETRIEVALS``; in a store without a fixed order, ``fixed`` means its
            best examples.
        embed: embeds the queries that ``embeddings`` compares.
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
    """A source of in-context examples; safe to use from several threads."""

    def select(self, query: Query, request: ExampleRequest) -> SelectedExamples:
        """Return examples for the query, at most the requested number and none of its own sample.

        Raises:
            UsageError: the retrieval needs a model that the profile does not have.
            UnknownNameError: no retrieval has that name.
            StoreError: the store cannot be read.
        """


class NoExamples:
    """The zero-shot setting."""

    def select(self, query: Query, request: ExampleRequest) -> SelectedExamples:
        return SelectedExamples()


def demonstrates(item: Example, query: Query) -> bool:
    """Return whether the example would reveal the query's own answer."""
    if query.sample_id is not None:
        return item.sample_id == query.sample_id
    return item.query.split() == query.text.split()
