"""Strategies ``explore`` and ``look``: an agent acts turn by turn, and sees the results so far.

:func:`run_agent` opens an :class:`Environment` and lets an :class:`Agent` act in it: it requests an
action, executes it, and shows its result, until the agent is done or a limit is reached.
:class:`ExploreStrategy` gives it the prompts of DWIM; those of :class:`LookStrategy` are messages
that hold the pictures which code shows.

Source: DWIM (2025), supplement, sec. 6: actions in any order, one per turn. Ours: the behaviour at
a limit (the best answer so far is used and marked), the handling of unreadable turns, and an
optional verifier that criticises results (:mod:`viper.tuning`).
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from viper.api.sets import ApiEntry
from viper.errors import PromptTooLongError, UsageError
from viper.models.llm.messages import Conversation, Prompt, as_text
from viper.models.llm.protocol import LLM, Completion, Sampling
from viper.models.llm.replies import without_reasoning
from viper.prompting import exploring
from viper.prompting.exploring import FINAL, Action, Step
from viper.prompting.extract import syntax_tree
from viper.prompting.feedback import hint_at
from viper.prompting.select import parse_choice
from viper.schema import Answer, Failure, Turn, Usage
from viper.strategies import prompts as query_prompts
from viper.strategies.answers import read_answer
from viper.strategies.base import Components, Conclusion, RunContext, StoppedError, Trials
from viper.strategies.end_to_end import trial_without_program
from viper.strategies.explore import ExploreSettings, LookSettings
from viper.strategies.explore.environment import CodeResult, Environment
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


# Builds the prompt after some steps; the flag says that no turn will follow.
PromptAfter = Callable[[Sequence[Step], bool], Prompt]


@dataclass
class Agent:
    """The agent of one query, within the limits of :class:`ExploreSettings`.

    Attributes:
        in_words: whether replies may hold thoughts beside actions, and ends in words.
        is_conversation: whether each reply is one message of the prompt.
        verifier: criticises results, if there is one.
        entries: the names that code may call, for hints after its errors.
        turns: the turns so far.
        first_prompt: the first prompt.
        writing_seconds: time spent waiting for the language model.
    """

    context: RunContext
    environment: Environment
    llm: LLM
    prompt: PromptAfter
    in_words: bool = True
    is_conversation: bool = False
    verifier: Verifier | None = None
    entries: Sequence[ApiEntry] = ()
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
        settings, unreadable = self.context.settings, 0
        limits = settings.of(ExploreSettings)
        sampling = Sampling(
            temperature=settings.temperature,
            seed=settings.seed,  # one seed is enough: each prompt differs by the turns before it
            max_tokens=settings.max_tokens,
            stop=exploring.STOP_IN_WORDS if self.in_words else exploring.STOP,
        )
        for number in range(limits.max_turns):
            before, request_start = self.context.usage.snapshot(), time.perf_counter()
            try:
                prompt = self.prompt(self._steps, number + 1 == limits.max_turns)
                self.first_prompt = self.first_prompt or as_text(prompt)
                completion = self.context.complete(self.llm, prompt, sampling)
            except PromptTooLongError:
                if not self.turns:
                    raise
                return self._stop_early(f"the turns outgrew the context of {self.llm.model_id}")
            except StoppedError as stop:
                return self._stop_early(stop.failure.message)
            finally:
                self.writing_seconds += time.perf_counter() - request_start
            usage = self.context.usage.since(before)
            action = exploring.read_action(completion.text, in_words=self.in_words)
            is_cut_off = completion.finish_reason == "length" and self.in_words
            if is_cut_off and action and action.kind == "code" and not syntax_tree(action.text):
                action = None
            unreadable = unreadable + 1 if action is None else 0
            answer = self._execute(action, completion, usage, request_start)
            last = self.turns[-1]
            if action and action.ends and last.kind == "code" and last.failure is None:
                answer = self._execute(Action("done"), completion, Usage(), time.perf_counter())
            if answer is not None:
                return answer
            if unreadable >= MAX_UNREADABLE:
                return self._stop_early(f"{unreadable} replies in a row held no action")
        return self._stop_early(f"max_turns {limits.max_turns} reached")

    def _execute(
        self, action: Action | None, completion: Completion, usage: Usage, started: float
    ) -> tuple[Any, Any] | None:
        """Execute an action and record the turn; return the answer if the agent is done."""
        reply, result, value, final = completion.text, CodeResult(""), None, None
        text = without_reasoning(reply) if action is None else exploring.action_text(action)
        if action is not None and action.thought:
            self.turns.append(Turn(len(self.turns), "thought", action.thought))
            if self.is_conversation:
                text = f"{action.thought}\n\n{text}"  # one reply is one message
            else:
                self._steps.append(Step(Action("thought", action.thought)))
            action = replace(action, thought="")
        if action is None:
            expected = exploring.EXPECTED_IN_WORDS if self.in_words else exploring.EXPECTED
            if self.in_words and completion.finish_reason == "length":
                expected = exploring.CUT_OFF.format(tokens=completion.completion_tokens)
            result = CodeResult(expected)
        elif action.kind == "code":
            result = self.environment.run(action.text)
            value, notes = result.value, [exploring.IGNORED] if action.ignored else []
            if self.in_words and result.failure is not None:
                notes += hint_at(result.failure, action.text, self.entries)
            result = replace(result, text="\n".join([result.text, *notes]))
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
        if self.verifier is None or action is None or action.kind == "thought":
            return final
        # read without a model that converts it
        seen = None if value is None else read_answer(value, self.context.query, self.context.media)
        objection = self.verifier.critique(self.turns, None if isinstance(seen, Failure) else seen)
        if not objection:
            return final
        self.turns.append(Turn(len(self.turns), "thought", objection, by="checker"))
        self._steps.append(Step(Action("thought", objection), by="checker"))
        return None

    def _store(self, words: str) -> None:
        """Store an answer that was given in words, unless it does not answer the task."""
        options = self.context.query.options
        index = parse_choice(words, options) if options else None
        value: Any = words if index is None else options[index]
        if re.fullmatch(r"[-+]?\d+(?:\.\d+)?", words):
            value = ast.literal_eval(words.lstrip("+0") or "0")
        if not isinstance(self.environment.read(value), Failure):
            self.environment.run(f"{FINAL} = {value!r}")

    def _stop_early(self, reason: str) -> tuple[Any, Any] | Failure:
        """Return the best answer so far: the stored value, or the last value that is an answer."""
        for value in (self.environment.stored().value, *reversed(self._values)):
            if value is not None and not isinstance(self.environment.read(value), Failure):
                self.turns.append(Turn(len(self.turns), "forced", reason, value=plain(value)))
                return value, {"forced": reason}
        self.turns.append(Turn(len(self.turns), "forced", reason))
        return Failure("budget", f"no answer was reached: {reason}")


def run_agent(
    components: Components,
    context: RunContext,
    llm: LLM,
    prompts: Callable[[Environment], PromptAfter],
    **manner: Any,
) -> Trials:
    """Run an agent to its end and yield its trial.

    Args:
        prompts: returns the prompts of the agent in an environment.
        manner: further attributes of :class:`Agent`.
    """
    started, before = time.perf_counter(), context.usage.snapshot()
    with closing(Environment(components, context)) as environment:
        names = query_prompts.names_for(components, context.query, context.settings)
        manner["entries"] = names[0]
        agent = Agent(context, environment, llm, prompts(environment), **manner)
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
    if components.library.api_set(context.settings.api).lines:
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
        examples: solved queries that every prompt shows.
    """

    name = "explore"

    def __init__(
        self, verifier: Verifier | None = None, hint: str = "", examples: str = ""
    ) -> None:
        self._verifier, self._hint, self._examples = verifier, hint, examples

    def trials(self, components: Components, context: RunContext) -> Trials:
        """Yield one trial without a program; the trace's ``turns`` holds its turns.

        Raises:
            UsageError: the language model was not trained to act, or the API is for line programs.
            CancelledError: ``context.cancel`` was set.
        """
        context.check_cancelled()
        llm, style, prompt = self._prompter(components, context)
        sees = query_prompts.sees_pictures("explorer", components)
        return run_agent(
            components,
            context,
            llm,
            lambda environment: partial(prompt, () if sees else environment.captions()),
            in_words=style != "compact",
            is_conversation=style == "chat",
            verifier=self._verifier,
        )

    def prompt(self, components: Components, context: RunContext) -> str:
        """Return the prompt of the first request; no model is asked for the caption.

        Raises:
            UsageError: as :meth:`trials`.
        """
        captions = () if query_prompts.sees_pictures("explorer", components) else ("(the caption)",)
        return as_text(self._prompter(components, context)[2](captions, (), False))

    def _prompter(
        self, components: Components, context: RunContext
    ) -> tuple[LLM, str, Callable[[Sequence[str], Sequence[Step], bool], Prompt]]:
        """Return the model that acts, the style of its prompts, and their builder."""
        llm, style = actor_of("explore", "explorer", "abstract", "an agent", components, context)
        query = context.query
        entries, listing = query_prompts.names_for(components, query, context.settings)

        def prompt(captions: Sequence[str], steps: Sequence[Step], is_last: bool) -> Prompt:
            text = exploring.explore_prompt(
                query, entries, captions, steps, style=style, is_last=is_last,
                hint=self._hint, listing=listing, examples=self._examples,
            )  # fmt: skip
            return query_prompts.shown_to("explorer", text, components, context)

        return llm, style, prompt


class LookStrategy:
    """Lets a model that sees act by code and look at what the code shows, until it answers.

    Source: the loop of PyVision (Zhao et al. 2025) and of visual agents after it. Differs: the
    operations on pixels are a closed vocabulary that the parent answers, so code holds no pixels.
    """

    name = "look"

    def trials(self, components: Components, context: RunContext) -> Trials:
        """Yield one trial without a program; the trace's ``turns`` holds its turns.

        Raises:
            UsageError: the language model takes no pictures, or the API is for line programs.
            CancelledError: ``context.cancel`` was set.
        """
        context.check_cancelled()
        llm, opening, announcement = _look_opening(components, context)
        own = context.settings.of(LookSettings)

        def prompts(environment: Environment) -> PromptAfter:
            environment.tools.max_shown = own.max_pictures
            environment.tools.max_shown_pixels = own.picture_pixels

            def prompt(steps: Sequence[Step], is_last: bool) -> Prompt:
                last, keep = announcement if is_last else "", own.keep_pictures
                return exploring.conversation_after(opening, steps, last=last, keep=keep)

            return prompt

        return run_agent(components, context, llm, prompts, is_conversation=True)

    def prompt(self, components: Components, context: RunContext) -> str:
        """Return the prompt of the first request.

        Raises:
            UsageError: as :meth:`trials`.
        """
        return as_text(_look_opening(components, context)[1])


def _look_opening(components: Components, context: RunContext) -> tuple[LLM, Conversation, str]:
    """Return the model that looks, the messages before its first reply, and the text before its
    last one.

    Raises:
        UsageError: it takes no pictures, or the API is for line programs.
    """
    llm, style = actor_of("look", "looker", "look", "a model that sees", components, context)
    if not query_prompts.sees_pictures("looker", components):
        raise UsageError(
            f"strategy look needs a model that sees, and {llm.model_id} takes no pictures; give "
            "the profile a table [looker] with a vision-language model"
        )
    query, turns = context.query, context.settings.of(ExploreSettings).max_turns
    pictures, caption = query_prompts.pictures_and_caption(context.media)
    if style == "compact":
        return llm, exploring.compact_look_opening(query.text, query.options, pictures, turns), ""
    own, api = context.settings.of(LookSettings), context.settings.api
    library = components.library
    names = api if "look" in library.api_set(api).parts else f"{api}+look"
    entries, listing = query_prompts.names_for(components, query, context.settings, names)
    opening = exploring.chat_look_opening(
        query, entries, (*pictures, caption), listing,
        turns=turns, pictures=own.max_pictures, keep=own.keep_pictures,
    )  # fmt: skip
    return llm, opening, exploring.LAST
