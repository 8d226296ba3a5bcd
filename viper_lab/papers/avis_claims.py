"""What must hold of seeking, judged on the answers and on the ways to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from viper.evaluate.intervals import Estimate, proportion
from viper.evaluate.row import mean_score
from viper_lab.papers.avis import (
    EVERYTHING,
    FAMILIES,
    FIXED,
    SEEK,
    UNGUIDED,
    Study,
    gain,
)
from viper_lab.papers.knowledge_part import KnowledgePart
from viper_lab.papers.lab import Lab
from viper_lab.papers.parts import Part
from viper_lab.papers.result import Claim

RIGHT, ABOVE_FIXED, PICKED, ADMITTED = 0.70, 0.10, 0.80, 0.80

_NOT_WORLD = "judged on the embedded knowledge world only"
_LEFT_OUT = "left out by --quick; run without it"


def judged(lab: Lab, study: Study) -> list[Claim]:
    """All claims, in an order that stays."""
    found = []
    for part in study.parts:
        found += [_above_fixed(lab, study, part), _above_everything(lab, study, part)]
        found.append(_graph(lab, study, part))
        if isinstance(part, KnowledgePart):
            found = [_right(lab, part), *found, _picked(lab, part), _admitted(lab, part)]
    if not any(isinstance(part, KnowledgePart) for part in study.parts):
        found.append(Claim("at least 70 % of questions about unseen entries", None, _NOT_WORLD))
    return found


def _right(lab: Lab, part: Part) -> Claim:
    rows = lab.all_rows(SEEK, part)
    share = proportion(sum(row.score == 1 for row in rows), len(rows))
    return _of_share("seek: at least 70 % of questions about unseen entries", share, RIGHT)


def _above_fixed(lab: Lab, study: Study, part: Part) -> Claim:
    scores = {cell.name: mean_score(lab.all_rows(cell, part)) for cell in FIXED}
    best = max(FIXED, key=lambda cell: scores[cell.name])
    step = gain(lab, study.tables[0], (best, SEEK), part)
    claim = f"{part.name}: at least 10 points above the best of three fixed sequences"
    if step is None:
        return Claim(claim, None, "no answers")
    told = f"{best.name}, {100 * scores[best.name]:.1f}: "
    return Claim.of_gain(claim, step.difference, step.difference.value >= ABOVE_FIXED, told)


def _above_everything(lab: Lab, study: Study, part: Part) -> Claim:
    claim = f"{part.name}: above the sequence that does everything (interval excludes 0)"
    step = gain(lab, study.tables[0], (EVERYTHING, SEEK), part)
    if step is None:
        return Claim(claim, None, "no answers")
    return Claim.of_gain(claim, step.difference, step.difference.low > 0)


def _graph(lab: Lab, study: Study, part: Part) -> Claim:
    claim = f"{part.name}: the transition graph is worth something (interval excludes 0)"
    if study.quick:
        return Claim(claim, None, _LEFT_OUT)
    step = gain(lab, study.tables[-1], (UNGUIDED, SEEK), part)
    if step is None:
        return Claim(claim, None, "no answers")
    return Claim.of_gain(claim, step.difference, step.difference.low > 0)


def _admitted(lab: Lab, part: Part) -> Claim:
    fits = FAMILIES["unanswerable"]
    rows = [row for row in lab.all_rows(SEEK, part) if fits(row.groups)]
    share = proportion(sum(row.score == 1 for row in rows), len(rows))
    return _of_share("unanswerable questions: says so at least 80 % of the time", share, ADMITTED)


def _picked(lab: Lab, part: KnowledgePart) -> Claim:
    """Whether the search named the right entry, whatever it then found out about it."""
    right = asked = 0
    for seed in lab.scale.seeds:
        questions = part.questions(seed)
        with lab.store_of(SEEK, part, seed) as store:
            for row in store.rows():
                question = questions[row.sample_id]
                if question.look_alike:
                    trace = store.trace(row.sample_id, row.seed) or {}
                    asked += 1
                    right += picked(trace.get("path") or ()) == question.seen
    share = proportion(right, asked)
    return _of_share("look-alikes: the right entry is picked at least 80 %", share, PICKED)


def picked(path: Sequence[Any]) -> str:
    """What a search took the thing in the picture to be; "" where it never said.

    Args:
        path: of a trace of strategy ``seek``.
    """
    visual = next((one["visual"] for one in path if "visual" in one), None)
    answers = [
        str(one.get("extracted", ""))
        for one in path
        if one.get("verdict") == "answer" and one.get("query") == visual
    ]
    return answers[-1] if answers else ""


def _of_share(claim: str, share: Estimate, least: float) -> Claim:
    told = (
        f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}], "
        f"n = {share.n:,}"
    )
    return Claim(claim, share.value >= least if share.n else None, told)
