"""The search of strategy ``seek``: looks step by step for knowledge that the picture does not show.

:meth:`Seeker.seek` splits the question and repeats :meth:`Seeker._step`: :meth:`Seeker._decide`
asks the planner, :meth:`Seeker._observe` uses the tools, and :meth:`Seeker._judge` asks for a
verdict.

Source: AVIS (Hu et al. 2023), algorithms 1 and 2, appendix E. Differs: a verdict must consist of
words that were found (``grounding``), otherwise it does not count; an answer to the visual
sub-question leads on to the one about knowledge and is then settled; if nothing is left to try at a
state, the search goes back to the previous state and does not take the same way again; the shipped
graph follows the paper's prose (sec. 3.3, appendix C), because figure 2 is a drawing; a planner of
chat models goes on in one conversation, where the paper sends each prompt alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from viper.errors import CancelledError, ViperError
from viper.models.llm.messages import Message, Prompt, assistant, messages_of, user
from viper.models.llm.protocol import LLM, Sampling
from viper.models.llm.replies import without_reasoning
from viper.prompting import seeking as prompts
from viper.prompting.seeking import Decision, DecisionExample, ResultVerdict, Split
from viper.schema import Failure
from viper.strategies.base import RunContext
from viper.strategies.seek import SeekSettings
from viper.strategies.seek.actions import (
    MemoryState,
    Observation,
    SeekTools,
    WorkingMemory,
    described,
    exhausted_actions,
    perform,
    resolve_words,
)
from viper.strategies.seek.decisions import RecordedDecisions
from viper.strategies.seek.graph import ACTIONS, TransitionGraph
from viper.strategies.seek.grounding import is_grounded

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


@dataclass
class Seeker:
    """The search for the answer to one question.

    Attributes:
        path: the steps so far, as JSON values.
        examples_shown: names of the worked examples and decisions in the prompts so far.
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
    examples_shown: dict[str, None] = field(default_factory=dict)
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
        memory = WorkingMemory(split.visual, self._first_facts())
        max_steps = self.own.max_steps
        for _ in range(max_steps):
            allowed = self._allowed(memory)
            if not allowed:
                return self._no_answer("every way was tried", memory.now)
            outcome = self._step(memory, allowed, split)
            if outcome is not None:
                return outcome
        return self._no_answer(f"max_steps {max_steps} reached", memory.now)

    @property
    def own(self) -> SeekSettings:
        """Return the settings of the strategy."""
        return self.context.settings.of(SeekSettings)

    def _first_facts(self) -> list[str]:
        """Return what the search knows before its first action; nothing without ``region_facts``.

        Source: listing 7, whose first context is the data of the whole picture.
        """
        if not self.tools.region_facts:
            return []
        first = len(self.tools.session.calls)
        try:
            caption, *facts = described(self.tools.picture, self.tools)
        except CancelledError:
            raise
        except ViperError as error:
            self.failures["caption"] = str(error)
            return []
        facts = [f"the whole picture: {caption}", *facts]
        calls = [call.index for call in self.tools.session.calls[first:]]
        self.path.append({"picture": facts, "calls": calls})
        return facts

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
        prompt = prompts.split_prompt(question, self.style, self._worked("split"))
        reply = self._request(prompt)
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
        fitting = self.decisions.examples(now.query, now.context, allowed)
        # A conversation still holds those of its earlier turns.
        earlier = self.examples_shown if self.style == "chat" else {}
        examples = [each for each in fitting if _name(each) not in earlier]
        self.examples_shown |= dict.fromkeys(map(_name, examples))
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
        examples: prompts.Examples = ""
        if ACTIONS[decision.action].group == "search":  # only these return long lists
            examples = self._worked("visual" if now.is_visual else "knowledge")
        parts = [
            part
            for line in lines[: prompts.MAX_FOUND]
            for part in prompts.parts_of(line, self.style)
        ]
        for first in range(0, len(parts), batch_size):
            batch = parts[first : first + batch_size]
            prompt = prompts.judge_prompt(
                now.query, now.context, decision, batch, self.style, examples
            )
            verdict = prompts.read_verdict(self._request(prompt), self.style)
            self._readable.append(verdict is not None)
            if verdict is None:
                reason = "no verdict could be read from the reply"
                verdict = ResultVerdict("uninformative", "", reason)
            elif not is_grounded(
                verdict.extracted, (*batch, *now.context, now.query), self.own.grounding
            ):
                reason = f"not in what was found: {verdict.extracted[:80]}"
                verdict = ResultVerdict("uninformative", "", reason)
            if verdict.kind != "uninformative":
                return verdict
            last = verdict if verdict.reason else last
        return last

    def _worked(self, name: prompts.Examples) -> prompts.Examples:
        shown = worked_examples(name, self.context, self.style)
        self.examples_shown |= {f"{shown} by hand": None} if shown else {}
        return shown

    def _request(self, prompt: Prompt) -> str:
        return reply_of(self.context, self.llm, self.style, prompt)

    def _no_answer(self, reason: str, now: MemoryState) -> tuple[Any, Any] | Failure:
        """End without an answer; a failure if no reply could be read, or if some tool failed.

        With ``exhausted`` ``memory`` the language model first answers the question that is left
        without findings; the path holds this answer.
        """
        if self.style != "compact" and self._readable and not any(self._readable):
            return Failure(
                "plan",
                "neither an action nor a verdict could be read from any reply of "
                f"{self.llm.model_id}; use another model, or --strategy program",
            )
        if self.own.exhausted == "memory":
            question = self._question if now.is_visual else now.query
            reply = self._request(prompts.short_answer_prompt(question, (), self.style, "memory"))
            if answer := prompts.read_short_answer(reply, self.style):
                self.path.append({"memory": question, "answer": answer})
                return answer, self._info(f"{reason}; answered from memory")
        if self.failures:
            errors = "; ".join(f"{action}: {error}" for action, error in self.failures.items())
            return Failure("tool", f"no answer was found ({reason}), and tools failed: {errors}")
        return UNANSWERABLE, self._info(reason)

    def _info(self, reason: str) -> dict[str, Any]:
        info: dict[str, Any] = {"steps": sum("action" in entry for entry in self.path)}
        info |= {"why": reason} if reason else {}
        return info | ({"failures": dict(self.failures)} if self.failures else {})


def reply_of(context: RunContext, llm: LLM, style: str, prompt: Prompt) -> str:
    """Return the greedy reply of a language model; "" if the limit cut that of a chat model."""
    seed, stop = context.settings.seed, prompts.STOP[style]
    sampling = Sampling(temperature=0.0, seed=seed, max_tokens=MAX_TOKENS, stop=stop)
    reply = context.complete(llm, prompt, sampling)
    return "" if reply.finish_reason == "length" and style == "chat" else reply.text


def worked_examples(name: prompts.Examples, context: RunContext, style: str) -> prompts.Examples:
    """Return the name of worked examples, or "" if a run shows none in prompts of a style."""
    settings = context.settings
    is_shown = settings.examples and settings.of(SeekSettings).worked_examples
    return name if is_shown and style != "compact" else ""


def _name(decision: DecisionExample) -> str:
    return f"decision {decision.action}: {decision.query}"
