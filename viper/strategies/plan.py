"""Strategy ``plan``: write a numbered plan in words, then the program for it.

Both prompts show demonstrations that worked and demonstrations that did not, with the reason. The
program is run and corrected as in strategy ``program``. Without feedback, each attempt writes a new
plan and a new program. With feedback the plan stays, and the prompt of the next program states the
failure.

Source: CLOVA (Gao et al. 2024), sec. 3.2: four correct and four incorrect demonstrations for each
prompt, those most like the query. Differs: CLOVA does not correct itself while it answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from viper.api.sets import ApiEntry
from viper.models.llm.messages import Prompt, as_text
from viper.models.llm.protocol import LLM
from viper.prompting.plans import PLAN_STOP, build_plan_prompt, read_plan
from viper.schema import Failure, Trial
from viper.strategies.base import Components, RunContext, StoppedError, Trials
from viper.strategies.examples import Demonstration, ExampleRequest, Part, PlanSettings
from viper.strategies.program import (
    MAX_RESAMPLES,
    attempt_sampling,
    raise_temperature,
    run_with_corrections,
)
from viper.strategies.prompts import (
    AttemptNumber,
    FittedPrompt,
    WriterPrompt,
    by_polarity,
    fit_prompt,
    program_prompt,
    query_for_prompt,
    sees_pictures,
)
from viper.strategies.settings import RunSettings


class PlanStrategy:
    """Plan, write, run, diagnose, correct.

    Args:
        plan: numbered steps, separated by newlines; None asks the planner for a plan.
    """

    name = "plan"
    writes_programs = True

    def __init__(self, plan: str | None = None) -> None:
        self._plan = plan

    def trials(self, components: Components, context: RunContext) -> Trials:
        """Yield the trials in order, each with its plan; see
        :func:`viper.strategies.program.run_with_corrections`.

        If no plan can be read from the planner's replies, the conclusion states it.

        Raises:
            UsageError: the program writer was not trained to plan, and there is no planner.
            CancelledError: ``context.cancel`` was set.
        """
        if self._plan is None:
            planner, style = planner_of(components, context.settings)
            if style == context.settings.prompt_style == "compact":
                components = components.with_models(llm=planner)
        return (yield from run_with_corrections(components, context, self._prompt_for_program))

    def _prompt_for_program(
        self,
        components: Components,
        context: RunContext,
        number: AttemptNumber,
        failed: Sequence[Trial],
    ) -> WriterPrompt:
        """Return the prompt of a program with its plan: a new plan, or that of the failed program.

        Raises:
            StoppedError: the budget is used up, or the planner writes no plan.
        """
        if self._plan is not None:
            planned = WriterPrompt("", self._plan)
        elif failed and failed[-1].plan is not None:
            last = failed[-1]
            planned = WriterPrompt("", last.plan, last.plan_prompt, last.demonstrations)
        else:
            planned = write_plan(components, context, number)
        best = _best(components, context, "program")
        prompt, shown, left_out = program_prompt(
            components, context, best, failed, planned.plan or ""
        )
        ids = dict.fromkeys([*planned.demonstrations, *(item.id for item in shown)])
        return replace(
            planned,
            prompt=prompt,
            demonstrations=tuple(ids),
            left_out=left_out,
            examples_left_out=len(best) - len(shown),
        )

    def prompt(self, components: Components, context: RunContext) -> str:
        """Return the prompt of the first plan.

        Raises:
            UsageError: as :meth:`trials`.
        """
        return as_text(plan_prompt(components, context).prompt)


def planner_of(components: Components, settings: RunSettings) -> tuple[LLM, str]:
    """Return the model that writes plans and the style of its prompt.

    Without a separate planner the program writer plans. A compact planner is trained to write both,
    so it also writes the programs of compact prompts; its base model knows queries, not plans.

    Raises:
        UsageError: the program writer is compact and knows only programs, and there is no planner.
    """
    return components.model_or_writer(
        "planner", settings, "strategy plan needs a planner", "--strategy program"
    )


def write_plan(components: Components, context: RunContext, number: AttemptNumber) -> WriterPrompt:
    """Return a new plan with its prompt, before there is a prompt for its program.

    Raises:
        StoppedError: the budget is used up, or the planner writes no plan.
    """
    planner, style = planner_of(components, context.settings)
    prompt, demonstrations, _ = plan_prompt(components, context)
    vote, attempt = number
    sampling = attempt_sampling(context.settings, attempt, vote=vote)
    sampling = replace(sampling, stop=PLAN_STOP[style])
    for _ in range(1 + MAX_RESAMPLES):
        reply = context.complete(planner, prompt, sampling)
        is_cut = reply.finish_reason == "length" and style == "chat"  # its last steps are missing
        plan = "" if is_cut else read_plan(reply.text)
        if plan:
            return WriterPrompt("", plan, prompt, tuple(item.id for item in demonstrations))
        sampling = raise_temperature(sampling)
    message = (
        f"no plan could be read from {1 + MAX_RESAMPLES} replies of {planner.model_id}; see what "
        "it is asked with --show-prompt, or use --strategy program"
    )
    raise StoppedError(Failure("plan", message))


def plan_prompt(components: Components, context: RunContext) -> FittedPrompt:
    """Return the prompt that asks for a plan.

    Raises:
        UsageError: as :func:`planner_of`.
    """
    _, style = planner_of(components, context.settings)
    sees = sees_pictures("planner", components)
    query, settings = query_for_prompt(context.query), context.settings

    def build(names: Sequence[ApiEntry], demonstrations: Sequence[Demonstration]) -> Prompt:
        shown = by_polarity(demonstrations, settings)
        return build_plan_prompt(query, names, *shown, style=style, sees=sees)

    best = _best(components, context, "plan")
    return fit_prompt(components, context, best, build, role="planner")


def _best(components: Components, context: RunContext, part: Part) -> list[Demonstration]:
    """Return the demonstrations for a prompt, correct and incorrect in turn, best first."""
    settings, query = context.settings, query_for_prompt(context.query)
    own = settings.of(PlanSettings)
    retrieval = settings.retrieval
    if retrieval == "fixed":  # a pool grows with every task and has no fixed order
        retrieval = "bm25" if components.embed is None else "embeddings"
    shows_incorrect = part == "plan" or settings.prompt_style != "compact"
    request = ExampleRequest(
        query.task,
        settings.api,
        own.correct_demonstrations,
        own.incorrect_demonstrations if shows_incorrect else 0,
        part,
        retrieval,
        components.embed,
    )
    selection = components.demonstrations.select(query, request)
    pairs = zip_longest(selection.correct, selection.incorrect)
    return [item for pair in pairs for item in pair if item is not None]
