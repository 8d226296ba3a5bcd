"""What every way of answering has in common: its parts, its settings, one run's context."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from viper.api.library import Library
from viper.errors import UnknownNameError, UsageError
from viper.llm.protocol import LLM, Completion
from viper.models.media import Media
from viper.models.vision.roles import Floats
from viper.prompting.builder import STYLES
from viper.prompting.ranking import RANKERS, Embed
from viper.prompting.router import Routers
from viper.sandbox import Sandbox
from viper.schema import (
    EXAMPLE_ORDERS,
    FALLBACKS,
    MAX_VOTES,
    RETRIEVALS,
    Example,
    Failure,
    Query,
    Trial,
    Turn,
    Usage,
)
from viper.strategies.demonstrations import Demonstrations, NoDemonstrations
from viper.strategies.seek.names import ACTIONS
from viper.tools.hub import ToolHub

MAX_TEMPERATURE = 2.0

_BETWEEN: Mapping[str, tuple[float, float]] = {
    "temperature": (0, MAX_TEMPERATURE),
    "retry_temperature": (0, MAX_TEMPERATURE),
    "votes": (1, MAX_VOTES),
}
_AT_LEAST: Mapping[str, int] = {
    "trials": 1,
    "examples": 0,
    "max_tokens": 1,
    "correct_demonstrations": 0,
    "incorrect_demonstrations": 0,
    "max_steps": 1,
    "max_turns": 1,
}
_BOUNDS = ("api_budget", "max_llm_calls", "max_llm_tokens", "max_cost_usd", "max_seconds")
"""Settings of which 0 sets no bound."""


@dataclass(frozen=True)
class Wanted:
    """Which examples a prompt has room for.

    Attributes:
        task: as the language model is asked it.
        count: at most so many.
        retrieval: one of ``RETRIEVALS``.
        embed: what ``embeddings`` compares queries by.
    """

    task: str
    api: str
    count: int
    retrieval: str = "fixed"
    embed: Embed | None = None


class ExampleSource(Protocol):
    """Where in-context examples come from (a bank, a pool, nothing)."""

    def examples(self, query: Query, wanted: Wanted) -> Sequence[Example]:
        """Examples for the query, the best first; never more than are wanted.

        Raises:
            UsageError: the retrieval needs a model that is not there.
        """
        ...


class NoExamples:
    """The zero-shot setting."""

    def examples(self, query: Query, wanted: Wanted) -> Sequence[Example]:
        return ()


@dataclass(frozen=True)
class RunSettings:
    """How programs are asked for and corrected.

    Attributes:
        api: name of the API set shown to the language model.
        trials: how many programs are written at most, of each vote.
        temperature: of the first program, 0 to ``MAX_TEMPERATURE``; 0 is greedy.
        retry_temperature: of later programs that are asked for afresh, and of the first program
            of later votes, where ``temperature`` is lower.
        feedback: show the failed program and its error when asking again. The default
            asks afresh, which Stanić et al. 2024 (sec. 3.3) found better.
        self_tune: lower a blamed threshold and run the same program again.
        examples: in-context examples shown at most.
        retrieval: which examples: ``fixed`` shows the bank's first ones (Stanić et al. 2024),
            ``bm25`` and ``embeddings`` those whose queries are most like the query.
        example_order: ``rising`` puts the best example last, next to the query; ``falling``
            puts it first.
        votes: how many times the query is answered; the most frequent answer counts.
        prompt_style: one of ``STYLES``; ``compact`` for small writers, ``full`` or ``chat`` for
            large ones.
        max_tokens: of one program.
        seed: of sampling.
        api_budget: tokens that the text of the API may take; above it, a router shows the
            names that fit the query best. 0 shows all of them.
        router: how it ranks names: ``bm25`` or ``embeddings``.
        max_llm_calls: requests to the program writer at most; 0 sets no bound.
        max_llm_tokens: prompt and completion tokens of the program writer, after which no
            further program is asked for; 0 sets no bound.
        fallback: what answers when every trial failed: ``none`` or ``vipergpt``.
        average_box: where ``vipergpt`` grounds: ``x0, y0, x1, y1`` as fractions of the picture,
            from its top-left corner. The default is ViperGPT's average box on a picture of
            640 x 480 pixels, the usual size in RefCOCO.
        correct_demonstrations: that a strategy with a demonstration pool shows in a prompt at most;
            the default is CLOVA's.
        incorrect_demonstrations: the same of those that failed, each with its critique.
        graph: of strategy ``seek``: what may be done after what, or a fixed sequence; see
            :func:`viper.strategies.seek.sequence.load_route`.
        decisions: file of decisions that people took, as examples for the planner of strategy
            ``seek``; see :func:`viper.strategies.seek.decisions.decisions_of`. Empty shows none.
        max_steps: actions of strategy ``seek`` at most.
        without_actions: that strategy ``seek`` must do without, for measurements.
        max_cost_usd: after which no language model is asked any more, where its price is known; 0
            sets no bound.
        max_turns: of strategy ``explore``; at the last one the best answer so far counts.
        max_seconds: after which strategy ``explore`` takes no further turn; 0 sets no bound.

    Raises:
        UnknownNameError: a fallback, retrieval, example order, prompt style, router or action that
            there is not.
        UsageError: a number out of range, or an average box that is no box within the picture.
    """

    api: str = "abstract"
    trials: int = 3
    temperature: float = 0.0
    retry_temperature: float = 0.4
    feedback: bool = False
    self_tune: bool = True
    examples: int = 4
    retrieval: str = "fixed"
    example_order: str = "rising"
    votes: int = 1
    prompt_style: str = "full"
    max_tokens: int = 512
    seed: int = 0
    api_budget: int = 0
    router: str = "bm25"
    max_llm_calls: int = 0
    max_llm_tokens: int = 0
    fallback: str = "none"
    average_box: tuple[float, ...] = (0.0795, 0.2573, 0.7711, 0.9185)
    correct_demonstrations: int = 4
    incorrect_demonstrations: int = 4
    graph: str = "avis"
    decisions: str = ""
    max_steps: int = 16
    without_actions: tuple[str, ...] = ()
    max_cost_usd: float = 0.0
    max_turns: int = 12
    max_seconds: float = 0.0

    def __post_init__(self) -> None:
        for kind, chosen, known in (
            ("fallback", self.fallback, FALLBACKS),
            ("retrieval", self.retrieval, RETRIEVALS),
            ("example order", self.example_order, EXAMPLE_ORDERS),
            ("prompt style", self.prompt_style, STYLES),
            ("router", self.router, RANKERS),
            *(("action", one, ACTIONS) for one in self.without_actions),
        ):
            if chosen not in known:
                raise UnknownNameError(kind, chosen, known)
        for name, (least, most) in _BETWEEN.items():
            if not least <= (value := getattr(self, name)) <= most:
                raise UsageError(f"{name} is {value}; expected {least:g} to {most:g}")
        for name, least in _AT_LEAST.items():
            if not (value := getattr(self, name)) >= least:
                raise UsageError(f"{name} is {value}; expected {least} or more")
        for name in _BOUNDS:
            if not (value := getattr(self, name)) >= 0:
                raise UsageError(f"{name} is {value}; 0 or more, 0 for no bound")
        if not _is_fraction_box(self.average_box):
            raise UsageError(
                f"average_box is {self.average_box!r}; expected x0, y0, x1, y1 with "
                "0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1"
            )


def _is_fraction_box(box: Sequence[float]) -> bool:
    if len(box) != 4:
        return False
    x0, y0, x1, y1 = box
    return 0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1


@dataclass(frozen=True)
class Components:
    """The parts a profile wires together for a Reasoner.

    Attributes:
        library: the names that programs may call.
        preload: load the vision models ahead, while the first program is written.
        embed: texts to unit vectors, for a router that ranks by meaning.
        routers: kept between prompts, where the API is larger than its budget of tokens.
        planner: writes the plans of strategy ``plan``; None leaves that to ``llm``.
        planner_style: of the prompts that ask it; with ``compact`` it writes the programs of its
            plans as well.
        critic: says what made an answer wrong; None leaves that to ``llm``.
        critic_style: of the prompts that ask it.
        demonstrations: what strategy ``plan`` shows of plans and programs.
        seeker: plans and judges in strategy ``seek``; None leaves that to ``llm``.
        seeker_style: of the prompts that ask it.
        explorer: acts in strategy ``explore``; None leaves that to ``llm``.
        explorer_style: of the prompts that ask it.
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
    routers: Routers = field(default_factory=Routers, repr=False, compare=False)
    planner: LLM | None = None
    planner_style: str = "chat"
    critic: LLM | None = None
    critic_style: str = "chat"
    demonstrations: Demonstrations = field(default_factory=NoDemonstrations)
    seeker: LLM | None = None
    seeker_style: str = "chat"
    explorer: LLM | None = None
    explorer_style: str = "chat"

    def with_thresholds(self, values: Mapping[str, float]) -> Components:
        """The same parts, over the same models, with sensitivities that start from these values.

        Raises:
            UsageError: a sensitivity that the profile does not declare.
        """
        hub = self.hub.with_settings(self.hub.settings.with_thresholds(values))
        return replace(self, hub=hub)

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
    not the last; ``votes`` the answers of a vote, each with its count, the winner first; ``path``
    the steps of strategy ``seek``, ``turns`` those of strategy ``explore``.
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
    path: Sequence[Any] = ()
    turns: Sequence[Turn] = ()

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
