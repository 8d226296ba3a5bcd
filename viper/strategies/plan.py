"""Strategy ``plan``: a numbered plan in words first, then the program that carries it out.

Both prompts show demonstrations that worked and demonstrations that did not, with the reason. The
program is run and corrected as strategy ``program`` does it: asked afresh, plan and program are
both written anew; with feedback the plan stays, and the next program is told what failed.

Source: CLOVA (Gao et al. 2024), sec. 3.2: four correct and four incorrect demonstrations for each
prompt, those most like the query. Differs: theirs does not correct itself while it answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from viper.api.sets import ApiEntry
from viper.models.llm.protocol import LLM
from viper.prompting.plans import (
    PLAN_STOP,
    build_plan_prompt,
    build_planned_prompt,
    read_plan,
)
from viper.schema import Example, Failure, Trial
from viper.strategies.base import Components, RunContext
from viper.strategies.examples import Demonstration, ExampleRequest, Part, PlanSettings
from viper.strategies.program import corrected
from viper.strategies.prompts import asked_as, fit_prompt, in_order, is_lines
from viper.strategies.settings import RunSettings
from viper.strategies.writing import (
    REDRAWS,
    Place,
    Prompted,
    Prompter,
    attempt_sampling,
    drawn,
    feedback_on,
    warmer,
)


class PlanStrategy:
    """Plan, write, run, diagnose, correct.

    Args:
        plan: numbered steps, one a line, that are carried out; None has a plan written.
    """

    name = "plan"

    def __init__(self, plan: str | None = None) -> None:
        self._prompter = planned if plan is None else carrying_out(plan)
        self._plans = plan is None

    def trials(self, components: Components, context: RunContext) -> Iterator[Trial]:
        """Trials in order, each with its plan; see :func:`viper.strategies.program.corrected`.

        Where no plan can be read from what the planner writes, ``context.stopped`` says so.

        Raises:
            UsageError: a writer that was never taught to plan, and no planner beside it.
            CancelledError: ``context.cancel`` was set.
        """
        if self._plans:
            planner, style = planner_of(components, context.settings)
            if style == context.settings.prompt_style == "compact":
                components = components.with_models(llm=planner)
        yield from corrected(components, context, self._prompter)

    def prompt(self, components: Components, context: RunContext) -> str:
        """The prompt of the first plan.

        Raises:
            UsageError: as :meth:`trials`.
        """
        return plan_prompt(components, context)[0]


def planner_of(components: Components, settings: RunSettings) -> tuple[LLM, str]:
    """Who writes plans, and the style of its prompt.

    Without a planner of its own the program writer plans. A compact one, which was taught both,
    also writes the programs of compact prompts: its base knows queries, not plans.

    Raises:
        UsageError: a compact writer, which knows programs only, and no planner.
    """
    return components.model_or_writer(
        "planner",
        settings,
        "strategy plan needs somebody to plan",
        "--strategy program",
    )


def planned(
    components: Components, context: RunContext, place: Place, failed: Trial | None
) -> Prompted | None:
    """The prompt of a program with its plan: a new one, or that of the program that failed.

    None where the budget is used up, or the planner writes no plan.
    """
    if failed is not None and failed.plan is not None:
        earlier = Prompted("", failed.plan, failed.plan_prompt, failed.demonstrations)
        return _to_carry_out(components, context, earlier, failed)
    planner, style = planner_of(components, context.settings)
    prompt, shown = plan_prompt(components, context)
    vote, attempt = place
    sampling = attempt_sampling(context.settings, attempt, vote=vote)
    sampling = replace(sampling, stop=PLAN_STOP[style])
    for _ in range(1 + REDRAWS):
        reply = drawn(planner, context, prompt, sampling)
        if reply is None:
            return None
        plan = read_plan(reply)
        if plan:
            made = Prompted("", plan, prompt, tuple(one.id for one in shown))
            return _to_carry_out(components, context, made, None)
        sampling = warmer(sampling)
    context.stopped = Failure(
        "plan",
        f"no plan could be read from {1 + REDRAWS} replies of {planner.model_id}; see what it is "
        "asked with --show-prompt, or take --strategy program",
    )
    return None


def carrying_out(plan: str) -> Prompter:
    """The prompter of programs for a plan that is there already; no planner is asked.

    Args:
        plan: numbered steps, one a line.
    """

    def prompted(
        components: Components, context: RunContext, place: Place, failed: Trial | None
    ) -> Prompted:
        return _to_carry_out(components, context, Prompted("", plan), failed)

    return prompted


def plan_prompt(components: Components, context: RunContext) -> tuple[str, Sequence[Demonstration]]:
    """The prompt that asks for a plan, and the demonstrations in it.

    Raises:
        UsageError: as :func:`planner_of`.
    """
    planner, style = planner_of(components, context.settings)
    query, settings = asked_as(context.query), context.settings

    def build(names: Sequence[ApiEntry], shown: Sequence[Demonstration]) -> str:
        return build_plan_prompt(query, names, *_by_polarity(shown, settings), style=style)

    best = _best(components, context, "plan")
    return fit_prompt(components, context, best, build, reader=planner)


def _to_carry_out(
    components: Components, context: RunContext, made: Prompted, failed: Trial | None
) -> Prompted:
    """The same plan with the prompt for its program."""
    query, settings, feedback = asked_as(context.query), context.settings, feedback_on(failed)

    def build(names: Sequence[ApiEntry], shown: Sequence[Demonstration]) -> str:
        return build_planned_prompt(
            query,
            names,
            made.plan or "",
            *_by_polarity(shown, settings),
            style=settings.prompt_style,
            feedback=feedback,
            lines=is_lines(components, context),
        )

    best = _best(components, context, "program")
    prompt, shown = fit_prompt(components, context, best, build)
    context.examples_left_out = len(best) - len(shown)
    ids = dict.fromkeys([*made.demonstrations, *(one.id for one in shown)])
    return replace(made, prompt=prompt, demonstrations=tuple(ids))


def _best(components: Components, context: RunContext, part: Part) -> list[Demonstration]:
    """The demonstrations for a prompt, correct and incorrect ones in turn, the best first."""
    settings, query = context.settings, asked_as(context.query)
    own = settings.of(PlanSettings)
    retrieval = settings.retrieval
    if retrieval == "fixed":  # a pool grows with every task and has no fixed order
        retrieval = "bm25" if components.embed is None else "embeddings"
    is_shown = part == "plan" or settings.prompt_style != "compact"
    request = ExampleRequest(
        query.task,
        settings.api,
        own.correct_demonstrations,
        own.incorrect_demonstrations if is_shown else 0,
        part,
        retrieval,
        components.embed,
    )
    chosen = components.demonstrations.select(query, request)
    pairs = zip_longest(chosen.correct, chosen.incorrect)
    return [one for pair in pairs for one in pair if one is not None]


def _by_polarity(
    shown: Sequence[Demonstration], settings: RunSettings
) -> tuple[list[Example], list[Example]]:
    """Correct and incorrect examples, each as they stand in the prompt."""
    ordered = [one.example for one in in_order(shown, settings.example_order)]
    correct = [one for one in ordered if one.polarity == "correct"]
    return correct, [one for one in ordered if one.polarity != "correct"]
