"""What must hold of the ablation, judged on its cells.

Every claim is listed whatever was measured; one whose cells were left out is neither true nor
false, and says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from viper_lab.papers.cell_runner import Cell, CellRunner
from viper_lab.papers.parts import Part
from viper_lab.papers.renamed_api import RENAMINGS, RenamedApi
from viper_lab.papers.result import Claim, in_points
from viper_lab.papers.tables import LEFT_OUT, Table, gain
from viper_lab.papers.zero_shot import (
    ABLATION,
    ABSTRACT_CELL,
    ACE_CELL,
    AT_RANDOM_CELL,
    KEPT,
    SECOND,
    SHOTS,
    STEPS,
    TRIALS_TABLE,
    TUNE_CELL,
    TUNED_CELL,
    UNTUNED_CELL,
    VIPERGPT_CELL,
    self_tuning,
)

# Least gain of everything on over the first row, in every family.
ALL_ON = 0.15

# Two points: what counts as no worse.
TOLERANCE = 0.02


@dataclass(frozen=True)
class ZeroShotParts:
    """What is measured, and claims are judged on.

    Attributes:
        parts: of the data.
        grounding: those among them whose samples ask for a place in the picture.
        tables: what judges the main claims first.
        quick: the rest was left out.
    """

    parts: Sequence[Part]
    grounding: Sequence[Part]
    tables: Sequence[Table[Cell]]
    quick: bool = False

    def left_out(self, table: Table[Cell], why: str = "not measured") -> str:
        """Return why a table was left out; "" for one that was measured."""
        if table.name in {measured.name for measured in self.tables}:
            return ""
        return LEFT_OUT if self.quick else why


_NOTHING_REFERS = "no part of this data grounds expressions"
_NO_SECOND = "no second language model; name its profile with --second"


def judged(runner: CellRunner, measured: ZeroShotParts, renamed: RenamedApi | None) -> list[Claim]:
    """Return all claims, in an order that stays.

    Args:
        renamed: what mining again for a renamed API came to; None where it was not tried.
    """
    parts, grounding = measured.parts, measured.grounding

    def of_step(
        claim: str,
        table: Table[Cell],
        step: tuple[str, str],
        least: float = 0.0,
        among: Sequence[Part] = parts,
        without: str = "not measured",
    ) -> Claim:
        if not among:
            return Claim(claim, None, _NOTHING_REFERS)
        if why := measured.left_out(table, without):
            return Claim(claim, None, why)
        return Claim.of_gain(claim, gain(runner, table, step, among), least)

    everything_on = (VIPERGPT_CELL.name, TUNE_CELL.name)
    tuning = self_tuning([part.name for part in grounding])
    first, *_, last = SECOND.cells
    return [
        *(
            of_step(
                f"ViperGPT API zero-shot -> everything on: at least +15 points, {part.name}",
                ABLATION, everything_on, ALL_ON, [part],
            )
            for part in parts
        ),
        _no_step_back(runner, parts),
        _examples_alone(runner, parts),
        of_step(
            "16 mined examples beat 16 kept at random (interval excludes 0)",
            KEPT, (AT_RANDOM_CELL.name, ACE_CELL.name),
        ),
        of_step(
            "100 random shots are at least 16 chosen ones - 2 points",
            SHOTS, ("16 chosen", "100 random"), -TOLERANCE,
        ),
        of_step(
            "self-tuning: the gain's interval excludes 0 on referring",
            tuning, (UNTUNED_CELL.name, TUNED_CELL.name), among=grounding,
        ),
        _feedback(runner, measured),
        *_renamed(renamed, measured.quick),
        of_step(
            "with a second language model, too, everything on gains over the first row",
            SECOND, (first, last), without=_NO_SECOND,
        ),
    ]  # fmt: skip


def _examples_alone(runner: CellRunner, parts: Sequence[Part]) -> Claim:
    step = (ABSTRACT_CELL.name, ACE_CELL.name)
    by_part = [g for part in parts if (g := gain(runner, ABLATION, step, [part])) is not None]
    sure = sum(g.difference.low > 0 for g in by_part)
    each = "; ".join(
        f"{g.family} {in_points(g.difference)}, n = {g.difference.n:,}" for g in by_part
    )
    return Claim.of_gain(
        "ACE alone: the gain's interval excludes 0 in at least two families",
        gain(runner, ABLATION, step, parts),
        prefix=f"{each}; together ",
        holds=sure >= min(2, len(parts)),
    )


def _feedback(runner: CellRunner, measured: ZeroShotParts) -> Claim:
    claim = "from scratch against feedback is reported, whichever wins"
    if why := measured.left_out(TRIALS_TABLE):
        return Claim(claim, None, why)
    feedback = gain(runner, TRIALS_TABLE, ("from scratch", "feedback"), measured.parts)
    winner = "neither is surely better"
    if feedback is not None and feedback.difference.low > 0:
        winner = "feedback is better"
    elif feedback is not None and feedback.difference.high < 0:
        winner = "from scratch is better"
    prefix = f"{winner}: feedback against from scratch "
    # Either may win: no figures would be against it, so it gets no verdict.
    return replace(Claim.of_gain(claim, feedback, prefix=prefix), holds=None)


def _no_step_back(runner: CellRunner, parts: Sequence[Part]) -> Claim:
    steps = [
        step_gain
        for part in parts
        for before, after in pairwise(STEPS)
        if (step_gain := gain(runner, ABLATION, (before.name, after.name), [part])) is not None
    ]
    worst = min(steps, key=lambda step: step.difference.high)
    return Claim.of_gain(
        "no step's paired interval lies below -2 points",
        worst.difference,
        prefix=f"the worst of {len(steps)} steps is {worst.name}, {worst.family}: ",
        holds=worst.difference.high >= -TOLERANCE,
    )


def _renamed(renamed: RenamedApi | None, quick: bool) -> list[Claim]:
    begins = "after the API's routines were renamed"
    named = f"{begins}, check names every broken example"
    restored = {
        words: f"{begins} in {words}, mining again restores the score within 2 points"
        for words in (renaming.words for renaming in RENAMINGS)
    }
    if renamed is None:
        why = LEFT_OUT if quick else _NOTHING_REFERS
        return [Claim(claim, None, why) for claim in (named, *restored.values())]
    counts = (
        f"{len(renamed.broken)} of {renamed.examples} examples call a renamed routine; "
        f"check named {len(renamed.named)}"
    )
    nothing = not renamed.broken and not renamed.named
    first = Claim(named, None if nothing else renamed.named == renamed.broken, counts)
    return [first] + [
        Claim.of_gain(restored[words], restored_gain.difference, -TOLERANCE)
        for words, restored_gain in renamed.gains.items()
    ]
