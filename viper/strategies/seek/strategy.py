"""Strategy ``seek``: runs a search or a fixed sequence, with the model that plans and judges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from viper.errors import UsageError
from viper.models.llm.messages import as_text
from viper.models.llm.protocol import LLM
from viper.prompting import seeking as prompts
from viper.prompting.seeking import Split
from viper.schema import Failure, Query
from viper.strategies.base import Components, Conclusion, RunContext, StoppedError, Trials
from viper.strategies.end_to_end import one_trial
from viper.strategies.prompts import shown_to
from viper.strategies.seek import SeekSettings
from viper.strategies.seek.actions import SeekTools, WorkingMemory, is_possible, nearest
from viper.strategies.seek.decisions import decisions_of
from viper.strategies.seek.graph import FixedSequence, TransitionGraph, load_route
from viper.strategies.seek.seeker import Seeker, reply_of, worked_examples
from viper.tools.session import ToolSession, media_arguments


@dataclass
class FixedSeeker(Seeker):
    """Performs a fixed sequence of actions once, without planning or going back.

    Splitting, verdicts and limits are those of :class:`Seeker`. If no verdict is the answer at the
    end, the language model reasons over all findings and answers the whole question.

    Source: AVIS (Hu et al. 2023), sec. 4, the few-shot baselines without dynamic decisions.
    """

    sequence: FixedSequence = field(kw_only=True)

    def seek(self, question: str) -> tuple[Any, Any] | Failure:
        """Return the answer and its info as :meth:`Seeker.seek` does."""
        self._question = question
        split = self._split(question) if self.sequence.splits else Split(question)
        memory = WorkingMemory(split.visual)
        if self.sequence.nearest and (name := nearest(split.visual, self.tools)):
            if split.is_visual:
                return name, self._info("")
            memory.now.settle(split, name)
        for action in self.sequence.actions[: self.own.max_steps]:
            if is_possible(action, memory.now):
                outcome = self._step(memory, (action,), split)
                if outcome is not None:
                    return outcome
        facts, examples = memory.now.context, self._worked("sequence")
        prompt = prompts.short_answer_prompt(question, facts, self.style, "sequence", examples)
        if answer := prompts.read_short_answer(self._request(prompt), self.style):
            return answer, self._info("")
        return self._no_answer("the sequence is at its end", memory.now)


def make_asker(
    seeker_llm: LLM, style: str, context: RunContext
) -> Callable[[str, tuple[str, ...]], str]:
    """Return a function that answers short questions (``llm_qa``); "" if the budget is used up."""

    def ask(question: str, facts: tuple[str, ...]) -> str:
        prompt = prompts.short_answer_prompt(question, facts, style)
        try:
            reply = reply_of(context, seeker_llm, style, prompt)
        except StoppedError:  # the search ends at its next request
            return ""
        return prompts.read_short_answer(reply, style)

    return ask


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
        has_examples = context.settings.examples and style != "compact"
        decisions = decisions_of(own.decisions if has_examples else "")
        path: list[dict[str, Any]] = []
        shown: dict[str, None] = {}

        def answer(session: ToolSession, query: Query) -> Any | Failure:
            asker = make_asker(llm, style, context)
            tools = seek_tools(session, asker, style != "compact", own.region_facts)
            parts = (tools, llm, style, decisions, path)
            if isinstance(route, TransitionGraph):
                show = partial(shown_to, "seeker", components=components, context=context)
                return Seeker(context, route, *parts, examples_shown=shown, show=show).seek(
                    query.text
                )
            shipped = TransitionGraph(route.name, {})  # gives the actions their instructions
            fixed = FixedSeeker(context, shipped, *parts, examples_shown=shown, sequence=route)
            return fixed.seek(query.text)

        yield one_trial(components, context, answer)
        return Conclusion(examples_shown=tuple(shown), parts={"path": path})

    def prompt(self, components: Components, context: RunContext) -> str:
        """Return the prompt of the first request, which asks for the two sub-questions.

        Raises:
            UsageError: as :meth:`trials`.
        """
        style, question = seeker_of(components, context)[1], context.query.text
        examples = worked_examples("split", context, style)
        return as_text(prompts.split_prompt(question, style, examples))


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
    session: ToolSession,
    ask: Callable[[str, tuple[str, ...]], str],
    scored: bool = False,
    region_facts: bool = False,
) -> SeekTools:
    """Return the input of actions on the run's first picture; see :class:`SeekTools`."""
    return SeekTools(session, media_arguments(session.media)["image"], ask, scored, region_facts)
