"""Strategy ``seek``: searches step by step for knowledge that the picture does not show.

:meth:`Seeker.seek` splits the question and repeats :meth:`Seeker._step`: :meth:`Seeker._decide`
asks the planner, :meth:`Seeker._observe` uses the tools, and :meth:`Seeker._judge` asks for a
verdict. :class:`FixedSeeker` has no planner. :class:`SeekStrategy` runs one of the two.

Source: AVIS (Hu et al. 2023), algorithms 1 and 2. Differs: a verdict must consist of words that
were found (:func:`is_grounded`), otherwise it does not count; an answer to the visual sub-question
leads on to the one about knowledge and is then settled; if nothing is left to try at a state, the
search goes back to the previous state and does not take the same way again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from viper.errors import CancelledError, UsageError, ViperError
from viper.models.llm.messages import Message, Prompt, as_text, assistant, messages_of, user
from viper.models.llm.protocol import LLM, Sampling
from viper.models.llm.replies import without_reasoning
from viper.prompting import seeking as prompts
from viper.prompting.seeking import Decision, ResultVerdict, Split
from viper.schema import Failure, Query
from viper.strategies.base import Components, Conclusion, RunContext, StoppedError, Trials
from viper.strategies.end_to_end import one_trial
from viper.strategies.prompts import shown_to
from viper.strategies.seek import SeekSettings
from viper.strategies.seek.actions import (
    MemoryState,
    Observation,
    SeekTools,
    WorkingMemory,
    exhausted_actions,
    is_possible,
    nearest,
    perform,
    resolve_words,
)
from viper.strategies.seek.decisions import RecordedDecisions, decisions_of
from viper.strategies.seek.graph import ACTIONS, FixedSequence, TransitionGraph, load_route
from viper.tools.session import ToolSession, media_arguments

# The answer if no finding answers the question.
UNANSWERABLE = "unanswerable"

# Greatest length of a reply in tokens: a decision or a verdict is one line, a sub-question a
# sentence; a model that thinks first still has room for a paragraph.
MAX_TOKENS = 200

# Number of times that a planner is asked for one decision: the second request quotes the format,
# and whoever misses it twice is not asked more. The first allowed action is then taken.
MAX_PLAN_REPLIES = 2

ASK_AGAIN = (
    "No action could be read from this reply. Reply with one line, as in `Next: text_search: words`"
)

# Limits of what a trace keeps of a step's findings, which may be whole pages of a search.
_FOUND_IN_TRACE = 20
_LINE_IN_TRACE = 400

# Numbers with their decimals, and words without digits, so that ``3`` is not found in ``30``.
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")
# Words that a verdict may add: they state no fact. Any other word must have been found, so an
# injected instruction cannot add one.
_FREE = frozenset(
    ("a", "an", "and", "in", "is", "it", "of", "on", "or", "the", "was", "were", "yes", "no")
)


@dataclass
class Seeker:
    """The search for the answer to one question.

    Attributes:
        path: the steps so far, as JSON values.
        show: adds the picture to a prompt if the model sees.
    """

    context: RunContext
    graph: TransitionGraph
    tools: SeekTools
    llm: LLM
    style: str
    decisions: RecordedDecisions
    path: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    show: Callable[[Prompt], Prompt] = lambda prompt: prompt
    _question: str = ""
    _planning: list[Message] = field(default_factory=list)
    _planned_until: int = 0
    _readable: list[bool] = field(default_factory=list)

    def seek(self, question: str) -> tuple[Any, Any] | Failure:
        """Return the answer and its info, or a failure if tools or replies ended the search.

        Raises:
            StoppedError: the budget is used up.
        """
        self._question = question
        split = self._split(question)
        memory = WorkingMemory(split.visual)
        max_steps = self.context.settings.of(SeekSettings).max_steps
        for _ in range(max_steps):
            allowed = self._allowed(memory)
            if not allowed:
                return self._no_answer("every way was tried")
            outcome = self._step(memory, allowed, split)
            if outcome is not None:
                return outcome
        return self._no_answer(f"max_steps {max_steps} reached")

    def _allowed(self, memory: WorkingMemory) -> tuple[str, ...]:
        """Return the actions allowed now, going back as far as necessary; empty at the end."""
        while not (allowed := self.graph.allowed(memory.now.state, exhausted_actions(memory.now))):
            left = memory.now.state
            if not memory.pop():
                break
            self.path.append({"back": left, "state": memory.now.state})
        return allowed

    def _step(
        self, memory: WorkingMemory, allowed: Sequence[str], split: Split
    ) -> tuple[Any, Any] | None:
        """Decide, perform and judge one action, and move on, exclude it, or end.

        Return the outcome, or None if the search goes on.
        """
        self.context.check_cancelled()
        now = memory.now
        decision, is_planned = self._decide(now, allowed)
        action, words = decision.action, resolve_words(decision.action, decision.words, now)
        decision = Decision(action, words)
        step: dict[str, Any] = {
            "step": sum("step" in entry for entry in self.path),
            "state": now.state,
            "query": now.query,
            "allowed": list(allowed),
            "excluded": [list(key) for key in now.excluded],
            "action": action,
            "words": words,
            "planned": is_planned,
        }
        self.path.append(step)
        wording = " ".join(words.lower().split())
        takes_words = bool(ACTIONS[action].takes)
        search = (action, (wording if takes_words else "") or now.query, str(now.focus), now.query)
        # A search that the search went back from may be made again. Small planners may repeat any.
        if self.style != "compact" and action != "select" and search in now.searches:
            verdict = ResultVerdict("uninformative", "", "this very search was made before")
            observation = Observation(())
            step |= {"found": [], "calls": []}
            # Every repetition counts as a wording, so it cannot use up all steps.
            now.excluded[action, f"again {len(now.excluded)}"] = None
        else:
            now.searches.add(search)
            observation = self._observe(decision, now, step)
            verdict = self._judge(now, decision, observation, step)
        step |= {"verdict": verdict.kind, "extracted": verdict.extracted, "reason": verdict.reason}
        is_worded = action == "select" or (self.style != "compact" and takes_words)
        key = (action, wording if is_worded else "")
        if verdict.kind == "uninformative":
            now.excluded[key] = None
            return None
        if verdict.kind == "answer" and (not now.is_visual or split.is_visual):
            return verdict.extracted, self._info("")
        facts = observation.lines if observation.is_plain else (verdict.extracted,)
        new = MemoryState(
            state=action,
            query=now.query,
            is_visual=now.is_visual,
            context=(*now.context, *facts),
            focus=now.focus if observation.focus is None else observation.focus,
            objects=now.objects if observation.objects is None else observation.objects,
            led_here=key,
            searches=set(now.searches),
        )
        if verdict.kind == "answer":
            new.settle(split, verdict.extracted)
        memory.push(new)
        return None

    def _split(self, question: str) -> Split:
        reply = self._request(prompts.split_prompt(question, self.style))
        split = prompts.read_split(reply, self.style) or Split(question)
        self.path.append(
            {"question": question, "visual": split.visual, "knowledge": split.knowledge}
        )
        return split

    def _decide(self, now: MemoryState, allowed: Sequence[str]) -> tuple[Decision, bool]:
        """Return the planner's decision and whether it was readable.

        If only one action is left, or none can be read from the reply, the first action is used.
        """
        if len(allowed) == 1 and not ACTIONS[allowed[0]].takes:
            return Decision(allowed[0]), True
        choices = [
            prompts.ActionChoice(action, self.graph.instruction(action), ACTIONS[action].takes)
            for action in allowed
        ]
        examples = self.decisions.examples(now.query, now.context, allowed)
        since = self.path[self._planned_until :]
        outcomes = [
            prompts.step_outcome(each, now.context)
            for each in since
            if {"verdict", "back"} & set(each)
        ]
        sees = self.style == "chat" and self.show("") != ""
        prompt = prompts.plan_prompt(
            now.query,
            now.context,
            choices,
            examples,
            self.style,
            original=self._question,
            outcome="\n\n".join(outcomes),
            sees=sees,
        )
        self._planned_until = len(self.path)
        # Only a conversation can ask again; the same text would get the same greedy reply.
        for _ in range(1 if isinstance(prompt, str) else MAX_PLAN_REPLIES):
            if isinstance(prompt, str):
                reply = self._request(prompt)
            else:
                first = messages_of(self.show(prompt) if sees else prompt)
                self._planning += prompt[-1:] if self._planning else first
                reply = self._request(tuple(self._planning))
                self._planning.append(assistant(without_reasoning(reply)))
                prompt = (user(ASK_AGAIN),)
            decision = prompts.read_decision(reply, allowed, self.style)
            self._readable.append(decision is not None)
            if decision is not None:
                return decision, True
        return Decision(allowed[0]), False

    def _observe(self, decision: Decision, now: MemoryState, step: dict[str, Any]) -> Observation:
        first = len(self.tools.session.calls)
        try:
            observation = perform(decision.action, decision.words, now, self.tools)
        except CancelledError:
            raise
        except ViperError as error:
            self.failures[decision.action] = str(error)
            step["failure"] = str(error)
            observation = Observation(())
        lines = observation.lines[:_FOUND_IN_TRACE]
        step["found"] = [line[:_LINE_IN_TRACE] for line in lines]
        step["calls"] = [call.index for call in self.tools.session.calls[first:]]
        return observation

    def _judge(
        self, now: MemoryState, decision: Decision, observation: Observation, step: dict[str, Any]
    ) -> ResultVerdict:
        """Return the language model's verdict on an observation."""
        lines = observation.lines
        if not lines:
            reason = "the tool failed" if "failure" in step else "nothing was found"
            return ResultVerdict("uninformative", "", reason)
        if observation.is_plain:
            return ResultVerdict("informative", lines[0] if len(lines) == 1 else "")
        batch_size, last = prompts.AT_ONCE[self.style], ResultVerdict("uninformative")
        parts = [
            part
            for line in lines[: prompts.MAX_FOUND]
            for part in prompts.parts_of(line, self.style)
        ]
        for first in range(0, len(parts), batch_size):
            batch = parts[first : first + batch_size]
            prompt = prompts.judge_prompt(now.query, now.context, decision, batch, self.style)
            verdict = prompts.read_verdict(self._request(prompt), self.style)
            self._readable.append(verdict is not None)
            if verdict is None:
                reason = "no verdict could be read from the reply"
                verdict = ResultVerdict("uninformative", "", reason)
            elif not is_grounded(verdict.extracted, (*batch, *now.context, now.query)):
                reason = f"not in what was found: {verdict.extracted[:80]}"
                verdict = ResultVerdict("uninformative", "", reason)
            if verdict.kind != "uninformative":
                return verdict
            last = verdict if verdict.reason else last
        return last

    def _request(self, prompt: Prompt) -> str:
        return _reply(self.context, self.llm, self.style, prompt)

    def _no_answer(self, reason: str) -> tuple[Any, Any] | Failure:
        """End without an answer; a failure if no reply could be read, or if some tool failed."""
        if self.style != "compact" and self._readable and not any(self._readable):
            return Failure(
                "plan",
                "neither an action nor a verdict could be read from any reply of "
                f"{self.llm.model_id}; use another model, or --strategy program",
            )
        if self.failures:
            errors = "; ".join(f"{action}: {error}" for action, error in self.failures.items())
            return Failure("tool", f"no answer was found ({reason}), and tools failed: {errors}")
        return UNANSWERABLE, self._info(reason)

    def _info(self, reason: str) -> dict[str, Any]:
        info: dict[str, Any] = {"steps": sum("action" in entry for entry in self.path)}
        info |= {"why": reason} if reason else {}
        return info | ({"failures": dict(self.failures)} if self.failures else {})


@dataclass
class FixedSeeker(Seeker):
    """Performs a fixed sequence of actions once, without planning or going back.

    Splitting, verdicts and limits are those of :class:`Seeker`. If no verdict is the answer at the
    end, the language model answers the whole question from all findings.
    """

    sequence: FixedSequence = field(kw_only=True)

    def seek(self, question: str) -> tuple[Any, Any] | Failure:
        """Return the answer and its info as :meth:`Seeker.seek` does."""
        split = self._split(question) if self.sequence.splits else Split(question)
        memory = WorkingMemory(split.visual)
        if self.sequence.nearest and (name := nearest(split.visual, self.tools)):
            if split.is_visual:
                return name, self._info("")
            memory.now.settle(split, name)
        for action in self.sequence.actions[: self.context.settings.of(SeekSettings).max_steps]:
            if is_possible(action, memory.now):
                outcome = self._step(memory, (action,), split)
                if outcome is not None:
                    return outcome
        answer = self.tools.ask(question, memory.now.context)
        if over := self.context.over_budget():
            return over
        return (answer, self._info("")) if answer else self._no_answer("the sequence is at its end")


def make_asker(
    seeker_llm: LLM, style: str, context: RunContext
) -> Callable[[str, tuple[str, ...]], str]:
    """Return a function that answers short questions (``llm_qa``); "" if the budget is used up."""

    def ask(question: str, facts: tuple[str, ...]) -> str:
        prompt = prompts.short_answer_prompt(question, facts, style)
        try:
            reply = _reply(context, seeker_llm, style, prompt)
        except StoppedError:  # the search ends at its next request
            return ""
        answer = prompts.read_short_answer(reply, style)
        return "" if answer.strip(" .").lower() in ("unknown", "") else answer

    return ask


def _reply(context: RunContext, llm: LLM, style: str, prompt: Prompt) -> str:
    """Return the greedy reply of a language model; "" if the limit cut that of a chat model."""
    seed, stop = context.settings.seed, prompts.STOP[style]
    sampling = Sampling(temperature=0.0, seed=seed, max_tokens=MAX_TOKENS, stop=stop)
    reply = context.complete(llm, prompt, sampling)
    return "" if reply.finish_reason == "length" and style == "chat" else reply.text


def is_grounded(extracted: str, sources: Sequence[str]) -> bool:
    """Return whether every word and number of a text occurs in a source, except small words."""
    source_tokens = {token for text in sources for token in _tokens(text)}
    return all(token in source_tokens or token in _FREE for token in _tokens(extracted))


def _tokens(text: str) -> list[str]:
    tokens = _TOKEN.findall(text.lower().replace(",", ""))
    # `bus`, `gas` and `is` are no plurals; longer words that end in s mostly are
    return [token.removesuffix("s") if len(token) > 3 else token for token in tokens]


class SeekStrategy:
    """Splits the question, then plans, acts and judges until there is an answer."""

    name = "seek"
    searches_texts = True

    def trials(self, components: Components, context: RunContext) -> Trials:
        """Yield one trial; the trace's ``path`` holds the steps.

        Raises:
            UsageError: a task other than a question, not one picture, an unknown graph, or a
                language model that was not trained to seek.
            CancelledError: ``context.cancel`` was set.
        """
        query = context.query
        if query.task != "question" or query.media != "image":
            raise UsageError(
                f"strategy seek answers questions about one picture, got {query.task} about "
                f"{query.media}; set another --strategy or --task"
            )
        llm, style = seeker_of(components, context)
        own = context.settings.of(SeekSettings)
        route = load_route(own.graph)
        route = route.without(own.without_actions) if own.without_actions else route
        decisions = decisions_of(own.decisions)
        path: list[dict[str, Any]] = []

        def answer(session: ToolSession, query: Query) -> Any | Failure:
            tools = seek_tools(session, make_asker(llm, style, context), style != "compact")
            parts = (tools, llm, style, decisions, path)
            if isinstance(route, TransitionGraph):
                show = partial(shown_to, "seeker", components=components, context=context)
                return Seeker(context, route, *parts, show=show).seek(query.text)
            shipped = TransitionGraph(route.name, {})  # gives the actions their instructions
            return FixedSeeker(context, shipped, *parts, sequence=route).seek(query.text)

        yield one_trial(components, context, answer)
        return Conclusion(parts={"path": path})

    def prompt(self, components: Components, context: RunContext) -> str:
        """Return the prompt of the first request, which asks for the two sub-questions.

        Raises:
            UsageError: as :meth:`trials`.
        """
        return as_text(prompts.split_prompt(context.query.text, seeker_of(components, context)[1]))


def seeker_of(components: Components, context: RunContext) -> tuple[LLM, str]:
    """Return the model that plans and judges, and the style of its prompts.

    Raises:
        UsageError: the program writer is compact and knows only programs, and there is no seeker.
    """
    return components.model_or_writer(
        "seeker",
        context.settings,
        "strategy seek needs a model that plans and judges",
        "--strategy program --api abstract+more+knowledge",
    )


def seek_tools(
    session: ToolSession, ask: Callable[[str, tuple[str, ...]], str], scored: bool = False
) -> SeekTools:
    """Return the input of actions on the run's first picture; see :class:`SeekTools`."""
    return SeekTools(session, media_arguments(session.media)["image"], ask, scored)
