"""Turns of thought, code and observation, in messages that hold the pictures which code shows.

The agent is that of strategy ``explore``, whose ``max_turns`` and ``max_seconds`` bound it as well.

Source: the loop of PyVision (Zhao et al. 2025) and of visual agents after it. Differs: the
operations on pixels are a closed vocabulary that the parent answers, so code holds no pixels.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import closing

from viper.errors import UsageError
from viper.models.llm.messages import Prompt, as_text
from viper.models.llm.protocol import LLM
from viper.prompting.exploring import Step
from viper.prompting.looking import Opening, chat_opening, compact_opening, look_conversation
from viper.schema import Trial
from viper.strategies.base import Components, Conclusion, RunContext
from viper.strategies.explore import ExploreSettings
from viper.strategies.explore.agent import Agent
from viper.strategies.explore.environment import Environment
from viper.strategies.explore.strategy import run_agent
from viper.strategies.look import LookSettings
from viper.strategies.prompts import is_lines, pictures_and_caption, query_for_prompt

ROLE = "looker"

API = "look"


class LookStrategy:
    """Lets a model that sees act by code and look at what the code shows, until it answers."""

    name = "look"

    def trials(
        self, components: Components, context: RunContext
    ) -> Generator[Trial, None, Conclusion]:
        """Yield one trial without a program; the trace's ``turns`` holds its turns.

        Raises:
            UsageError: the language model takes no pictures, or the API is for line programs.
            CancelledError: ``context.cancel`` was set.
        """
        context.check_cancelled()
        llm, style = looker_of(components, context)
        started, before = time.perf_counter(), context.usage.snapshot()
        limits, own = context.settings.of(ExploreSettings), context.settings.of(LookSettings)
        opening = opening_of(components, context, style)

        def prompt(steps: Sequence[Step], is_last: bool) -> Prompt:
            return look_conversation(opening, steps, keep=own.keep_pictures, is_last=is_last)

        with closing(Environment(components, context)) as environment:
            environment.tools.max_shown = own.max_pictures
            environment.tools.max_shown_pixels = own.picture_pixels
            agent = Agent(
                context,
                environment,
                llm,
                prompt,
                limits.max_turns,
                limits.max_seconds,
                is_conversation=True,
            )
            yield run_agent(agent, started, before)
        return Conclusion(parts={"turns": agent.turns})

    def prompt(self, components: Components, context: RunContext) -> str:
        """Return the prompt of the first request.

        Raises:
            UsageError: as :meth:`trials`.
        """
        style = looker_of(components, context)[1]
        return as_text(opening_of(components, context, style).messages)


def looker_of(components: Components, context: RunContext) -> tuple[LLM, str]:
    """Return the model that looks and the style of its prompts.

    Raises:
        UsageError: it takes no pictures, or the API is for line programs.
    """
    if is_lines(components, context):
        raise UsageError(
            f"strategy look writes Python, and the API {context.settings.api!r} is of line "
            "programs; take another one: --api look"
        )
    llm, style = components.model_or_writer(
        ROLE, context.settings, "strategy look needs a model that sees", "--strategy program"
    )
    role = ROLE if ROLE in components.models else "llm"
    if role not in components.sees:
        raise UsageError(
            f"strategy look needs a model that sees, and {llm.model_id} takes no pictures; give "
            f"the profile a table [{ROLE}] with a vision-language model"
        )
    return llm, style


def opening_of(components: Components, context: RunContext, style: str) -> Opening:
    """Return the messages before the first reply."""
    query, turns = context.query, context.settings.of(ExploreSettings).max_turns
    pictures, caption = pictures_and_caption(context.media)
    if style == "compact":
        return compact_opening(query.text, query.options, pictures, turns)
    own, api = context.settings.of(LookSettings), context.settings.api
    library = components.library
    names = api if API in library.api_set(api).parts else f"{api}+{API}"
    return chat_opening(
        query,
        library.api_set(names).entries(query_for_prompt(query).task),
        (*pictures, caption),
        turns=turns,
        pictures=own.max_pictures,
        keep=own.keep_pictures,
        facts=components.facts,
    )
