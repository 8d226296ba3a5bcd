"""Strategy ``seek``: looks for what the picture alone cannot tell, one step at a time.

Source: AVIS (Hu et al. 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from viper.errors import UsageError
from viper.models.llm.protocol import LLM
from viper.prompting.seeking import split_prompt
from viper.sandbox import Ref
from viper.schema import Failure, Query, Trial
from viper.strategies.base import Components, RunContext
from viper.strategies.end_to_end import one_trial
from viper.strategies.seek.actions import Scene
from viper.strategies.seek.decisions import decisions_of
from viper.strategies.seek.graph import FixedSequence, TransitionGraph, load_route
from viper.strategies.seek.search import FixedSeeker, Seeker, asker
from viper.strategies.seek.settings import SeekSettings
from viper.tools.session import ToolSession


class SeekStrategy:
    """Splits the question, then plans, acts and judges until there is an answer."""

    name = "seek"

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
        """One trial; the steps stand in the trace's ``path``.

        Raises:
            UsageError: another task than a question, not one picture, no such graph, or a
                language model that was never taught to seek.
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
        yield one_trial(
            components, context, partial(_answer, components, context, route, llm, style)
        )

    def prompt(self, components: Components, context: RunContext) -> str:
        """The first request's prompt: the two sub-questions.

        Raises:
            UsageError: as :meth:`trials`.
        """
        return split_prompt(context.query.text, seeker_of(components, context)[1])


def seeker_of(components: Components, context: RunContext) -> tuple[LLM, str]:
    """Who plans and judges, and the style of the prompts.

    Raises:
        UsageError: a compact writer, which knows programs only, and no seeker.
    """
    return components.model_or_writer(
        "seeker",
        context.settings,
        "strategy seek needs somebody to plan and to judge",
        "--strategy program --api abstract+knowledge",
    )


def route_of(context: RunContext) -> TransitionGraph | FixedSequence:
    """The graph or sequence of a run's settings; raises as :func:`load_route`."""
    settings = context.settings.of(SeekSettings)
    route = load_route(settings.graph)
    taken_away = settings.without_actions
    return route.without(taken_away) if taken_away else route


def scene_of(session: ToolSession, ask: Callable[[str, tuple[str, ...]], str]) -> Scene:
    """What the actions work on; ``ask`` as in :class:`~viper.strategies.seek.actions.Scene`."""
    picture = session.media.images[0]
    return Scene(session, Ref("image", ("image0", picture.shape[1], picture.shape[0])), ask)


def _answer(
    components: Components,
    context: RunContext,
    route: TransitionGraph | FixedSequence,
    llm: LLM,
    style: str,
    session: ToolSession,
    query: Query,
) -> Any | Failure:
    scene = scene_of(session, asker(llm, style, context))
    given = (scene, llm, style, decisions_of(context.settings.of(SeekSettings).decisions))
    if isinstance(route, FixedSequence):
        seeker: Seeker = FixedSeeker(context, route.as_graph, *given, sequence=route)
    else:
        seeker = Seeker(context, route, *given)
    context.parts["path"] = seeker.path
    return seeker.seek(query.text)
