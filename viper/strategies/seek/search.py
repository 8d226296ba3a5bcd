"""The search itself: plan a step, take it, judge what it found, go on or back.

Source: AVIS (Hu et al. 2023), algorithms 1 and 2. Differs: a verdict must be made of words that
were found (:func:`is_grounded`), else it counts as none; an answer to the visual sub-question leads
on to the one about knowledge, and is settled then; where nothing is left to try at a state, the
search goes back to the one before and does not come the same way again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from viper.errors import CancelledError, ViperError
from viper.models.llm.protocol import LLM, Sampling
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
)
from viper.schema import Failure
from viper.strategies.base import RunContext
from viper.strategies.seek.actions import (
    Observation,
    Scene,
    carry_out,
    excluded,
    is_possible,
    settled,
)
from viper.strategies.seek.decisions import DecisionSource
from viper.strategies.seek.graph import FixedSequence, TransitionGraph
from viper.strategies.seek.memory import MemoryState, WorkingMemory
from viper.strategies.seek.names import ACTIONS
from viper.strategies.seek.settings import SeekSettings
from viper.strategies.writing import drawn

UNANSWERABLE = "unanswerable"
"""The answer where nothing that can be found answers the question."""

MAX_TOKENS = 200
"""Of a reply of planner or reasoner."""

_FOUND_IN_TRACE = 20
_LINE_IN_TRACE = 400

_TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")
_FREE = frozenset(
    ("a", "an", "and", "in", "is", "it", "of", "on", "or", "the", "was", "were", "yes", "no")
)
"""Words that a verdict may add."""


@dataclass
class Seeker:
    """One question being looked into.

    Attributes:
        path: what happened so far, step by step; JSON values.
    """

    context: RunContext
    graph: TransitionGraph
    scene: Scene
    llm: LLM
    style: str
    decisions: DecisionSource
    path: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    def seek(self, question: str) -> tuple[Any, Any] | Failure:
        """The answer with what stands behind it; a failure where a bound or a tool ended it."""
        split = self._split(question)
        if split is None:
            return self._ended()
        memory = WorkingMemory(split.visual)
        max_steps = self.context.settings.of(SeekSettings).max_steps
        for _ in range(max_steps):
            allowed = self._allowed(memory)
            if not allowed:
                return self._nothing("every way was tried")
            outcome = self._step(memory, allowed, split)
            if outcome is not None:
                return outcome
        return self._nothing(f"max_steps {max_steps} reached")

    def _allowed(self, memory: WorkingMemory) -> tuple[str, ...]:
        """What may be done now, after going back as far as must be; nothing: the end."""
        while True:
            now = memory.now
            allowed = self.graph.allowed(now.state, excluded(now))
            possible = tuple(one for one in allowed if is_possible(one, now))
            if possible:
                return possible
            left = now.state
            if not memory.pop():
                return ()
            self.path.append({"back": left, "state": memory.now.state})

    def _step(
        self, memory: WorkingMemory, allowed: Sequence[str], split: Split
    ) -> tuple[Any, Any] | Failure | None:
        """One decision with its outcome; None where the search goes on."""
        if self.context.cancel.is_set():
            raise CancelledError("the run was cancelled")
        now = memory.now
        decision, planned = self._decided(now, allowed)
        if decision is None:
            return self._ended()
        words = settled(decision.action, decision.words, now)
        decision = replace(decision, words=words)
        step: dict[str, Any] = {
            "step": sum("step" in one for one in self.path),
            "state": now.state,
            "query": now.query,
            "allowed": list(allowed),
            "excluded": [list(one) for one in now.excluded],
            "action": decision.action,
            "words": words,
            "planned": planned,
        }
        self.path.append(step)
        seen = self._observed(decision, now, step)
        verdict = self._judged(now, decision, seen, step)
        if verdict is None:
            return self._ended()
        step |= {
            "verdict": verdict.kind,
            "extracted": verdict.extracted,
            "reason": verdict.reason,
        }
        return self._moved(memory, decision, seen, verdict, split)

    def _moved(
        self,
        memory: WorkingMemory,
        decision: Decision,
        seen: Observation,
        verdict: ResultVerdict,
        split: Split,
    ) -> tuple[Any, Any] | None:
        now = memory.now
        key = (decision.action, decision.words if decision.action == "select" else "")
        if verdict.kind == "uninformative":
            now.excluded[key] = None
            return None
        if verdict.kind == "answer" and (not now.is_visual or split.is_visual):
            return verdict.extracted, self._info("")
        told = seen.lines if seen.is_plain else (verdict.extracted,)
        new = MemoryState(
            state=decision.action,
            query=now.query,
            is_visual=now.is_visual,
            context=(*now.context, *told),
            focus=now.focus if seen.focus is None else seen.focus,
            objects=now.objects if seen.objects is None else seen.objects,
            led_here=key,
        )
        if verdict.kind == "answer":
            new.query, new.is_visual = split.about(verdict.extracted), False
            new.is_settled = True
            # What was listed on the way to the thing's name says no more once it has one.
            new.context = (f"{split.visual.rstrip(' ?')}: {verdict.extracted}",)
        memory.push(new)
        return None

    def _split(self, question: str) -> Split | None:
        reply = self._asked(split_prompt(question, self.style))
        if reply is None:
            return None
        split = read_split(reply, question, self.style)
        self.path.append(
            {
                "question": question,
                "visual": split.visual if split else question,
                "knowledge": split.knowledge if split else "",
            }
        )
        return split or Split(question)

    def _decided(self, now: MemoryState, allowed: Sequence[str]) -> tuple[Decision | None, bool]:
        """The planner's decision, and whether it was readable; None where it may not be asked.

        Where one action is left, or none can be read from the reply, the first one is taken.
        """
        if len(allowed) == 1 and not ACTIONS[allowed[0]].takes:
            return Decision(allowed[0]), True
        choices = [
            ActionChoice(one, self.graph.instruction(one), ACTIONS[one].takes) for one in allowed
        ]
        examples = self.decisions.examples(now.query, now.context, allowed)
        reply = self._asked(plan_prompt(now.query, now.context, choices, examples, self.style))
        if reply is None:
            return None, False
        decision = read_decision(reply, allowed, self.style)
        return (Decision(allowed[0]), False) if decision is None else (decision, True)

    def _observed(self, decision: Decision, now: MemoryState, step: dict[str, Any]) -> Observation:
        first = len(self.scene.session.calls)
        try:
            seen = carry_out(decision.action, decision.words, now, self.scene)
        except CancelledError:
            raise
        except ViperError as error:
            self.failures[decision.action] = str(error)
            step["failure"] = str(error)
            seen = Observation(())
        step["found"] = [one[:_LINE_IN_TRACE] for one in seen.lines[:_FOUND_IN_TRACE]]
        step["calls"] = [call.index for call in self.scene.session.calls[first:]]
        return seen

    def _judged(
        self, now: MemoryState, decision: Decision, seen: Observation, step: dict[str, Any]
    ) -> ResultVerdict | None:
        """What the reasoner says of it; None where it may not be asked any more."""
        if not seen.lines:
            why = "the tool failed" if "failure" in step else "nothing was found"
            return ResultVerdict("uninformative", "", why)
        if seen.is_plain:
            return ResultVerdict("informative", seen.lines[0] if len(seen.lines) == 1 else "")
        together, verdict = AT_ONCE[self.style], ResultVerdict("uninformative")
        parts = [one for line in seen.lines[:MAX_FOUND] for one in parts_of(line, self.style)]
        for first in range(0, len(parts), together):
            lines = parts[first : first + together]
            found = self._judged_lines(now, decision, lines)
            if found is None or found.kind != "uninformative":
                return found
            verdict = found if found.reason else verdict
        return verdict

    def _judged_lines(
        self, now: MemoryState, decision: Decision, lines: Sequence[str]
    ) -> ResultVerdict | None:
        prompt = judge_prompt(now.query, now.context, decision, lines, self.style)
        reply = self._asked(prompt)
        if reply is None:
            return None
        verdict = read_verdict(reply, self.style)
        if verdict is None:
            return ResultVerdict("uninformative", "", "no verdict could be read from the reply")
        if not is_grounded(verdict.extracted, (*lines, *now.context, now.query)):
            return ResultVerdict(
                "uninformative", "", f"not in what was found: {verdict.extracted[:80]}"
            )
        return verdict

    def _asked(self, prompt: str) -> str | None:
        """What the language model writes, greedily; None where the budget is used up."""
        sampling = Sampling(
            temperature=0.0,
            seed=self.context.settings.seed,
            max_tokens=MAX_TOKENS,
            stop=STOP[self.style],
        )
        return drawn(self.llm, self.context, prompt, sampling)

    def _nothing(self, why: str) -> tuple[Any, Any] | Failure:
        """The end without an answer: a failure where some tool could not be asked."""
        if self.failures:
            named = "; ".join(f"{action}: {what}" for action, what in self.failures.items())
            return Failure("tool", f"no answer was found ({why}), and tools failed: {named}")
        return UNANSWERABLE, self._info(why)

    def _ended(self) -> Failure:
        return self.context.over_budget() or Failure(
            "budget", "the language model may not be asked any more"
        )

    def _info(self, why: str) -> dict[str, Any]:
        steps = [one for one in self.path if "action" in one]
        info: dict[str, Any] = {"steps": len(steps)}
        info |= {"why": why} if why else {}
        return info | ({"failures": dict(self.failures)} if self.failures else {})


@dataclass
class FixedSeeker(Seeker):
    """Walks a fixed sequence of actions once; nothing is planned, and nothing is gone back on.

    Splitting, verdicts and bounds are those of :class:`Seeker`. Where no verdict is the answer at
    the end, the language model is asked the whole question with all that was found.
    """

    sequence: FixedSequence = field(kw_only=True)

    def seek(self, question: str) -> tuple[Any, Any] | Failure:
        """As :meth:`Seeker.seek`."""
        split = self._split(question) if self.sequence.splits else Split(question)
        if split is None:
            return self._ended()
        memory = WorkingMemory(split.visual)
        for action in self.sequence.actions[: self.context.settings.of(SeekSettings).max_steps]:
            if is_possible(action, memory.now):
                outcome = self._step(memory, (action,), split)
                if outcome is not None:
                    return outcome
        answer = self.scene.ask(question, memory.now.context)
        if over := self.context.over_budget():
            return over
        return (answer, self._info("")) if answer else self._nothing("the sequence is at its end")


def asker(
    seeker_llm: LLM, style: str, context: RunContext
) -> Callable[[str, tuple[str, ...]], str]:
    """Answers short questions for the action ``llm_qa``; "" where the budget is used up."""

    def ask(question: str, known: tuple[str, ...]) -> str:
        prompt = short_answer_prompt(question, known, style)
        sampling = Sampling(max_tokens=MAX_TOKENS, stop=STOP[style], seed=context.settings.seed)
        reply = drawn(seeker_llm, context, prompt, sampling)
        said = read_short_answer(reply or "")
        return "" if said.strip(" .").lower() in ("unknown", "") else said

    return ask


def is_grounded(extracted: str, sources: Sequence[str]) -> bool:
    """Whether every word and number of a text stands in one of the sources; small words apart."""
    there = {one for text in sources for one in _tokens(text)}
    return all(one in there or one in _FREE for one in _tokens(extracted))


def _tokens(text: str) -> list[str]:
    return [_plain(one) for one in _TOKEN.findall(text.lower().replace(",", ""))]


def _plain(token: str) -> str:
    return token.removesuffix("s") if len(token) > 3 else token
