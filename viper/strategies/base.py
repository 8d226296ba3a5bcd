"""The parts that all strategies share: components, usage and the context of one run.

A profile wires :class:`Components`. For each query the reasoner makes a :class:`RunContext` and
asks a :class:`Strategy`, which yields trials and may return a :class:`Conclusion`. Requests to
language models go through :meth:`RunContext.complete`, which keeps the budget.
"""

from __future__ import annotations

import copy
import math
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from viper.api.library import Library
from viper.api.routines.pixels import ARRAYS_API
from viper.errors import CancelledError, UnavailableError, UsageError, ViperError
from viper.models.domain import Domain
from viper.models.llm.messages import Prompt
from viper.models.llm.protocol import LLM, Completion, Payer, Sampling, charge, charging, sending
from viper.models.media import Media
from viper.models.vision.roles import Floats
from viper.prompting.router import Routers
from viper.sandbox import Sandbox
from viper.sandbox.arrays import Arrays, fitting
from viper.schema import Check, Failure, Query, Trial, Usage
from viper.steps import step
from viper.strategies.confidence import Confidence
from viper.strategies.examples import ExampleStore, NoExamples
from viper.strategies.settings import RunSettings
from viper.tools.toolbox import Toolbox


@dataclass(frozen=True)
class Components:
    """The parts that a profile wires together for a Reasoner.

    Attributes:
        models: language models by role; ``llm`` writes programs, and plays every role without a
            model.
        styles: style of the prompts by role; ``chat`` if a role has none. The style of ``llm`` is
            that of the settings.
        sees: roles of the language models whose prompts hold the query's pictures.
        facts: what the profile says about its models, for chat prompts.
        domain: words and pictures that the models know, if the profile declares them.
        exact_inputs: name of the exact inputs for verification; see
            :mod:`viper.strategies.verification`.
        confidence: calibrations of answers; see :mod:`viper.strategies.confidence`.
        library: the names that programs may call.
        preload: load the vision models early, while the first program is written.
        page: renders the page of a trace, its media and a command line that repeats the run.
        embed: turns texts into unit vectors, for a router that ranks by meaning.
        routers: routers cached between prompts, for APIs larger than their budget of tokens.
        demonstrations: store of plans and programs for strategy ``plan``.
    """

    models: Mapping[str, LLM]
    toolbox: Toolbox
    sandbox: Sandbox
    settings: RunSettings
    examples: ExampleStore = field(default_factory=NoExamples)
    profile_name: str = "custom"
    preload: bool = False
    library: Library = field(default_factory=Library)
    page: Callable[..., str] | None = None
    embed: Callable[[Sequence[str]], Floats] | None = None
    routers: Routers = field(default_factory=Routers, repr=False, compare=False)
    demonstrations: ExampleStore = field(default_factory=NoExamples)
    styles: Mapping[str, str] = field(default_factory=dict)
    sees: frozenset[str] = frozenset()
    facts: str = ""
    domain: Domain | None = None
    exact_inputs: str = ""
    confidence: Mapping[str, Confidence] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return the profile and the roles of its language models in one line."""
        return f"<Components of {self.profile_name}: {', '.join(self.models)} and tools>"

    @property
    def llm(self) -> LLM:
        """Return the program writer."""
        return self.models["llm"]

    def model(self, role: str) -> tuple[LLM, str] | None:
        """Return the model of a role and the style of its prompts, or None if the role has no
        model.
        """
        return (self.models[role], self.styles.get(role, "chat")) if role in self.models else None

    def model_or_writer(
        self, role: str, settings: RunSettings, need: str, instead: str
    ) -> tuple[LLM, str]:
        """Return the model of a role, or else the program writer, and the style of the prompts.

        Args:
            need: the requirement, such as ``strategy plan needs a planner``, for the error.
            instead: an alternative for the user, for the error.

        Raises:
            UsageError: the role has no model, and the writer is compact and knows only programs.
        """
        own_model = self.model(role)
        if own_model is None and settings.prompt_style == "compact":
            raise UsageError(
                f"{need}: the writer of profile {self.profile_name} (prompt style compact) knows "
                f"programs only; give the profile a table [{role}], or use {instead}"
            )
        return own_model or (self.llm, settings.prompt_style)

    def arrays(self, api: str, media: Media) -> Arrays | None:
        """Return the pictures that programs map under an API; None if it gives them no arrays."""
        asked = ARRAYS_API in self.library.api_set(api).parts
        return fitting(media.named_images) if asked else None

    def with_models(self, **models: LLM) -> Components:
        """Return a copy with other language models in these roles."""
        return replace(self, models={**self.models, **models})

    def with_thresholds(self, values: Mapping[str, float]) -> Components:
        """Return a copy with the same models whose threshold schedules start from these values.

        Raises:
            UsageError: the profile declares no schedule for a threshold.
        """
        toolbox = self.toolbox.with_settings(self.toolbox.settings.with_thresholds(values))
        return replace(self, toolbox=toolbox)

    def load(self) -> None:
        """Start the sandbox and load all models, so that the first query need not wait for them."""
        self.sandbox.start()
        self.toolbox.models.load_all()
        _ = self.llm.max_context  # a model that loads itself on first use does it here

    def close(self) -> None:
        """End the sandbox's processes; the components cannot be used afterwards."""
        self.sandbox.close()


@dataclass
class UsageMeter:
    """Counts the cost of one run while it proceeds."""

    llm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    model_calls: int = 0
    cost_usd: float | None = None

    def add(self, completion: Completion) -> None:
        """Add one call of the language model, by its completion."""
        self.llm_calls += 1
        self.prompt_tokens += completion.prompt_tokens
        self.completion_tokens += completion.completion_tokens
        if completion.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + completion.cost_usd

    def snapshot(self) -> Usage:
        return Usage(**vars(self))

    def since(self, before: Usage) -> Usage:
        """Return the usage since a snapshot."""
        counts = {name: count for name, count in vars(self).items() if count is not None}
        return Usage(
            **{name: count - (getattr(before, name) or 0) for name, count in counts.items()}
        )


class StoppedError(ViperError):
    """A strategy cannot go on; the trials so far count.

    Attributes:
        failure: the reason, which the trace states if there is no trial.
    """

    code = "stopped"

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


# Errors that end a program although neither it nor the query is wrong.
TOOL_STOPS = (StoppedError, UnavailableError)


def failure_of(stop: ViperError) -> Failure:
    """Return the failure of a trial that one of :data:`TOOL_STOPS` ended."""
    if isinstance(stop, StoppedError):
        return stop.failure
    return Failure("unavailable", stop.problem, advice=stop.advice)


@dataclass
class RunContext(Payer):
    """Input of one run: its query, media and settings, and the meter of its cost.

    It pays for all requests to language models, those of tools included.

    Attributes:
        started: when the run began, on the monotonic clock in seconds.
    """

    query: Query
    media: Media
    settings: RunSettings
    cancel: threading.Event
    usage: UsageMeter = field(default_factory=UsageMeter)
    started: float = field(default_factory=lambda: time.monotonic())
    # Plug-ins written for earlier versions leave the parts of their trace here, and their answer
    # in an attribute ``final_value``; others return a Conclusion and yield trials with answers.
    parts: dict[str, Any] = field(default_factory=dict, repr=False)
    # One entry for each request that is reserved and not yet paid, and what guards them and the
    # usage; both are shared with the contexts of :meth:`about`.
    _reserved: list[None] = field(default_factory=list, init=False, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)

    def about(self, query: Query, media: Media) -> RunContext:
        """Return the context of another input whose costs belong to the same run."""
        other = copy.copy(self)
        other.query, other.media = query, media
        return other

    def spend(self, model_calls: int) -> None:
        """Count forward passes of models; any thread may."""
        with self._lock:
            self.usage.model_calls += model_calls

    def over_budget(self) -> Failure | None:
        """Return the reason why the budget allows no further request, or None if it does."""
        settings, used = self.settings, self.usage
        tokens = used.prompt_tokens + used.completion_tokens
        calls, seconds = used.llm_calls + len(self._reserved), time.monotonic() - self.started
        for most, count, text in (
            (settings.max_llm_calls, calls, "{} used of max_llm_calls {}"),
            (settings.max_llm_tokens, tokens, "{} used of max_llm_tokens {}"),
            (settings.max_cost_usd, used.cost_usd or 0, "{:.4f} used of max_cost_usd {:g}"),
            (settings.max_seconds, seconds, "{:.1f} used of max_seconds {:g}"),
        ):
            if most and count >= most:
                advice = "set a higher bound or 0"
                return Failure("budget", text.format(count, most), advice=advice)
        return None

    def check_budget(self) -> None:
        """Raise StoppedError if the budget is used up."""
        if over := self.over_budget():
            raise StoppedError(over)

    def check_running(self) -> None:
        """Raise CancelledError if the run was cancelled, StoppedError if its time is over."""
        self.check_cancelled()
        most = self.settings.max_seconds
        if most and time.monotonic() - self.started >= most:
            self.check_budget()

    def room(self) -> float:
        """Return the number of further requests that the query may send."""
        most = self.settings.max_llm_calls
        return most - self.usage.llm_calls - len(self._reserved) if most else math.inf

    def reserve(self) -> None:
        """Set a request aside before it is sent.

        Raises:
            StoppedError: the budget is used up, requests under way included.
        """
        with self._lock:
            self.check_budget()
            self._reserved.append(None)

    def release(self) -> None:
        """Give a reserved request back, because it failed."""
        with self._lock:
            del self._reserved[-1:]

    def pay(self, completion: Completion) -> None:
        """Add a completion to the usage, in place of its reserved request."""
        with self._lock:
            self.release()
            self.usage.add(completion)

    def check_cancelled(self) -> None:
        """Raise CancelledError if the run was cancelled."""
        if self.cancel.is_set():
            raise CancelledError("the run was cancelled")

    def complete(self, llm: LLM, prompt: Prompt, sampling: Sampling) -> Completion:
        """Return one completion of a language model, whose cost the run bears.

        Raises:
            CancelledError: the run was cancelled.
            StoppedError: the budget is used up.
        """
        self.check_running()
        with step("asking the language model"), charging([self]), sending(1):
            completion = llm.generate([prompt], sampling)[0][0]
            charge([completion])
        return completion


@dataclass(frozen=True)
class Conclusion:
    """What is known of a run beside its trials; most fields are those of the trace.

    Attributes:
        chosen: index of the trial that answers; None for the last one with an answer.
        stopped: the reason why the strategy ended, if no trial holds it.
        ballots: the trials that voted.
        parts: further data of the strategy by name, such as ``path`` of strategy ``seek`` and
            ``turns`` of strategy ``explore``: JSON values, or records of them.
    """

    chosen: int | None = None
    stopped: Failure | None = None
    ballots: tuple[Trial, ...] = ()
    votes: tuple[tuple[str, int], ...] = ()
    checks: tuple[Check, ...] = ()
    fallback: str | None = None
    left_out: tuple[str, ...] = ()
    examples_shown: tuple[str, ...] = ()
    examples_left_out: int = 0
    parts: Mapping[str, Any] = field(default_factory=dict)


# The trials of a run as they happen; the generator returns what is known beside them.
Trials = Generator[Trial, None, Conclusion]


def answering_trial(trials: Iterable[Trial]) -> Trial | None:
    """Return the last trial with an answer; None without an answer."""
    return next((each for each in reversed([*trials]) if each.answer is not None), None)


class Strategy(Protocol):
    """A way of answering; yields its trials as they happen, the trial with the answer last.

    A generator of trials may return a :class:`Conclusion`, for example if another trial answers. A
    strategy that looks words of the query up in texts has the attribute ``searches_texts = True``:
    words that the models do not know are then no reason for a warning.
    """

    name: str

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]: ...


@runtime_checkable
class ShowsPrompt(Protocol):
    """A strategy whose first request is not the prompt for a program from the query alone."""

    def prompt(self, components: Components, context: RunContext) -> str:
        """Return the prompt of the first request without calling a model."""
