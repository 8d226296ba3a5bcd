"""Verification: tests of the programs that answered, none of which needs the right answer.

Candidate programs run on exact inputs, on which perception makes no mistake, and are grouped by
their behaviour; the largest group answers. The program that answers is then asked changed queries
whose answers are known from its own (:mod:`viper.strategies.relations`). :func:`agreement` does a
small part of it for one program, that of a user included: setting ``checks``.

Source: ViUniT (Panagopoulou et al., CVPR 2025), which tests visual programs on generated pictures
with expected answers. Differs: no answer is generated; candidates are compared with each other, and
perception is tested on the query's own picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from viper.api.registry import REGISTRY
from viper.schema import Answer, Check, Trial
from viper.strategies.answers import read_answer
from viper.strategies.base import Components, Conclusion, RunContext, StoppedError, answering_trial
from viper.strategies.confidence import margin_of
from viper.strategies.exact import EXACT_INPUTS, ExactInput, ExactInputs
from viper.strategies.program import (
    ENTRY,
    Attempts,
    Generation,
    program_arguments,
    run_once,
    run_program,
    write_program,
)
from viper.strategies.relations import Variant, harmless, variants
from viper.strategies.voting import Group, agree, answer_key, short_text, with_winner
from viper.tools.video_tools import VIDEO_TOOLS

# Number of exact inputs for each query: programs that differ on one input of seven are told apart
# with a probability of 95 %.
INPUTS = 20

# A key beside those of answers, so that programs which fail alike behave alike.
_FAILED = "no answer"


# A program's answer to each exact input, as a key that equal answers share.
Behaviour = tuple[Any, ...]


def verify(components: Components, context: RunContext, conclusion: Conclusion) -> Conclusion:
    """Return the conclusion with the answer chosen among its ballots, and with checks of it.

    Without a ballot nothing is done.
    """
    ballots = conclusion.ballots
    if not ballots:
        return conclusion
    source = EXACT_INPUTS.find(components.exact_inputs)
    make_inputs: ExactInputs | None = None if source is None else source.load()
    inputs = [] if make_inputs is None else make_inputs(context.query, INPUTS)
    if inputs:
        programs = [trial.program for trial in ballots]
        known = {each: behaviour(components, context, each, inputs) for each in {*programs}}
        behaviours = [known[program] for program in programs]
        conclusion = with_winner(conclusion, groups_by_behaviour(behaviours))
    answering = next(trial for trial in ballots if trial.index == conclusion.chosen)
    assert answering.answer is not None
    checks: list[Check] = []
    for number, seen in enumerate(known[answering.program] if inputs else ()):
        # The program that answers should answer each exact input as most candidates do.
        counts = Counter(each[number] for each in behaviours)
        expected = max(counts, key=lambda key: (counts[key], key == seen))
        name = f"exact input {number + 1}"
        checks.append(Check("exact", name, seen == expected, str(expected), str(seen)))
    # the file of a video, which some programs read, cannot be changed
    if VIDEO_TOOLS.keys() & {call.tool for call in answering.tool_calls}:
        return replace(conclusion, checks=tuple(checks))
    for variant in variants(context.query, context.media, answering.answer, answering):
        checks.append(_ask_variant(components, context, variant, answering.program))
    return replace(conclusion, checks=tuple(checks))


def agreement(
    components: Components, context: RunContext, trial: Trial | None
) -> tuple[Check, ...]:
    """Run a program that answered again on small changes of its input, until an answer differs.

    First the thresholds that judged its calls are a step lower and a step higher, which asks no
    model, because thresholds apply after the caches. Then the picture is mirrored, brighter and
    cropped, at the same time, so that backends can batch the requests. A run that the budget or an
    endpoint ended is no check. Programs that read writing have none: a mirror makes it illegible,
    and reading takes seconds. Neither have edited pictures, which nothing compares, nor programs
    that read the file of a video, which cannot be changed.
    """
    if trial is None or not trial.program or trial.answer is None or trial.answer.kind == "image":
        return ()
    readers = {each.name for each in REGISTRY.all() if each.visibility.needs == "ocr"}
    if (readers | VIDEO_TOOLS.keys()) & {call.tool for call in trial.tool_calls}:
        return ()
    answer, schedules = trial.answer, components.toolbox.settings.sensitivities
    judges = {call.judged_by or "" for call in trial.tool_calls} & schedules.keys()

    def check(variant: Variant, side: int = 0) -> Check | None:
        steps = {name: trial.thresholds[name] + side * schedules[name].step for name in judges}
        seen = run_once(
            components,
            context.about(variant.query, variant.media),
            Generation(trial.program),
            0,
            {**trial.thresholds, **{name: max(0.0, value) for name, value in steps.items()}},
            accept_misfit=True,
        )
        ended = seen.failure is not None and seen.failure.kind in ("budget", "unavailable")
        return None if ended else _relation_check(variant, seen, moved=bool(side))

    checks: list[Check] = []
    for name, side in (("laxer", -1), ("stricter", 1)) if judges else ():
        seen = check(Variant(name, context.query, context.media, answer), side)
        checks += [seen] if seen else []
        if seen is None or not seen.passed:
            return tuple(checks)
    changed = [*harmless(context.query, context.media, answer, trial)]
    with ThreadPoolExecutor(max(1, len(changed))) as threads:
        return (*checks, *(each for each in threads.map(check, changed) if each))


def behaviour(
    components: Components, context: RunContext, program: str, inputs: Sequence[ExactInput]
) -> Behaviour:
    """Return the answers of a program to exact inputs."""
    keys: list[Any] = []
    for media, tools in inputs:
        outcome = components.sandbox.run(
            program,
            tools=tools,
            entry=ENTRY,
            args=program_arguments(context.query, media),
            cancel=context.cancel,
        )
        answer = read_answer(outcome.value, context.query, media) if outcome.ok else None
        keys.append(answer_key(answer) if isinstance(answer, Answer) else _FAILED)
    return tuple(keys)


def groups_by_behaviour(behaviours: Sequence[Behaviour]) -> list[Group]:
    """Group programs that behave alike: the largest group first, of equals the earliest.

    Programs that answer none of the inputs are the last group.
    """
    groups: dict[Behaviour, list[int]] = {}
    for index, each in enumerate(behaviours):
        groups.setdefault(each, []).append(index)

    def rank(each: Behaviour) -> tuple[bool, int, int]:
        return set(each) == {_FAILED}, -len(groups[each]), groups[each][0]

    return [tuple(groups[each]) for each in sorted(groups, key=rank)]


def _ask_variant(
    components: Components, context: RunContext, variant: Variant, program: str
) -> Check:
    """Ask a changed query: with the same program, or a new one if the words changed."""
    other = replace(context, query=variant.query, media=variant.media)
    if variant.query.text != context.query.text:
        try:
            written = write_program(components, other, (0, 0), (), Attempts())
            program = "" if written.failure is not None else written.program
        except StoppedError:
            program = ""
    trials = list(run_program(components, other, Generation(program))) if program else []
    return _relation_check(variant, answering_trial(trials))


def _relation_check(variant: Variant, trial: Trial | None, moved: bool = False) -> Check:
    answer = None if trial is None else trial.answer
    passed = answer is not None and agree(answer, variant.expected)
    seen = _FAILED if answer is None else short_text(answer)
    margin = None if trial is None or moved else margin_of(trial)
    return Check("relation", variant.name, passed, short_text(variant.expected), seen, margin)
