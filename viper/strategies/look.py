"""Turns of thought, code and observation, in messages that hold the pictures which code shows.

The agent is that of strategy ``explore``, whose ``max_turns`` and ``max_seconds`` bound it as well.

Source: the loop of PyVision (Zhao et al. 2025) and of visual agents after it. Differs: the
operations on pixels are a closed vocabulary that the parent answers, so code holds no pixels.
"""

from __future__ import annotations

from collections.abc import Generator

from viper.errors import UsageError
from viper.models.llm.messages import as_text
from viper.models.llm.protocol import LLM
from viper.prompting.exploring import (
    LookOpening,
    chat_look_opening,
    compact_look_opening,
    look_conversation,
)
from viper.schema import Trial
from viper.strategies.base import Components, Conclusion, RunContext
from viper.strategies.explore import ExploreSettings, LookSettings
from viper.strategies.explore.environment import Environment
from viper.strategies.explore.strategy import PromptAfter, actor_of, run_agent
from viper.strategies.prompts import pictures_and_caption, query_for_prompt

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
        own = context.settings.of(LookSettings)
        opening = opening_of(components, context, style)

        def prompts(environment: Environment) -> PromptAfter:
            environment.tools.max_shown = own.max_pictures
            environment.tools.max_shown_pixels = own.picture_pixels
            return lambda steps, is_last: look_conversation(
                opening, steps, keep=own.keep_pictures, is_last=is_last
            )

        return run_agent(components, context, llm, prompts, is_conversation=True)

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
    llm, style = actor_of("look", ROLE, API, "a model that sees", components, context)
    role = ROLE if ROLE in components.models else "llm"
    if role not in components.sees:
        raise UsageError(
            f"strategy look needs a model that sees, and {llm.model_id} takes no pictures; give "
            f"the profile a table [{ROLE}] with a vision-language model"
        )
    return llm, style


def opening_of(components: Components, context: RunContext, style: str) -> LookOpening:
    """Return the messages before the first reply."""
    query, turns = context.query, context.settings.of(ExploreSettings).max_turns
    pictures, caption = pictures_and_caption(context.media)
    if style == "compact":
        return compact_look_opening(query.text, query.options, pictures, turns)
    own, api = context.settings.of(LookSettings), context.settings.api
    library = components.library
    names = api if API in library.api_set(api).parts else f"{api}+{API}"
    return chat_look_opening(
        query,
        library.api_set(names).entries(query_for_prompt(query).task),
        (*pictures, caption),
        turns=turns,
        pictures=own.max_pictures,
        keep=own.keep_pictures,
        facts=components.facts,
    )
