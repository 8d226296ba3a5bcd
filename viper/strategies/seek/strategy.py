"""Strategy ``seek``: searches step by step for knowledge that the picture does not show.

Source: AVIS (Hu et al. 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from viper.errors import UsageError
from viper.models.llm.messages import as_text
from viper.models.llm.protocol import LLM
from viper.prompting.seeking import split_prompt
from viper.sandbox import Ref
from viper.schema import Failure, Query, Trial
from viper.strategies.base import Components, Conclusion, RunContext
from viper.strategies.end_to_end import one_trial
from viper.strategies.seek import SeekSettings
from viper.strategies.seek.actions import SeekTools
from viper.strategies.seek.decisions import decisions_of
from viper.strategies.seek.graph import FixedSequence, TransitionGraph, load_route
from viper.strategies.seek.search import FixedSeeker, Seeker, make_asker
from viper.tools.session import ToolSession


class SeekStrategy:
    """Splits the question, then plans, acts and judges until there is an answer."""

    name = "seek"
    searches_texts = True

    def trials(
        self, components: Components, context: RunContext
    ) -> Generator[Trial, None, Conclusion]:
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
        route = route_of(context)
        path: list[dict[str, Any]] = []
        yield one_trial(components, context, partial(_answer, context, route, llm, style, path))
        return Conclusion(parts={"path": path})

    def prompt(self, components: Components, context: RunContext) -> str:
        """Return the prompt of the first request, which asks for the two sub-questions.

        Raises:
            UsageError: as :meth:`trials`.
        """
        return as_text(split_prompt(context.query.text, seeker_of(components, context)[1]))


def seeker_of(components: Components, context: RunContext) -> tuple[LLM, str]:
    """Return the model that plans and judges, and the style of its prompts.

    Raises:
        UsageError: the program writer is compact and knows only programs, and there is no seeker.
    """
    return components.model_or_writer(
        "seeker",
        context.settings,
        "strategy seek needs a model that plans and judges",
        "--strategy program --api abstract+knowledge",
    )


def route_of(context: RunContext) -> TransitionGraph | FixedSequence:
    """Return the graph or sequence of a run's settings; raises as :func:`load_route`."""
    settings = context.settings.of(SeekSettings)
    route = load_route(settings.graph)
    return route.without(settings.without_actions) if settings.without_actions else route


def seek_tools(session: ToolSession, ask: Callable[[str, tuple[str, ...]], str]) -> SeekTools:
    """Return the input of actions on the run's first picture; ``ask`` as in :class:`SeekTools`."""
    picture = session.media.images[0]
    return SeekTools(session, Ref("image", ("image0", picture.shape[1], picture.shape[0])), ask)


def _answer(
    context: RunContext,
    route: TransitionGraph | FixedSequence,
    llm: LLM,
    style: str,
    path: list[dict[str, Any]],
    session: ToolSession,
    query: Query,
) -> Any | Failure:
    tools = seek_tools(session, make_asker(llm, style, context))
    decisions = decisions_of(context.settings.of(SeekSettings).decisions)
    if isinstance(route, FixedSequence):
        seeker: Seeker = FixedSeeker(
            context, route.as_graph, tools, llm, style, decisions, path, sequence=route
        )
    else:
        seeker = Seeker(context, route, tools, llm, style, decisions, path)
    return seeker.seek(query.text)
