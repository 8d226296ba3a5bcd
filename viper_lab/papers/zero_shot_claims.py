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
from viper_lab.papers.zero_shot import Ablation, TrialBench

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
        ablation: cells that the tables are made of.
    """

    parts: Sequence[Part]
    grounding: Sequence[Part]
    tables: Sequence[Table[Cell]]
    quick: bool = False
    ablation: Ablation = Ablation()

    def left_out(self, table: Table[Cell], why: str = "not measured") -> str:
        """Return why a table was left out; "" for one that was measured."""
        if table.name in {measured.name for measured in self.tables}:
            return ""
        return LEFT_OUT if self.quick else why


_NOTHING_REFERS = "no part of this data grounds expressions"
_ANOTHER_API = "the renamed routines are those of the paper's API; leave --api out"
_NO_SECOND = "no second language model; name its profile with --second"


def judged(runner: CellRunner, measured: ZeroShotParts, renamed: RenamedApi | None) -> list[Claim]:
    """Return all claims, in an order that stays.

    Args:
        renamed: what mining again for a renamed API came to; None where it was not tried.
    """
    parts, grounding, cells = measured.parts, measured.grounding, measured.ablation

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

    everything_on = (cells.vipergpt.name, cells.tune.name)
    tuning = cells.self_tuning([part.name for part in grounding])
    first, *_, last = cells.second.cells
    return [
        *(
            of_step(
                f"ViperGPT API zero-shot -> everything on: at least +15 points, {part.name}",
                cells.table_2, everything_on, ALL_ON, [part],
            )
            for part in parts
        ),
        _no_step_back(runner, measured),
        _examples_alone(runner, measured),
        of_step(
            "16 mined examples beat 16 kept at random (interval excludes 0)",
            cells.kept, (cells.at_random.name, cells.ace.name),
        ),
        of_step(
            "100 random shots are at least 16 chosen ones - 2 points",
            cells.shots, cells.shots_step, -TOLERANCE,
        ),
        of_step(
            "self-tuning: the gain's interval excludes 0 on referring",
            tuning, (cells.untuned.name, cells.tuned.name), among=grounding,
        ),
        _feedback(runner, measured),
        *_renamed(renamed, measured),
        of_step(
            "with a second language model, too, everything on gains over the first row",
            cells.second, (first, last), without=_NO_SECOND,
        ),
    ]  # fmt: skip


def _examples_alone(runner: CellRunner, measured: ZeroShotParts) -> Claim:
    parts, table = measured.parts, measured.ablation.table_2
    step = (measured.ablation.plain.name, measured.ablation.ace.name)
    by_part = [g for part in parts if (g := gain(runner, table, step, [part])) is not None]
    sure = sum(g.difference.low > 0 for g in by_part)
    each = "; ".join(
        f"{g.family} {in_points(g.difference)}, n = {g.difference.n:,}" for g in by_part
    )
    return Claim.of_gain(
        "ACE alone: the gain's interval excludes 0 in at least two families",
        gain(runner, table, step, parts),
        prefix=f"{each}; together ",
        holds=sure >= min(2, len(parts)),
    )


def _feedback(runner: CellRunner, measured: ZeroShotParts) -> Claim:
    claim = "from scratch against feedback is reported, whichever wins"
    cells = measured.ablation
    if why := measured.left_out(cells.figure_4):
        return Claim(claim, None, why)
    feedback = gain(TrialBench(runner), cells.figure_4, cells.feedback_step, measured.parts)
    winner = "neither is surely better"
    if feedback is not None and feedback.difference.low > 0:
        winner = "feedback is better"
    elif feedback is not None and feedback.difference.high < 0:
        winner = "from scratch is better"
    prefix = f"{winner}: feedback against from scratch "
    # Either may win: no figures would be against it, so it gets no verdict.
    return replace(Claim.of_gain(claim, feedback, prefix=prefix), holds=None)


def _no_step_back(runner: CellRunner, measured: ZeroShotParts) -> Claim:
    table = measured.ablation.table_2
    steps = [
        step_gain
        for part in measured.parts
        for step in pairwise(table.cells)
        if (step_gain := gain(runner, table, step, [part])) is not None
    ]
    worst = min(steps, key=lambda step: step.difference.high)
    return Claim.of_gain(
        "no step's paired interval lies below -2 points",
        worst.difference,
        prefix=f"the worst of {len(steps)} steps is {worst.name}, {worst.family}: ",
        holds=worst.difference.high >= -TOLERANCE,
    )


def _renamed(renamed: RenamedApi | None, measured: ZeroShotParts) -> list[Claim]:
    begins = "after the API's routines were renamed"
    named = f"{begins}, check names every broken example"
    restored = {
        words: f"{begins} in {words}, mining again restores the score within 2 points"
        for words in (renaming.words for renaming in RENAMINGS)
    }
    if renamed is None:
        why = _NOTHING_REFERS if not measured.grounding else _ANOTHER_API
        why = LEFT_OUT if measured.quick else why
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
