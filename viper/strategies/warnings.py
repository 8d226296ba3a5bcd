"""Reasons to doubt an answer, from the profile's domain and the log of tool calls."""

from __future__ import annotations

from collections.abc import Iterator

from viper.models.domain import Domain
from viper.schema import Answer, RunWarning, ToolCall, Trial
from viper.strategies import model_role
from viper.strategies.answers import wrong_type
from viper.strategies.base import Components, RunContext
from viper.strategies.self_tuning import may_rest_on_nothing

# Distance of the farthest usual picture, see :meth:`viper.models.domain.Domain.distance`, which
# scales distances so; beyond it nothing was measured.
UNLIKE = 1.0


def warnings_of(
    components: Components,
    context: RunContext,
    answering: Trial | None,
    *,
    strategy: str = "program",
    names_things: bool = True,
    fallback: str | None = None,
) -> tuple[RunWarning, ...]:
    """Return the reasons to doubt the answer of a run, those about the query first.

    Args:
        answering: the trial that gave the answer; None without an answer.
        strategy: name of the strategy that answered.
        names_things: the query names what the models look for; unknown words of others, such as
            those of a search in texts, are no reason to doubt.
        fallback: name of the fallback that answered, if one did.
    """
    found: list[RunWarning] = []
    domain = components.domain
    if domain is not None:
        domain = domain.roles.get(model_role(strategy), domain)
        found += _outside_domain(components, domain, context, names_things)
    answer = None if answering is None else answering.answer
    if answering is None or answer is None:
        return tuple(found)
    if fallback is not None:
        text = f"Every trial failed; the fallback {fallback} answered."
        found.append(RunWarning("fallback", text, {"fallback": fallback}))
    misfit = wrong_type(answer, context.query, components.toolbox.settings)
    if misfit is not None:
        found.append(RunWarning("wrong_type", f"{misfit.message[0].upper()}{misfit.message[1:]}."))
    found += _on_evidence(components, answer, answering)
    return tuple(found)


def _outside_domain(
    components: Components, domain: Domain, context: RunContext, names_things: bool
) -> Iterator[RunWarning]:
    distance = domain.distance(context.media)
    if distance > UNLIKE:
        what = "This video is" if context.media.video is not None else "This picture is"
        detail = {
            "distance": round(distance, 2),
            "withhold": domain.withhold,
            "about": domain.about,
            "instead": domain.instead,
        }
        text = f"{what} unlike those that the models know ({domain.about})."
        yield RunWarning("unlike_training_pictures", text, detail)
    settings = components.toolbox.settings
    words = domain.unknown_words(context.query.text, settings.knows) if names_things else ()
    if words:
        quoted = ", ".join(f"'{word}'" for word in words)
        yield RunWarning("unknown_words", f"The models do not know {quoted}.", {"words": words})


def _on_evidence(components: Components, answer: Answer, trial: Trial) -> Iterator[RunWarning]:
    if trial.rests_on_nothing and not may_rest_on_nothing(answer):
        call = trial.tool_calls[trial.rests_on_nothing[-1]]
        text = f"{sought(call)} found nothing; the answer is a guess."
        yield RunWarning("guessed", text, {"calls": trial.rests_on_nothing})
    schedules = components.toolbox.settings.sensitivities
    for call in trial.tool_calls:
        schedule = schedules.get(call.judged_by or "")
        if schedule is None or not call.scores or call.rejected_by is not None:
            continue
        if call.scores[0] < schedule.start:
            text = f"{sought(call)} has a score of {call.scores[0]:.2f} only."
            detail = {"call": call.index, "score": call.scores[0], "usual": schedule.start}
            yield RunWarning("weak_evidence", text, detail)
            return


def sought(call: ToolCall) -> str:
    """Return a call in short, such as ``find('red ball')``: its tool and its texts."""
    texts = [repr(value[:60]) for value in call.args if isinstance(value, str)]
    return f"{call.tool}({', '.join(texts)})"
