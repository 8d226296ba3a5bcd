"""What must hold of the ablation, judged on its cells.

Every claim is listed whatever was measured; one whose cells were left out is neither true nor
false, and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from viper_lab.papers.lab import Lab
from viper_lab.papers.parts import Part
from viper_lab.papers.renamed_api import RENAMINGS, RenamedApi
from viper_lab.papers.result import Claim, in_points
from viper_lab.papers.zero_shot import (
    ABSTRACT_CELL,
    ACE_CELL,
    AT_RANDOM_CELL,
    STEPS,
    TUNE_CELL,
    TUNED_CELL,
    UNTUNED_CELL,
    VIPERGPT_CELL,
    Table,
    ablation,
    gain,
    mined_against_random,
    second_writer,
    self_tuning,
    shots,
    trials,
)

ALL_ON = 0.15
"""Least gain of everything on over the first row, in every family."""

TOLERANCE = 0.02
"""Two points: what counts as no worse."""

_LEFT_OUT = "left out by --quick; run without it"


@dataclass(frozen=True)
class Measured:
    """What the claims can be judged on.

    Attributes:
        parts: of the data.
        grounding: those among them that ask for a place in the picture.
        tables: names of those that were measured.
        renamed: what mining again for a renamed API came to; None where it was not tried.
        quick: the rest was left out for being quick.
    """

    parts: Sequence[Part]
    grounding: Sequence[Part]
    tables: frozenset[str]
    renamed: RenamedApi | None = None
    quick: bool = False


def judged(lab: Lab, measured: Measured) -> list[Claim]:
    """All claims, in an order that stays."""
    parts = measured.parts

    def judge(table: Table, claim: str, make: Callable[[], Claim], without: str = "") -> Claim:
        if table.name in measured.tables:
            return make()
        return Claim(claim, None, _LEFT_OUT if measured.quick else without or "not measured")

    found = [_all_on(lab, part) for part in parts]
    found.append(_no_step_back(lab, parts))
    found.append(_examples_alone(lab, parts))
    found.append(_scores_matter(lab, parts))
    found.append(judge(shots(), _RANDOM_SHOTS, lambda: _random_shots(lab, parts)))
    found.append(_self_tuning(lab, measured.grounding))
    found.append(judge(trials(), _FEEDBACK, lambda: _feedback(lab, parts)))
    found += _renamed(measured)
    found.append(judge(second_writer(), _SECOND, lambda: _second(lab, parts), _NO_SECOND))
    return found


def _all_on(lab: Lab, part: Part) -> Claim:
    step = (VIPERGPT_CELL.name, TUNE_CELL.name)
    found = gain(lab, ablation(), step, [part])
    return Claim.of_gain(
        f"ViperGPT API zero-shot -> everything on: at least +15 points, {part.name}",
        found.difference,
        found.difference.value >= ALL_ON,
    )


def _no_step_back(lab: Lab, parts: Sequence[Part]) -> Claim:
    names = [cell.name for cell in STEPS]
    steps = [
        gain(lab, ablation(), step, [part])
        for part in parts
        for step in zip(names, names[1:], strict=False)
    ]
    worst = min(steps, key=lambda one: one.difference.high)
    return Claim.of_gain(
        "no step's paired interval lies below -2 points",
        worst.difference,
        worst.difference.high >= -TOLERANCE,
        f"the worst of {len(steps)} steps is {worst.name}, {worst.family}: ",
    )


def _examples_alone(lab: Lab, parts: Sequence[Part]) -> Claim:
    claim = "ACE alone: the gain's interval excludes 0 in at least two families"
    step = (ABSTRACT_CELL.name, ACE_CELL.name)
    by_part = [gain(lab, ablation(), step, [part]) for part in parts]
    sure = [one.family for one in by_part if one.difference.low > 0]
    together = gain(lab, ablation(), step, parts)
    needed = min(2, len(parts))
    each = "; ".join(f"{one.family} {in_points(one.difference)}" for one in by_part)
    return Claim.of_gain(claim, together.difference, len(sure) >= needed, f"{each}; together ")


def _scores_matter(lab: Lab, parts: Sequence[Part]) -> Claim:
    step = (AT_RANDOM_CELL.name, ACE_CELL.name)
    found = gain(lab, mined_against_random(), step, parts)
    claim = "16 mined examples beat 16 kept at random"
    return Claim.of_gain(claim, found.difference, found.difference.value > 0)


_RANDOM_SHOTS = "100 random shots are at least 16 chosen ones - 2 points"


def _random_shots(lab: Lab, parts: Sequence[Part]) -> Claim:
    found = gain(lab, shots(), ("16 chosen", "100 random"), parts)
    return Claim.of_gain(_RANDOM_SHOTS, found.difference, found.difference.value >= -TOLERANCE)


def _self_tuning(lab: Lab, grounding: Sequence[Part]) -> Claim:
    claim = "self-tuning: the gain's interval excludes 0 on referring"
    if not grounding:
        return Claim(claim, None, _NOTHING_REFERS)
    table = self_tuning([part.name for part in grounding])
    found = gain(lab, table, (UNTUNED_CELL.name, TUNED_CELL.name), grounding)
    return Claim.of_gain(claim, found.difference, found.difference.low > 0)


_NOTHING_REFERS = "no part of this data grounds expressions"

_FEEDBACK = "from scratch against feedback is reported, whichever wins"


def _feedback(lab: Lab, parts: Sequence[Part]) -> Claim:
    found = gain(lab, trials(), ("from scratch", "feedback"), parts)
    difference = found.difference
    winner = "neither is surely better"
    if difference.low > 0:
        winner = "feedback is better"
    elif difference.high < 0:
        winner = "from scratch is better"
    return Claim.of_gain(
        _FEEDBACK, found.difference, True, f"{winner}: feedback against from scratch "
    )


_RENAMED = "after the API's routines were renamed"
_NAMED = f"{_RENAMED}, check names every broken example"


def _restored_in(words: str) -> str:
    return f"{_RENAMED} in {words}, mining again restores the score within 2 points"


def _renamed(measured: Measured) -> list[Claim]:
    renamed = measured.renamed
    if renamed is None:
        why = _LEFT_OUT if measured.quick else _NOTHING_REFERS
        return [Claim(_NAMED, None, why)] + [
            Claim(_restored_in(renaming.words), None, why) for renaming in RENAMINGS
        ]
    said = (
        f"{len(renamed.broken)} of {renamed.examples} examples call a renamed routine; "
        f"check named {len(renamed.named)}"
    )
    nothing = not renamed.broken and not renamed.named
    first = Claim(_NAMED, None if nothing else renamed.named == renamed.broken, said)
    return [first] + [
        Claim.of_gain(_restored_in(words), found.difference, found.difference.value >= -TOLERANCE)
        for words, found in renamed.gains.items()
    ]


_NO_SECOND = "no second language model; name its profile with --second"
_SECOND = "with a second language model, too, everything on gains over the first row"


def _second(lab: Lab, parts: Sequence[Part]) -> Claim:
    names = list(second_writer().cells)
    found = gain(lab, second_writer(), (names[0], names[-1]), parts)
    return Claim.of_gain(_SECOND, found.difference, found.difference.low > 0)
