"""Reasons to doubt an answer, from the profile's domain and the log of tool calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from viper.record import outside
from viper.schema import Answer, RunWarning, ToolCall, Trial
from viper.strategies import model_role
from viper.strategies.answers import wrong_type
from viper.strategies.base import Components, RunContext
from viper.strategies.confidence import UNSUPPORTED
from viper.strategies.self_tuning import may_rest_on_nothing

# Distance of the farthest usual picture, see :meth:`viper.models.domain.Domain.distance`, which
# scales distances so; beyond it nothing was measured.
UNLIKE = 1.0


def warnings_of(
    components: Components,
    context: RunContext,
    answering: Trial | None,
    trials: Sequence[Trial] = (),
    *,
    strategy: str = "program",
    names_things: bool = True,
    fallback: str | None = None,
) -> tuple[RunWarning, ...]:
    """Return the reasons to doubt the answer of a run, those about the query first.

    Args:
        answering: the trial that gave the answer; None without an answer.
        trials: all trials of the run.
        strategy: name of the strategy that answered.
        names_things: the query names what the models look for; unknown words of others, such as
            those of a search in texts, are no reason to doubt.
        fallback: name of the fallback that answered, if one did.
    """
    warnings: list[RunWarning] = []
    settings = components.toolbox.settings
    # The domain describes the other models; text recognition knows documents.
    domain = None if context.query.task == "extract" else components.domain
    if domain is not None:
        domain = domain.roles.get(model_role(strategy), domain)
        distance = domain.distance(context.media)
        if distance > UNLIKE:
            what = "This video is" if context.media.video is not None else "This picture is"
            text = f"{what} unlike those that the models know ({domain.about})."
            detail = {
                "distance": round(distance, 2),
                "withhold": domain.withhold,
                "about": domain.about,
                "instead": domain.instead,
            }
            warnings.append(RunWarning("unlike_training_pictures", text, detail))
        words = domain.unknown_words(context.query.text, settings.knows) if names_things else ()
        if words:
            quoted = ", ".join(f"'{word}'" for word in words)
            text, detail = f"The models do not know {quoted}.", {"words": words}
            if domain.withhold_words:
                text = f"{components.profile_name} cannot see {quoted}."
                detail |= {"withhold": True, "instead": domain.instead}
            warnings.append(RunWarning("unknown_words", text, detail))
    of_answer = () if answering is None else answering.tool_calls
    failed = [call for each in trials for call in each.tool_calls if call.unknown]
    if phrases := dict.fromkeys(call.unknown for call in failed):
        text = f"The detector knows no {', '.join(map(repr, phrases))}."
        detail = {"words": tuple(phrases)}
        if any(call.unknown for call in of_answer):  # the program went on in spite of it
            detail |= {"withhold": True}
        warnings.append(RunWarning("unknown_words", text, detail))
    answer = None if answering is None else answering.answer
    if answering is None or answer is None:
        return tuple(warnings)
    named = context.media.named_images
    looked_at = {
        name for call in answering.tool_calls for name in _pictures([call.args, call.kwargs])
    }
    unused = named.keys() - looked_at
    if answering.program and looked_at and unused and len(named) > 1:
        text = f"The program looked at {len(named) - len(unused)} of {len(named)} pictures."
        warnings.append(RunWarning("unused_pictures", text, {"pictures": sorted(unused)}))
    if answering.program and not looked_at:
        text = "No tool looked at the picture or video; the answer is what the model wrote."
        warnings.append(RunWarning(UNSUPPORTED, text))
    if fallback is not None:
        text = f"Every trial failed; the fallback {fallback} answered."
        warnings.append(RunWarning("fallback", text, {"fallback": fallback}))
    misfit = wrong_type(answer, context.query, settings)
    if misfit is not None:
        text = f"{misfit.message[0].upper()}{misfit.message[1:]}."
        warnings.append(RunWarning("wrong_type", text))
    for entry in answer.value if answer.kind == "fields" else ():
        if reason := entry["reason"]:
            name = entry["field"]
            warnings.append(RunWarning("field", f"{name}: {reason}.", {"field": name}))
    if answering.rests_on_nothing and not may_rest_on_nothing(answer):
        call = answering.tool_calls[answering.rests_on_nothing[-1]]
        text = f"{sought(call)} found nothing; the answer is a guess."
        warnings.append(RunWarning("guessed", text, {"calls": answering.rests_on_nothing}))
    for call in answering.tool_calls:
        if call.note:
            text = f"{sought(call)} may be incomplete: {call.note}."
            warnings.append(RunWarning("incomplete_reply", text, {"call": call.index}))
            break
    for call in answering.tool_calls:
        schedule = settings.sensitivities.get(call.judged_by or "")
        if schedule is None or not call.scores or call.rejected_by is not None:
            continue
        score = _score_of(answer, call, context.media.sizes)
        if score < schedule.start:
            text = f"{sought(call)} has a score of {score:.2f} only."
            detail = {"call": call.index, "score": score, "usual": schedule.start}
            warnings.append(RunWarning("weak_evidence", text, detail))
            break
    return tuple(warnings)


def _score_of(answer: Answer, call: ToolCall, sizes: Mapping[str, tuple[int, int]]) -> float:
    """Return the score of the candidate that is the answer, or else of the best one."""
    results = outside(call.result, sizes)
    for each, score in zip(results if isinstance(results, list) else (), call.scores, strict=False):
        box = each.get("box") if isinstance(each, dict) else None
        if box and answer.box and np.allclose(box, answer.box, atol=0.5):  # pixels
            return score
    return call.scores[0]


def _pictures(value: Any) -> Iterator[str]:
    """Yield the ids of the pictures that a JSON value of a trace refers to."""
    if isinstance(value, Mapping):
        if {"kind", "fields"} <= value.keys() and value["fields"]:
            yield str(value["fields"][0])
        value = list(value.values())
    for item in value if isinstance(value, list | tuple) else ():
        yield from _pictures(item)


def sought(call: ToolCall) -> str:
    """Return a call in short, such as ``find('red ball')``: its tool and its texts."""
    texts = [repr(value[:60]) for value in call.args if isinstance(value, str)]
    return f"{call.tool}({', '.join(texts)})"
