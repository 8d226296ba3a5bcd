"""Strategy ``explore``: acts turn by turn and sees the result of each turn before the next.

Source: DWIM (2025), supplement, sec. 6.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import closing

from viper.api.sets import ApiEntry
from viper.errors import UsageError
from viper.models.llm.messages import Prompt, as_text
from viper.models.llm.protocol import LLM
from viper.prompting.exploring import Step, explore_prompt
from viper.schema import Failure, Trial, Usage
from viper.strategies.base import Components, Conclusion, RunContext
from viper.strategies.explore import ExploreSettings
from viper.strategies.explore.agent import Agent, NoVerifier, Verifier
from viper.strategies.explore.environment import Environment
from viper.strategies.prompts import is_lines, query_for_prompt, shown_to


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
        started, before = time.perf_counter(), context.usage.snapshot()
        limits = context.settings.of(ExploreSettings)
        entries, query = _entries(components, context), context.query
        with closing(Environment(components, context)) as environment:
            captions = environment.captions()

            def prompt(steps: Sequence[Step], is_last: bool) -> Prompt:
                text = explore_prompt(
                    query, entries, captions, steps, style=style, is_last=is_last,
                    hint=self._hint, facts=components.facts,
                )  # fmt: skip
                return shown_to("explorer", text, components, context)

            agent = Agent(
                context,
                environment,
                llm,
                prompt,
                limits.max_turns,
                limits.max_seconds,
                in_words=style != "compact",
                is_conversation=style == "chat",
                verifier=self._verifier,
            )
            yield run_agent(agent, started, before)
        return Conclusion(parts={"turns": agent.turns})

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
    if is_lines(components, context):
        raise UsageError(
            f"strategy explore writes Python, and the API {context.settings.api!r} is of line "
            "programs; take another one: --api abstract"
        )
    return components.model_or_writer(
        "explorer", context.settings, "strategy explore needs an agent", "--strategy program"
    )


def _entries(components: Components, context: RunContext) -> tuple[ApiEntry, ...]:
    task = query_for_prompt(context.query).task
    return components.library.api_set(context.settings.api).entries(task)


def run_agent(agent: Agent, started: float, before: Usage) -> Trial:
    """Run an agent to its end.

    Args:
        started: time on the performance counter when the run began.
        before: usage at that time.
    """
    context, environment = agent.context, agent.environment
    value = agent.explore()
    answer = value if isinstance(value, Failure) else environment.read(value)
    context.usage.model_calls += environment.tools.model_calls
    failure = answer if isinstance(answer, Failure) else None
    return Trial(
        index=0,
        program="",
        correction="first",
        ok=failure is None,
        failure=failure,
        thresholds=dict(environment.tools.thresholds),
        tool_calls=tuple(environment.tools.calls),
        stdout="",
        seconds=round(time.perf_counter() - started, 4),
        seed=context.settings.seed,
        temperature=context.settings.temperature,
        prompt=agent.first_prompt or None,
        writing=_writing_usage(context, before),
        writing_seconds=round(agent.writing_seconds, 4),
        answer=None if isinstance(answer, Failure) else answer,
        value=None if failure else value,
    )


def _writing_usage(context: RunContext, before: Usage) -> Usage:
    spent = context.usage.since(before)
    return Usage(spent.llm_calls, spent.prompt_tokens, spent.completion_tokens, 0, spent.cost_usd)
