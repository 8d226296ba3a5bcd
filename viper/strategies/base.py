"""What every way of answering has in common: its parts, its settings, one run's context."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from viper.api.library import Library
from viper.llm.protocol import LLM
from viper.sandbox import Sandbox
from viper.schema import Example, Query, Trial, Usage
from viper.tools.hub import ToolHub
from viper.tools.media import Media
from viper.tools.roles import Floats


class ExampleSource(Protocol):
    """Where in-context examples come from (a bank, a pool, nothing)."""

    def examples(self, query: Query, task: str, api: str, count: int) -> Sequence[Example]:
        """At most ``count`` examples for the query, in the order they shall stand in the prompt."""
        ...


class NoExamples:
    """The zero-shot setting."""

    def examples(self, query: Query, task: str, api: str, count: int) -> Sequence[Example]:
        return ()


@dataclass(frozen=True)
class RunSettings:
    """How programs are asked for and corrected.

    Attributes:
        api: name of the API set shown to the language model.
        trials: how many programs are written at most.
        temperature: of the first program; 0 is greedy.
        retry_temperature: of later programs where ``temperature`` is lower.
        feedback: show the failed program and its error when asking again. The default
            asks afresh, which Stanić et al. 2024 (sec. 3.3) found better.
        self_tune: lower a blamed threshold and run the same program again.
        examples: in-context examples shown at most.
        prompt_style: ``compact`` for small writers, ``full`` or ``chat`` for large ones.
        max_tokens: of one program.
        seed: of sampling.
        api_budget: tokens that the text of the API may take; above it, a router shows the
            names that fit the query best. 0 shows all of them.
        router: how it ranks names: ``bm25`` or ``embeddings``.
    """

    api: str = "abstract"
    trials: int = 3
    temperature: float = 0.0
    retry_temperature: float = 0.4
    feedback: bool = False
    self_tune: bool = True
    examples: int = 4
    prompt_style: str = "full"
    max_tokens: int = 512
    seed: int = 0
    api_budget: int = 0
    router: str = "bm25"


@dataclass(frozen=True)
class Components:
    """The parts a profile wires together for a Reasoner.

    Attributes:
        library: the names that programs may call.
        preload: load the vision models ahead, while the first program is written.
        embed: texts to unit vectors, for a router that ranks by meaning.
    """

    llm: LLM
    hub: ToolHub
    sandbox: Sandbox
    settings: RunSettings
    examples: ExampleSource = field(default_factory=NoExamples)
    profile_name: str = "custom"
    preload: bool = False
    library: Library = field(default_factory=Library)
    embed: Callable[[Sequence[str]], Floats] | None = None

    def close(self) -> None:
        """Ends the sandbox's processes; the components are of no use afterwards."""
        self.sandbox.close()


@dataclass
class UsageMeter:
    """Counts what one run costs while it goes on."""

    llm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    model_calls: int = 0

    def snapshot(self) -> Usage:
        return Usage(self.llm_calls, self.prompt_tokens, self.completion_tokens, self.model_calls)


@dataclass
class RunContext:
    """One query on its way: what it asks, about what, with which settings.

    ``final_value`` is what the last good program returned, with arrays and references;
    ``left_out`` the names of the API that a router kept out of the prompt.
    """

    query: Query
    media: Media
    settings: RunSettings
    cancel: threading.Event
    usage: UsageMeter = field(default_factory=UsageMeter)
    final_value: Any = None
    left_out: tuple[str, ...] = ()


class Strategy(Protocol):
    """A way of answering; yields its trials as they happen, the answering one last."""

    name: str

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]: ...
