"""The interface of language models: conversations in, text out; and who pays for the text.

Whoever asks a language model reserves its requests (:func:`sending`) and calls :func:`charge` for
their completions. They then count against the budget and in the usage of the query behind them,
also where one batch serves several queries (:func:`charging`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from viper.errors import UsageError, ViperError
from viper.models.llm.messages import Prompt, as_text, pictures_of


@dataclass(frozen=True)
class Completion:
    """Sampled continuation.

    Attributes:
        finish_reason: ``stop``, ``length`` if a limit cut the text, or ``refusal`` if the model or
            its server declined; the text then holds the words of the refusal, if there are any.
        cost_usd: its share of the charge in US dollars; the shares of all completions add up to
            the charge. 0 for a repeated or cached completion, None if no price is known.
        first_logprobs: log-probability of the likeliest first tokens, if the server reports them.
        cached_tokens: tokens of the prompt that the server had kept from earlier requests.
        logprob: log-probability of the whole text, where the backend knows it.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish_reason: str = "stop"
    cost_usd: float | None = None
    first_logprobs: Mapping[str, float] | None = None
    cached_tokens: int = 0
    logprob: float | None = None


@dataclass(frozen=True)
class Sampling:
    """Decoding settings. ``temperature`` 0 is greedy, and then ``seed`` has no effect.

    ``stop`` strings end a completion and are not part of its text.
    """

    temperature: float = 0.0
    seed: int = 0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    n: int = 1

    def sample_seed(self, prompt: Prompt, sample: int) -> int:
        """Return the seed of one sample of a prompt, which is the same in every batch."""
        name = f"{self.seed}\0{sample}\0{as_text(prompt)}".encode()
        return int.from_bytes(hashlib.sha256(name).digest()[:7], "big")


@runtime_checkable
class LLM(Protocol):
    """A causal language model; safe to call from several threads.

    A model that takes conversations has the attribute ``sees_pictures``, which says whether they
    may hold pictures. A profile's model without it gets every prompt as one text.

    Attributes:
        model_id: name plus weight hash, recorded in traces and cache keys.
        max_context: maximum number of tokens of prompt and completion together.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def max_context(self) -> int: ...

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[list[Completion]]:
        """Return ``sampling.n`` completions for each prompt, in order.

        A string is the short form of one user message.
        """

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Return the mean log-likelihood per token of each continuation after the prompt."""

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of the text in this model's vocabulary."""


def sees_pictures(llm: object) -> bool:
    """Return whether a language model takes pictures; one that does not say so takes none."""
    return bool(getattr(llm, "sees_pictures", False))


def check_no_pictures(prompt: Prompt, model_id: str) -> None:
    """Check that a prompt for a model that reads only text has no picture.

    Raises:
        UsageError: it has one.
    """
    if pictures_of(prompt):
        raise UsageError(
            f"{model_id} takes no pictures; set sees = false, or name a vision-language model"
        )


class Payer:
    """The query that pays for requests to language models; this one has no budget.

    Safe to call from several threads. A query with a budget raises its own error where this one
    does nothing: see :class:`viper.strategies.base.RunContext`.
    """

    def check_budget(self) -> None:
        """Check that the budget allows a further request."""

    def check_running(self) -> None:
        """Check that the query was not cancelled and that its time is not over."""

    def room(self) -> float:
        """Return the number of further requests that the query may send."""
        return math.inf

    def reserve(self) -> None:
        """Set one request aside before it is sent, if the budget allows it."""

    def release(self) -> None:
        """Give a reserved request back, because it failed."""

    def pay(self, completion: Completion) -> None:
        """Add a completion to the usage, in place of its reserved request."""


NO_PAYER = Payer()

_PAYERS: ContextVar[tuple[Payer, ...]] = ContextVar("payers", default=(NO_PAYER,))


@contextmanager
def charging(payers: Sequence[Payer]) -> Iterator[None]:
    """Charge the requests within the block to these queries.

    Args:
        payers: one for each item of the batch that is being served, at least one.
    """
    token = _PAYERS.set(tuple(payers))
    try:
        yield
    finally:
        _PAYERS.reset(token)


def payers() -> tuple[Payer, ...]:
    """Return the queries that pay for the requests of this thread."""
    return _PAYERS.get()


def check_running() -> None:
    """Raise the error of a query if all queries behind the current requests have ended.

    Whoever waits for a model calls it now and then, so that requests end with their queries.
    """
    for payer in _PAYERS.get():
        try:
            payer.check_running()
        except ViperError as error:
            ended = error
        else:
            return
    raise ended


@contextmanager
def sending(count: int) -> Iterator[None]:
    """Reserve ``count`` requests, which the block sends and charges; an error gives them back.

    Requests that are under way thus count against the bound of requests, which several at once
    cannot exceed; their tokens and cost are known, and counted, only when they are answered.
    """
    payers, reserved = _PAYERS.get(), list[Payer]()
    try:
        for index in range(count):
            payer = payers[index % len(payers)]
            payer.reserve()
            reserved.append(payer)
        yield
    except BaseException:
        for payer in reserved:
            payer.release()
        raise


def charge(completions: Sequence[Completion]) -> None:
    """Charge each completion to the item of the batch at its place.

    If there are more completions than items, they are dealt out in turn.
    """
    payers = _PAYERS.get()
    for index, completion in enumerate(completions):
        payers[index % len(payers)].pay(completion)
