"""What every way of answering has in common: its parts, its settings, one run's context."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from viper.api.library import Library
from viper.errors import UsageError
from viper.models.llm.protocol import LLM, Completion
from viper.models.media import Media
from viper.models.vision.roles import Floats
from viper.prompting.router import Routers
from viper.sandbox import Sandbox
from viper.schema import Failure, Query, Trial, Usage
from viper.strategies.examples import ExampleStore, NoExamples
from viper.strategies.settings import RunSettings
from viper.tools.toolbox import Toolbox


@dataclass(frozen=True)
class Components:
    """The parts a profile wires together for a Reasoner.

    Attributes:
        models: language models by role; ``llm`` writes programs, and plays a role that has none.
        styles: of the prompts that ask them, by role; ``chat`` where none is named. The style of
            ``llm`` is that of the settings.
        library: the names that programs may call.
        preload: load the vision models ahead, while the first program is written.
        embed: texts to unit vectors, for a router that ranks by meaning.
        routers: kept between prompts, where the API is larger than its budget of tokens.
        demonstrations: what strategy ``plan`` shows of plans and programs.
    """

    models: Mapping[str, LLM]
    toolbox: Toolbox
    sandbox: Sandbox
    settings: RunSettings
    examples: ExampleStore = field(default_factory=NoExamples)
    profile_name: str = "custom"
    preload: bool = False
    library: Library = field(default_factory=Library)
    embed: Callable[[Sequence[str]], Floats] | None = None
    routers: Routers = field(default_factory=Routers, repr=False, compare=False)
    demonstrations: ExampleStore = field(default_factory=NoExamples)
    styles: Mapping[str, str] = field(default_factory=dict)

    @property
    def llm(self) -> LLM:
        """The program writer."""
        return self.models["llm"]

    def model(self, role: str) -> tuple[LLM, str] | None:
        """Return the model of a role and the style of its prompts, or None where it has none."""
        return (self.models[role], self.styles.get(role, "chat")) if role in self.models else None

    def model_or_writer(
        self, role: str, settings: RunSettings, need: str, instead: str
    ) -> tuple[LLM, str]:
        """Return who plays a role and the style of the prompts: its model, or the program writer.

        Args:
            need: what it takes, as ``strategy plan needs somebody to plan``, for the error.
            instead: what else one can do.

        Raises:
            UsageError: no model of that role, and a compact writer, which knows programs only.
        """
        found = self.model(role)
        if found is None and settings.prompt_style == "compact":
            raise UsageError(
                f"{need}: the writer of profile {self.profile_name} (prompt style compact) knows "
                f"programs only; give the profile a table [{role}], or take {instead}"
            )
        return found or (self.llm, settings.prompt_style)

    def with_models(self, **models: LLM) -> Components:
        """Return the same parts with other language models in these roles."""
        return replace(self, models={**self.models, **models})

    def with_thresholds(self, values: Mapping[str, float]) -> Components:
        """The same parts, over the same models, with sensitivities that start from these values.

        Raises:
            UsageError: a sensitivity that the profile does not declare.
        """
        toolbox = self.toolbox.with_settings(self.toolbox.settings.with_thresholds(values))
        return replace(self, toolbox=toolbox)

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
    cost_usd: float | None = None

    def add(self, completion: Completion) -> None:
        """Counts one call of the language model by what it answered."""
        self.llm_calls += 1
        self.prompt_tokens += completion.prompt_tokens
        self.completion_tokens += completion.completion_tokens
        if completion.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + completion.cost_usd

    def snapshot(self) -> Usage:
        return Usage(
            self.llm_calls,
            self.prompt_tokens,
            self.completion_tokens,
            self.model_calls,
            self.cost_usd,
        )

    def since(self, before: Usage) -> Usage:
        """What was added since a snapshot."""
        cost = None if self.cost_usd is None else self.cost_usd - (before.cost_usd or 0.0)
        return Usage(
            self.llm_calls - before.llm_calls,
            self.prompt_tokens - before.prompt_tokens,
            self.completion_tokens - before.completion_tokens,
            self.model_calls - before.model_calls,
            cost,
        )


@dataclass
class RunContext:
    """One query on its way: what it asks, about what, with which settings.

    ``final_value`` is the answer with what the last good program returned, arrays and references
    among it; ``left_out`` the names of the API that a router kept out of the prompt; ``stopped``
    why a strategy went no further, where no trial says it; ``fallback`` what answered instead;
    ``examples_shown`` the sample ids of the prompt's examples, ``examples_left_out`` how many more
    there was no room for; ``chosen`` the index of the trial whose answer counts, where that is
    not the last; ``votes`` the answers of a vote, each with its count, the winner first;
    ``parts`` what else the strategy tells in the trace, by name, as ``path`` of strategy ``seek``
    and ``turns`` of strategy ``explore``: JSON values, or records of them. It may still grow.
    """

    query: Query
    media: Media
    settings: RunSettings
    cancel: threading.Event
    usage: UsageMeter = field(default_factory=UsageMeter)
    final_value: Any = None
    left_out: tuple[str, ...] = ()
    stopped: Failure | None = None
    fallback: str | None = None
    examples_shown: tuple[str, ...] = ()
    examples_left_out: int = 0
    chosen: int | None = None
    votes: tuple[tuple[str, int], ...] = ()
    parts: dict[str, Any] = field(default_factory=dict)

    def over_budget(self) -> Failure | None:
        """Why the program writer may not be asked again; None while it may."""
        settings, used = self.settings, self.usage
        tokens = used.prompt_tokens + used.completion_tokens
        for name, limit, count in (
            ("max_llm_calls", settings.max_llm_calls, used.llm_calls),
            ("max_llm_tokens", settings.max_llm_tokens, tokens),
        ):
            if limit and count >= limit:
                return Failure("budget", f"{count} used of {name} {limit}; set a higher bound or 0")
        cost, most = used.cost_usd, settings.max_cost_usd
        if most and cost is not None and cost >= most:
            said = f"{cost:.4f} used of max_cost_usd {most:g}; set a higher bound or 0"
            return Failure("budget", said)
        return None


class Strategy(Protocol):
    """A way of answering; yields its trials as they happen, the answering one last.

    A strategy whose answering trial is not the last says so in ``context.chosen``.
    """

    name: str

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]: ...


@runtime_checkable
class ShowsPrompt(Protocol):
    """A strategy whose first request is not the prompt for a program from the query alone."""

    def prompt(self, components: Components, context: RunContext) -> str:
        """The first request's prompt; asks no model."""
        ...
