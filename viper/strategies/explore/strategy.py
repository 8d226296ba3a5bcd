"""Strategy ``explore``: an agent acts turn by turn, and each turn sees the results before it.

:func:`run_agent` opens an :class:`Environment` and lets an :class:`Agent` act in it: it requests an
action, executes it, and shows its result, until the agent is done or a limit is reached.
:class:`ExploreStrategy` gives it the prompts of DWIM, :mod:`viper.strategies.look` others.

Source: DWIM (2025), supplement, sec. 6: actions in any order, one per turn. Ours: the behaviour at
a limit (the best answer so far is used and marked), the handling of unreadable turns, and an
optional verifier that criticises results (:mod:`viper.tuning`).
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from viper.api.sets import ApiEntry
from viper.errors import PromptTooLongError, UsageError
from viper.models.llm.messages import Prompt, as_text
from viper.models.llm.protocol import LLM, Completion, Sampling
from viper.models.llm.replies import without_reasoning
from viper.prompting.exploring import (
    CUT_OFF,
    EXPECTED,
    EXPECTED_IN_WORDS,
    FINAL,
    STOP,
    STOP_IN_WORDS,
    Action,
    Step,
    action_text,
    explore_prompt,
    read_action,
)
from viper.prompting.extract import syntax_tree
from viper.prompting.select import parse_choice
from viper.schema import Answer, Failure, Trial, Turn, Usage
from viper.strategies.answers import read_answer
from viper.strategies.base import Components, Conclusion, RunContext, StoppedError
from viper.strategies.end_to_end import trial_without_program
from viper.strategies.explore import ExploreSettings
from viper.strategies.explore.environment import CodeResult, Environment
from viper.strategies.prompts import is_lines, query_for_prompt, shown_to
from viper.tools.call_log import plain

# Each reply without an action gets a hint; a model that misses three in a row does not know the
# format and would use up all turns.
MAX_UNREADABLE = 3

MISSING = f"nothing is stored in {FINAL} yet; store the answer there, then end"


class Verifier(Protocol):
    """Checks results; its objection becomes a thought in the workflow."""

    def critique(self, turns: Sequence[Turn], answer: Answer | None) -> str:
        """Return the reason why the last turn's result cannot be right; "" if there is none.

        Args:
            answer: the result as an answer to the task; None if it is not one.
        """


class NoVerifier:
    """Accepts every result, for an agent by itself."""

    def critique(self, turns: Sequence[Turn], answer: Answer | None) -> str:
        return ""


@dataclass
class Agent:
    """The agent of one query.

    Attributes:
        prompt: returns the prompt after some steps, and for the last turn if the flag is True.
        max_turns: maximum number of turns.
        max_seconds: number of seconds after which no turn begins; 0 for no limit.
        in_words: whether replies may hold thoughts beside actions, and ends in words.
        is_conversation: whether each reply is one message of the prompt.
        turns: the turns so far.
        first_prompt: the first prompt.
        writing_seconds: time spent waiting for the language model.
    """

    context: RunContext
    environment: Environment
    llm: LLM
    prompt: Callable[[Sequence[Step], bool], Prompt]
    max_turns: int
    max_seconds: float = 0.0
    in_words: bool = True
    is_conversation: bool = False
    verifier: Verifier = field(default_factory=NoVerifier)
    turns: list[Turn] = field(default_factory=list)
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
        started = time.monotonic()
        unreadable = 0
        for number in range(self.max_turns):
            if self.max_seconds and time.monotonic() - started > self.max_seconds:
                return self._stop_early(f"max_seconds {self.max_seconds:g} reached")
            before, request_start = self.context.usage.snapshot(), time.perf_counter()
            try:
                completion = self._request_action(is_last=number + 1 == self.max_turns)
            except PromptTooLongError:
                if not self.turns:
                    raise
                return self._stop_early(f"the turns outgrew the context of {self.llm.model_id}")
            except StoppedError as stop:
                return self._stop_early(stop.failure.message)
            finally:
                self.writing_seconds += time.perf_counter() - request_start
            usage = self.context.usage.since(before)
            action = read_action(completion.text, in_words=self.in_words)
            if self._is_cut_off(completion, action):
                action = None
            unreadable = unreadable + 1 if action is None else 0
            answer = self._execute(action, completion, usage, request_start)
            if answer is not None:
                return answer
            if unreadable >= MAX_UNREADABLE:
                return self._stop_early(f"{unreadable} replies in a row held no action")
        return self._stop_early(f"max_turns {self.max_turns} reached")

    def _request_action(self, is_last: bool) -> Completion:
        settings = self.context.settings
        prompt = self.prompt(self._steps, is_last)
        self.first_prompt = self.first_prompt or as_text(prompt)
        sampling = Sampling(
            temperature=settings.temperature,
            seed=settings.seed,  # one seed is enough: each prompt differs by the turns before it
            max_tokens=settings.max_tokens,
            stop=STOP_IN_WORDS if self.in_words else STOP,
        )
        return self.context.complete(self.llm, prompt, sampling)

    def _is_cut_off(self, completion: Completion, action: Action | None) -> bool:
        """Return whether a reply ended at its limit before its action did."""
        if completion.finish_reason != "length" or not self.in_words:
            return False
        return action is None or (action.kind == "code" and syntax_tree(action.text) is None)

    def _execute(
        self, action: Action | None, completion: Completion, usage: Usage, started: float
    ) -> tuple[Any, Any] | None:
        """Execute an action and record the turn; return the answer if the agent is done."""
        reply, result, value, final = completion.text, CodeResult(""), None, None
        text = without_reasoning(reply) if action is None else action_text(action)
        if action is not None and action.thought:
            self.turns.append(Turn(len(self.turns), "thought", action.thought))
            if self.is_conversation:
                text = f"{action.thought}\n\n{text}"  # one reply is one message
            else:
                self._steps.append(Step(Action("thought", action.thought)))
            action = replace(action, thought="")
        if action is None:
            result = CodeResult(self._expected(completion))
        elif action.kind == "code":
            result = self.environment.run(action.text)
            value = result.value
        elif action.kind == "done":
            if action.text:
                self._store(action.text)
            stored = self.environment.stored()
            value = stored.value
            answer = None if value is None else self.environment.read(value)
            if answer is None or isinstance(answer, Failure):
                problem = MISSING if answer is None else f"{FINAL}: {answer.message}"
                result = CodeResult("\n".join(filter(None, (problem, stored.text))))
            else:
                final = (value, None)
        turn = Turn(
            index=len(self.turns),
            kind=action.kind if action else "unreadable",
            text=action.text if action else reply.strip(),
            result=result.text,
            failure=result.failure,
            calls=result.calls,
            value=plain(value),
            seconds=round(time.perf_counter() - started, 4),
            writing=usage,
        )
        self.turns.append(turn)
        self._steps.append(Step(action, result.text, text, pictures=result.pictures))
        if value is not None and final is None:
            self._values.append(value)
        if action is None or action.kind == "thought":
            return final
        objection = self.verifier.critique(self.turns, self._as_answer(value))
        if not objection:
            return final
        self.turns.append(Turn(len(self.turns), "thought", objection, by="checker"))
        self._steps.append(Step(Action("thought", objection), by="checker"))
        return None

    def _expected(self, completion: Completion) -> str:
        """Return the feedback on a reply without an action."""
        if not self.in_words:
            return EXPECTED
        if completion.finish_reason == "length":
            return CUT_OFF.format(tokens=completion.completion_tokens)
        return EXPECTED_IN_WORDS

    def _store(self, words: str) -> None:
        """Store an answer that was given in words, unless it does not answer the task."""
        options = self.context.query.options
        index = parse_choice(words, options) if options else None
        value: Any = words if index is None else options[index]
        if re.fullmatch(r"[-+]?\d+(?:\.\d+)?", words):
            value = ast.literal_eval(words.lstrip("+0") or "0")
        if not isinstance(self.environment.read(value), Failure):
            self.environment.run(f"{FINAL} = {value!r}")

    def _as_answer(self, value: Any) -> Answer | None:
        """Read a value as an answer, without asking a model to convert it."""
        if value is None:
            return None
        answer = read_answer(value, self.context.query, self.context.media)
        return None if isinstance(answer, Failure) else answer

    def _stop_early(self, reason: str) -> tuple[Any, Any] | Failure:
        """Return the best answer so far: the stored value, or the last value that is an answer."""
        stored = self.environment.stored().value
        candidates = [] if stored is None else [stored]
        for value in [*candidates, *reversed(self._values)]:
            if not isinstance(self.environment.read(value), Failure):
                self.turns.append(Turn(len(self.turns), "forced", reason, value=plain(value)))
                return value, {"forced": reason}
        self.turns.append(Turn(len(self.turns), "forced", reason))
        return Failure("budget", f"no answer was reached: {reason}")


# Builds the prompt after some steps; the flag says that no turn will follow.
PromptAfter = Callable[[Sequence[Step], bool], Prompt]


def run_agent(
    components: Components,
    context: RunContext,
    llm: LLM,
    prompts: Callable[[Environment], PromptAfter],
    **manner: Any,
) -> Generator[Trial, None, Conclusion]:
    """Run an agent to its end, within the limits of :class:`ExploreSettings`, and yield its trial.

    Args:
        prompts: returns the prompts of the agent in an environment.
        manner: further attributes of :class:`Agent`.
    """
    started, before = time.perf_counter(), context.usage.snapshot()
    limits = context.settings.of(ExploreSettings)
    with closing(Environment(components, context)) as environment:
        prompt = prompts(environment)
        agent = Agent(
            context, environment, llm, prompt, limits.max_turns, limits.max_seconds, **manner
        )
        value = agent.explore()
        answer = value if isinstance(value, Failure) else environment.read(value)
        trial = trial_without_program(context, environment.tools, answer, value, started)
        yield replace(
            trial,
            seed=context.settings.seed,
            temperature=context.settings.temperature,
            prompt=agent.first_prompt or None,
            writing=replace(context.usage.since(before), model_calls=0),
            writing_seconds=round(agent.writing_seconds, 4),
        )
    return Conclusion(parts={"turns": agent.turns})


def actor_of(
    name: str, role: str, api: str, need: str, components: Components, context: RunContext
) -> tuple[LLM, str]:
    """Return the model that acts in a strategy and the style of its prompts.

    Args:
        api: another API for the error, if the run's is of line programs.
        need: the requirement, such as ``an agent``, for the error.

    Raises:
        UsageError: the program writer is compact and the role has no model, or the API is for line
            programs.
    """
    if is_lines(components, context):
        raise UsageError(
            f"strategy {name} writes Python, and the API {context.settings.api!r} is of line "
            f"programs; take another one: --api {api}"
        )
    return components.model_or_writer(
        role, context.settings, f"strategy {name} needs {need}", "--strategy program"
    )


class ExploreStrategy:
    """Lets an agent act by code and thoughts, in any order, until it is done.

    Args:
        verifier: criticises results; by default nothing does.
        hint: the right answer, to generate workflows for training.
    """

    name = "explore"

    def __init__(self, verifier: Verifier | None = None, hint: str = "") -> None:
        self._verifier, self._hint = verifier or NoVerifier(), hint

    def trials(
        self, components: Components, context: RunContext
    ) -> Generator[Trial, None, Conclusion]:
        """Yield one trial without a program; the trace's ``turns`` holds its turns.

        Raises:
            UsageError: the language model was not trained to act, or the API is for line programs.
            CancelledError: ``context.cancel`` was set.
        """
        context.check_cancelled()
        llm, style = explorer_of(components, context)
        entries, query = _entries(components, context), context.query

        def prompts(environment: Environment) -> PromptAfter:
            captions = environment.captions()

            def prompt(steps: Sequence[Step], is_last: bool) -> Prompt:
                text = explore_prompt(
                    query, entries, captions, steps, style=style, is_last=is_last,
                    hint=self._hint, facts=components.facts,
                )  # fmt: skip
                return shown_to("explorer", text, components, context)

            return prompt

        return run_agent(
            components,
            context,
            llm,
            prompts,
            in_words=style != "compact",
            is_conversation=style == "chat",
            verifier=self._verifier,
        )

    def prompt(self, components: Components, context: RunContext) -> str:
        """Return the prompt of the first request; no model is asked for the caption.

        Raises:
            UsageError: as :meth:`trials`.
        """
        _, style = explorer_of(components, context)
        entries = _entries(components, context)
        prompt = explore_prompt(
            context.query, entries, ["(the caption)"], (), style=style, facts=components.facts
        )
        return as_text(shown_to("explorer", prompt, components, context))


def explorer_of(components: Components, context: RunContext) -> tuple[LLM, str]:
    """Return the model that acts and the style of its prompts.

    Raises:
        UsageError: the program writer is compact and there is no explorer, or the API is for line
            programs.
    """
    return actor_of("explore", "explorer", "abstract", "an agent", components, context)


def _entries(components: Components, context: RunContext) -> tuple[ApiEntry, ...]:
    task = query_for_prompt(context.query).task
    return components.library.api_set(context.settings.api).entries(task)
