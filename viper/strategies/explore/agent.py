"""The agent's loop: ask for an action, carry it out, show what came of it, until it is done.

Source: DWIM (2025), supplement, sec. 6: actions in any order, one a turn. Ours: what happens at
a bound (the best answer so far counts, and is marked), what becomes of a turn that cannot be read,
and the seat of a checker, which may doubt a result (:mod:`viper.tuning`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from viper.api.sets import ApiEntry
from viper.errors import PromptTooLongError
from viper.models.llm.protocol import LLM, Sampling
from viper.prompting.exploring import (
    EXPECTED,
    FINAL,
    STOP,
    Action,
    Step,
    explore_prompt,
    read_action,
)
from viper.schema import Answer, Failure, Turn, Usage
from viper.strategies.answers import read_answer
from viper.strategies.base import RunContext
from viper.strategies.explore import ExploreSettings
from viper.strategies.explore.environment import Environment, Feedback
from viper.strategies.writing import drawn
from viper.tools.session import plain

MISSING = f"nothing is stored in {FINAL} yet; store the answer there, then end"


class Checker(Protocol):
    """Doubts results; what it says becomes a thought of the workflow."""

    def doubt(self, turns: Sequence[Turn], answer: Answer | None) -> str:
        """Why what the last turn gave cannot be right; "" where there is nothing to say.

        Args:
            answer: what it gave, read as an answer to the task; None where it is none.
        """
        ...


class NoChecker:
    """Takes every result as it is: an agent by itself."""

    def doubt(self, turns: Sequence[Turn], answer: Answer | None) -> str:
        return ""


@dataclass
class Agent:
    """One query being explored.

    Attributes:
        hint: the answer, where it is given away; for making workflows.
        turns: what happened so far.
        captions: of the media, with which every prompt opens.
        first_prompt: what was asked first.
        writing_seconds: spent waiting for the language model.
    """

    context: RunContext
    environment: Environment
    llm: LLM
    style: str
    entries: Sequence[ApiEntry]
    checker: Checker = field(default_factory=NoChecker)
    hint: str = ""
    turns: list[Turn] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    first_prompt: str = ""
    writing_seconds: float = 0.0
    _steps: list[Step] = field(default_factory=list)
    _values: list[Any] = field(default_factory=list)

    def explore(self) -> tuple[Any, Any] | Failure:
        """The answer with what stands behind it, as a program returns it; else why there is none.

        Raises:
            CancelledError: the run was cancelled.
            PromptTooLongError: the first prompt alone is too long for the model.
        """
        settings = self.context.settings.of(ExploreSettings)
        started = time.monotonic()
        self.captions = self.environment.captions()
        unreadable = 0
        for number in range(settings.max_turns):
            if settings.max_seconds and time.monotonic() - started > settings.max_seconds:
                return self._forced(f"max_seconds {settings.max_seconds:g} reached")
            before, asked_at = self.context.usage.snapshot(), time.perf_counter()
            try:
                reply = self._asked(number + 1 == settings.max_turns)
            except PromptTooLongError:
                if not self.turns:
                    raise
                return self._forced(f"the turns outgrew the context of {self.llm.model_id}")
            self.writing_seconds += time.perf_counter() - asked_at
            if reply is None:
                stopped = self.context.over_budget()
                return self._forced(stopped.message if stopped else "no more may be asked")
            usage = self.context.usage.since(before)
            action = read_action(reply)
            unreadable = unreadable + 1 if action is None else 0
            ended = self._turn(action, reply, usage, asked_at)
            if ended is not None:
                return ended
            if unreadable >= settings.max_unreadable:
                return self._forced(f"{unreadable} replies in a row held no action")
        return self._forced(f"max_turns {settings.max_turns} reached")

    def _asked(self, is_last: bool) -> str | None:
        """The model's reply; None where the budget is used up."""
        settings = self.context.settings
        prompt = explore_prompt(
            self.context.query,
            self.entries,
            self.captions,
            self._steps,
            style=self.style,
            is_last=is_last,
            hint=self.hint,
        )
        self.first_prompt = self.first_prompt or prompt
        sampling = Sampling(
            temperature=settings.temperature,
            seed=settings.seed,  # no prompt is like another: each holds the turns before it
            max_tokens=settings.max_tokens,
            stop=STOP,
        )
        return drawn(self.llm, self.context, prompt, sampling)

    def _turn(
        self, action: Action | None, reply: str, usage: Usage, started: float
    ) -> tuple[Any, Any] | None:
        """Carries an action out; the answer where the agent is done."""
        feedback, value, answered = Feedback(""), None, None
        if action is None:
            feedback = Feedback(EXPECTED)
        elif action.kind == "code":
            feedback = self.environment.run(action.text)
            value = feedback.value
        elif action.kind == "done":
            there = self.environment.stored()
            value = there.value
            read = None if value is None else self.environment.read(value)
            if read is None or isinstance(read, Failure):
                said = MISSING if read is None else f"{FINAL}: {read.message}"
                feedback = Feedback("\n".join(filter(None, (said, there.text))))
            else:
                answered = (value, None)
        turn = Turn(
            index=len(self.turns),
            kind=action.kind if action else "unreadable",
            text=action.text if action else reply.strip(),
            result=feedback.text,
            failure=feedback.failure,
            calls=feedback.calls,
            value=plain(value),
            seconds=round(time.perf_counter() - started, 4),
            writing=usage,
        )
        self.turns.append(turn)
        self._steps.append(Step(action, feedback.text, "" if action else reply))
        if value is not None and answered is None:
            self._values.append(value)
        if action is None or action.kind == "thought":
            return answered
        doubt = self.checker.doubt(self.turns, self._as_answer(value))
        if not doubt:
            return answered
        self.turns.append(Turn(len(self.turns), "thought", doubt, by="checker"))
        self._steps.append(Step(Action("thought", doubt)))
        return None

    def _as_answer(self, value: Any) -> Answer | None:
        """A value as it is, read as an answer; no model is asked to make it one."""
        if value is None:
            return None
        read = read_answer(value, self.context.query, self.context.media)
        return None if isinstance(read, Failure) else read

    def _forced(self, why: str) -> tuple[Any, Any] | Failure:
        """The best answer at a bound: what is stored, else the last value that can be one."""
        stored = self.environment.stored().value
        candidates = [] if stored is None else [stored]
        for value in [*candidates, *reversed(self._values)]:
            if not isinstance(self.environment.read(value), Failure):
                self.turns.append(Turn(len(self.turns), "forced", why, value=plain(value)))
                return value, {"forced": why}
        self.turns.append(Turn(len(self.turns), "forced", why))
        return Failure("budget", f"no answer was reached: {why}")
