"""The search: plan a step, perform it, judge its findings, and go on or back.

:meth:`Seeker.seek` splits the question and repeats :meth:`Seeker._step`: :meth:`Seeker._decide`
asks the planner, :meth:`Seeker._observe` uses the tools, :meth:`Seeker._judge` asks for a verdict,
and :meth:`Seeker._advance` moves on, excludes the action, or ends. :class:`FixedSeeker` has no
planner.

Source: AVIS (Hu et al. 2023), algorithms 1 and 2. Differs: a verdict must consist of words that
were found (:func:`is_grounded`), otherwise it does not count; an answer to the visual sub-question
leads on to the one about knowledge and is then settled; if nothing is left to try at a state, the
search goes back to the previous state and does not take the same way again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from viper.errors import CancelledError, ViperError
from viper.models.llm.messages import Message, Prompt, assistant, user
from viper.models.llm.protocol import LLM, Sampling
from viper.models.llm.replies import without_reasoning
from viper.prompting.seeking import (
    AT_ONCE,
    MAX_FOUND,
    STOP,
    ActionChoice,
    Decision,
    ResultVerdict,
    Split,
    judge_prompt,
    parts_of,
    plan_prompt,
    read_decision,
    read_short_answer,
    read_split,
    read_verdict,
    short_answer_prompt,
    split_prompt,
    step_outcome,
)
from viper.schema import Failure
from viper.strategies.base import RunContext, StoppedError
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
from viper.strategies.seek.decisions import RecordedDecisions
from viper.strategies.seek.graph import ACTIONS, FixedSequence, TransitionGraph

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
    """

    context: RunContext
    graph: TransitionGraph
    tools: SeekTools
    llm: LLM
    style: str
    decisions: RecordedDecisions
    path: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
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
        while True:
            now = memory.now
            allowed = self.graph.allowed(now.state, exhausted_actions(now))
            possible = tuple(action for action in allowed if is_possible(action, now))
            if possible:
                return possible
            if not memory.pop():
                return ()
            self.path.append({"back": now.state, "state": memory.now.state})

    def _step(
        self, memory: WorkingMemory, allowed: Sequence[str], split: Split
    ) -> tuple[Any, Any] | None:
        """Decide and perform one action; return the outcome, or None if the search goes on."""
        self.context.check_cancelled()
        now = memory.now
        decision, is_planned = self._decide(now, allowed)
        words = resolve_words(decision.action, decision.words, now)
        decision = replace(decision, words=words)
        step: dict[str, Any] = {
            "step": sum("step" in entry for entry in self.path),
            "state": now.state,
            "query": now.query,
            "allowed": list(allowed),
            "excluded": [list(key) for key in now.excluded],
            "action": decision.action,
            "words": words,
            "planned": is_planned,
        }
        self.path.append(step)
        if self._is_repeated(decision, now):
            verdict = ResultVerdict("uninformative", "", "this very search was made before")
            observation = Observation(())
            step |= {"found": [], "calls": []}
            # Every repetition counts as a wording, so it cannot use up all steps.
            now.excluded[decision.action, f"again {len(now.excluded)}"] = None
        else:
            observation = self._observe(decision, now, step)
            verdict = self._judge(now, decision, observation, step)
        step |= {"verdict": verdict.kind, "extracted": verdict.extracted, "reason": verdict.reason}
        return self._advance(memory, decision, observation, verdict, split)

    def _advance(
        self,
        memory: WorkingMemory,
        decision: Decision,
        observation: Observation,
        verdict: ResultVerdict,
        split: Split,
    ) -> tuple[Any, Any] | None:
        now = memory.now
        is_worded = decision.action == "select" or (
            self.style != "compact" and bool(ACTIONS[decision.action].takes)
        )
        key = (decision.action, " ".join(decision.words.lower().split()) if is_worded else "")
        if verdict.kind == "uninformative":
            now.excluded[key] = None
            return None
        if verdict.kind == "answer" and (not now.is_visual or split.is_visual):
            return verdict.extracted, self._info("")
        facts = observation.lines if observation.is_plain else (verdict.extracted,)
        new = MemoryState(
            state=decision.action,
            query=now.query,
            is_visual=now.is_visual,
            context=(*now.context, *facts),
            focus=now.focus if observation.focus is None else observation.focus,
            objects=now.objects if observation.objects is None else observation.objects,
            led_here=key,
            searches=set(now.searches),
        )
        if verdict.kind == "answer":
            new.query, new.is_visual = split.about(verdict.extracted), False
            new.is_settled = True
            # The facts that led to the name of the object add nothing once the name is known.
            new.context = (f"{split.visual.rstrip(' ?')}: {verdict.extracted}",)
        memory.push(new)
        return None

    def _split(self, question: str) -> Split:
        split = read_split(self._request(split_prompt(question, self.style)), question, self.style)
        self.path.append(
            {
                "question": question,
                "visual": split.visual if split else question,
                "knowledge": split.knowledge if split else "",
            }
        )
        return split or Split(question)

    def _decide(self, now: MemoryState, allowed: Sequence[str]) -> tuple[Decision, bool]:
        """Return the planner's decision and whether it was readable.

        If only one action is left, or none can be read from the reply, the first action is used.
        """
        if len(allowed) == 1 and not ACTIONS[allowed[0]].takes:
            return Decision(allowed[0]), True
        choices = [
            ActionChoice(action, self.graph.instruction(action), ACTIONS[action].takes)
            for action in allowed
        ]
        examples = self.decisions.examples(now.query, now.context, allowed)
        since = self.path[self._planned_until :]
        outcomes = [step_outcome(each) for each in since if {"verdict", "back"} & set(each)]
        prompt = plan_prompt(
            now.query,
            now.context,
            choices,
            examples,
            self.style,
            original=self._question,
            outcome="\n\n".join(outcomes),
        )
        self._planned_until = len(self.path)
        # Only a conversation can ask again; the same text would get the same greedy reply.
        for _ in range(1 if isinstance(prompt, str) else MAX_PLAN_REPLIES):
            reply = self._request(self._in_turns(prompt))
            if not isinstance(prompt, str):
                self._planning.append(assistant(without_reasoning(reply)))
                prompt = (user(ASK_AGAIN),)
            decision = read_decision(reply, allowed, self.style)
            self._readable.append(decision is not None)
            if decision is not None:
                return decision, True
        return Decision(allowed[0]), False

    def _in_turns(self, prompt: Prompt) -> Prompt:
        """Return the planner's conversation with another user message; a string stays as it is."""
        if isinstance(prompt, str):
            return prompt
        self._planning += prompt if not self._planning else prompt[-1:]
        return tuple(self._planning)

    def _is_repeated(self, decision: Decision, now: MemoryState) -> bool:
        """Return whether this search was made for this question on the way here, and note it.

        A search that the search went back from may be made again. Small planners may repeat any.
        """
        if self.style == "compact" or decision.action == "select":
            return False
        words = " ".join(decision.words.lower().split()) if ACTIONS[decision.action].takes else ""
        search = (decision.action, words or now.query, str(now.focus), now.query)
        is_repeated = search in now.searches
        now.searches.add(search)
        return is_repeated

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
        batch_size, last = AT_ONCE[self.style], ResultVerdict("uninformative")
        parts = [part for line in lines[:MAX_FOUND] for part in parts_of(line, self.style)]
        for first in range(0, len(parts), batch_size):
            batch = parts[first : first + batch_size]
            verdict = self._judge_lines(now, decision, batch)
            if verdict.kind != "uninformative":
                return verdict
            last = verdict if verdict.reason else last
        return last

    def _judge_lines(
        self, now: MemoryState, decision: Decision, lines: Sequence[str]
    ) -> ResultVerdict:
        prompt = judge_prompt(now.query, now.context, decision, lines, self.style)
        verdict = read_verdict(self._request(prompt), self.style)
        self._readable.append(verdict is not None)
        if verdict is None:
            return ResultVerdict("uninformative", "", "no verdict could be read from the reply")
        if not is_grounded(verdict.extracted, (*lines, *now.context, now.query)):
            return ResultVerdict(
                "uninformative", "", f"not in what was found: {verdict.extracted[:80]}"
            )
        return verdict

    def _request(self, prompt: Prompt) -> str:
        """Return the greedy reply of the language model."""
        sampling = Sampling(
            temperature=0.0,
            seed=self.context.settings.seed,
            max_tokens=MAX_TOKENS,
            stop=STOP[self.style],
        )
        return self.context.complete(self.llm, prompt, sampling).text

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
        steps = [entry for entry in self.path if "action" in entry]
        info: dict[str, Any] = {"steps": len(steps)}
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
            now = memory.now
            now.query, now.is_visual, now.is_settled = split.about(name), False, True
            now.context = (f"{split.visual.rstrip(' ?')}: {name}",)
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
        prompt = short_answer_prompt(question, facts, style)
        sampling = Sampling(max_tokens=MAX_TOKENS, stop=STOP[style], seed=context.settings.seed)
        try:
            answer = read_short_answer(context.complete(seeker_llm, prompt, sampling).text, style)
        except StoppedError:  # the search ends at its next request
            return ""
        return "" if answer.strip(" .").lower() in ("unknown", "") else answer

    return ask


def is_grounded(extracted: str, sources: Sequence[str]) -> bool:
    """Return whether every word and number of a text occurs in a source, except small words."""
    source_tokens = {token for text in sources for token in _tokens(text)}
    return all(token in source_tokens or token in _FREE for token in _tokens(extracted))


def _tokens(text: str) -> list[str]:
    return [_singular(token) for token in _TOKEN.findall(text.lower().replace(",", ""))]


def _singular(token: str) -> str:
    # `bus`, `gas` and `is` are no plurals; longer words that end in s mostly are
    return token.removesuffix("s") if len(token) > 3 else token
