"""Strategy ``explore``: acts turn by turn, and sees what each turn gave before the next.

Source: DWIM (2025), supplement, sec. 6.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

from viper.api.sets import ApiEntry
from viper.errors import UsageError
from viper.models.llm.protocol import LLM
from viper.prompting.exploring import explore_prompt
from viper.schema import Failure, Trial, Usage
from viper.strategies.base import Components, RunContext
from viper.strategies.explore.agent import Agent, Checker, NoChecker
from viper.strategies.explore.environment import Environment
from viper.strategies.prompts import asked_as, is_lines
from viper.strategies.writing import check_cancelled


class ExploreStrategy:
    """Code, thoughts, done: in the order that the agent finds right.

    Args:
        checker: doubts results; nobody does by default.
        hint: the answer, where it is given away.
    """

    name = "explore"

    def __init__(self, checker: Checker | None = None, hint: str = "") -> None:
        self._checker, self._hint = checker or NoChecker(), hint

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
        """One trial without a program; its turns stand in the trace's ``turns``.

        Raises:
            UsageError: a language model that was never taught to act, or an API of line programs.
            CancelledError: ``context.cancel`` was set.
        """
        check_cancelled(context)
        llm, style = explorer_of(components, context)
        started, before = time.perf_counter(), context.usage.snapshot()
        with closing(Environment(components, context)) as environment:
            agent = Agent(
                context,
                environment,
                llm,
                style,
                _entries(components, context),
                checker=self._checker,
                hint=self._hint,
            )
            context.parts["turns"] = agent.turns
            value = agent.explore()
            answer = value if isinstance(value, Failure) else environment.read(value)
        context.usage.model_calls += environment.tools.model_calls
        failure = answer if isinstance(answer, Failure) else None
        if failure is None:
            context.final_value = (answer, value)
        yield Trial(
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
            writing=_written(context, before),
            writing_seconds=round(agent.writing_seconds, 4),
        )

    def prompt(self, components: Components, context: RunContext) -> str:
        """The first request's prompt; no model is asked for the caption.

        Raises:
            UsageError: as :meth:`trials`.
        """
        _, style = explorer_of(components, context)
        entries = _entries(components, context)
        return explore_prompt(context.query, entries, ["(the caption)"], (), style=style)


def explorer_of(components: Components, context: RunContext) -> tuple[LLM, str]:
    """Who acts, and the style of the prompts.

    Raises:
        UsageError: a compact writer, which knows programs only, and no explorer; or line programs.
    """
    if is_lines(components, context):
        raise UsageError(
            f"strategy explore writes Python, and the API {context.settings.api!r} is of line "
            "programs; take another one: --api abstract"
        )
    return components.model_or_writer(
        "explorer",
        context.settings,
        "strategy explore needs somebody to act",
        "--strategy program",
    )


def _entries(components: Components, context: RunContext) -> tuple[ApiEntry, ...]:
    task = asked_as(context.query).task
    return components.library.api_set(context.settings.api).entries(task)


def _written(context: RunContext, before: Usage) -> Usage:
    spent = context.usage.since(before)
    return Usage(spent.llm_calls, spent.prompt_tokens, spent.completion_tokens, 0, spent.cost_usd)
