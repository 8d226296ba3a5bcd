"""Each claim of each reproduction is borne out by good figures, and fails on figures against it.

Claims of ``zero-shot`` stand in ``test_zero_shot_claims.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, cast

import pytest

from tests.lab.papers.fake_runner import FakeRunner, share
from tests.lab.papers.test_clova_tools import asked, outcome, tools
from tests.lab.papers.test_dwim import aware, fake
from viper.evaluate.intervals import Estimate, proportion
from viper.evaluate.sample_result import SampleResult
from viper_lab.papers import avis, clova_claims, dwim
from viper_lab.papers.avis import EVERYTHING, FIXED, UNGUIDED, AvisStudy
from viper_lab.papers.cell_runner import Cell, CellRunner
from viper_lab.papers.clova_tools import ToolOutcome, ToolResults
from viper_lab.papers.dwim_study import FROZEN, MASKED, UNTUNED
from viper_lab.papers.method_runner import Subject
from viper_lab.papers.parts import KnowledgePart, Part
from viper_lab.papers.result import Claim

Judged = Mapping[str, bool | None]
"""The verdict on each claim, by its words."""


def verdicts(claims: Sequence[Claim]) -> Judged:
    return {claim.claim: claim.holds for claim in claims}


# CLOVA: outcomes of tools, and what methods gained

ALL_RIGHT = [1.0] * 60
GAIN, SAME = Estimate(0.3, 200, 0.26, 0.34), Estimate(0.0, 200, 0.0, 0.0)


def learned(kind: str, before: int = 6, after: int = 57, **more: object) -> ToolOutcome:
    """Return 60 questions about new concepts with these numbers of right answers."""
    rights = ([1.0] * count + [0.0] * (60 - count) for count in (before, after))
    old = asked(kind, ALL_RIGHT)
    return outcome(kind, *rights, **{"old": (old, old), **more})


def forgot(kind: str) -> ToolOutcome:
    return learned(kind, old=(asked(kind, ALL_RIGHT), asked(kind, [1.0] * 57 + [0.0] * 3)))


VALIDATED = learned("select", kept_wrong=2, wrong=100, kept_good=80, good=100)
KINDS = {"loc": "loc", "seg": "seg", "match": "select", "vqa": "vqa", "replace": "replace"}


def clova(
    new: Estimate = GAIN,
    old: Estimate = SAME,
    checked: ToolOutcome = VALIDATED,
    unchecked: ToolOutcome | None = None,
    **outcomes: ToolOutcome,
) -> Judged:
    by_tool = {tool: [outcomes.get(tool, learned(kind))] for tool, kind in KINDS.items()}
    results: ToolResults = tools(by_tool, ([checked], [unchecked or learned("select", 6, 30)]))
    subjects = Subject("new", "world-reserved", "test:new", "train:new"), Subject("old", "w", "x")
    ended = list(zip(subjects, (new, old), strict=True))
    claims = clova_claims.judged(ended, results, quick=False)
    return verdicts([claim for claim in claims if "measured apart" not in claim.reason])


# DWIM: workflows, agents' answers and their awareness


def dwim_claims(
    made: float = 0.8,
    untuned: float = 0.5,
    frozen: float = 0.6,
    tuned: float = 0.75,
    calls: int = 2,
    spread: int = 0,
    before: tuple[int, int] = (90, 100),
    after: tuple[int, int] = (20, 50),
) -> Judged:
    study = fake(
        {"standard": 0.5, "discrepancy": made},
        {UNTUNED.name: untuned, FROZEN.name: frozen, MASKED.name: tuned},
    )
    tuned_aware = aware(calls, *after)
    each = tuple(
        replace(sample, calls=sample.calls + spread * (-1) ** number)
        for number, sample in enumerate(tuned_aware[0].each)
    )
    by_agent = {UNTUNED.name: aware(3, *before), MASKED.name: [replace(tuned_aware[0], each=each)]}
    return verdicts(dwim.judged(study, by_agent))


# AVIS: scores of cells, and the names that searches gave


class KnownPart(KnowledgePart):
    """Asks about entries that all have look-alikes and the name Velora."""

    def questions(self, seed: int) -> Any:
        known = SimpleNamespace(look_alike=True, seen="Velora")
        return {f"{self.name}-{seed}-{number}": known for number in range(40)}


class SeekStore:
    """Traces in which a share of the searches gives the right name."""

    def __init__(self, results: Sequence[SampleResult], named: float) -> None:
        self._results, self._named = results, named

    def __enter__(self) -> SeekStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, _: TracebackType | None
    ) -> None:
        return None

    def rows(self) -> Sequence[SampleResult]:
        return self._results

    def trace(self, sample_id: str, seed: int) -> dict[str, Any]:
        is_named = int(sample_id.rpartition("-")[2]) < 40 * self._named
        name, visual = "Velora" if is_named else "Tarnix", "what is it called?"
        later = {"query": f"who makes {name}?", "verdict": "answer", "extracted": "Velora"}
        found = {"query": visual, "verdict": "answer", "extracted": name}
        return {"path": [{"visual": visual}, found, later]}


class SeekRunner(FakeRunner):
    """Attributes: ``named``, the share of look-alikes that are named right."""

    named = 0.95

    def store_of(self, cell: Cell, part: Part, seed: int) -> Any:  # type: ignore[override]
        return SeekStore(self.results(cell, cast(Any, part), seed), self.named)


SEEKING = {
    "seek": 0.9,
    "seek @ unanswerable": 0.95,
    EVERYTHING.name: 0.6,
    UNGUIDED.name: 0.7,
    **{cell.name: 0.3 for cell in FIXED},
}


def avis_claims(named: float = 0.95, **shares: float) -> Judged:
    groups = {"answerable": "no", "look_alike": "yes"}
    names = {"everything": EVERYTHING.name, "unguided": UNGUIDED.name, "fixed": FIXED[1].name,
             "unanswerable": "seek @ unanswerable"}  # fmt: skip
    changed = {names.get(name, name): value for name, value in shares.items()}
    runner = SeekRunner(share({**SEEKING, **changed}), groups=lambda number: groups)
    runner.named = named
    part = KnownPart(Path("unused"), 40, "test")
    return verdicts(avis.judged(cast(CellRunner, runner), AvisStudy([part])))


Reproduced = Callable[..., Judged]

AGAINST: list[tuple[Reproduced, str, dict[str, Any]]] = [
    *((clova, f"{kind}: from at most 35 %", {tool: learned(kind, before, after)})
      for tool, kind in KINDS.items() if tool in ("loc", "match")
      for before, after in ((30, 57), (6, 50))),
    *((clova, f"{kind}: a gain on reserved concepts", {tool: learned(kind, 30, 31)})
      for tool, kind in KINDS.items() if tool not in ("loc", "match")),
    *((clova, f"{kind}: at most 1 point lost on old", {tool: forgot(kind)})
      for tool, kind in KINDS.items()),
    (clova, "answers, new: at least +25 points", {"new": Estimate(0.3, 200, 0.2, 0.4)}),
    (clova, "answers about old concepts", {"old": Estimate(0.0, 200, -0.02, 0.02)}),
    (clova, "with the pools removed", {"vqa": learned("vqa", same_without=False)}),
    (clova, "30 % wrong pictures: validation discards",
     {"checked": replace(VALIDATED, kept_wrong=6)}),
    (clova, "30 % wrong pictures: validation keeps", {"checked": replace(VALIDATED, kept_good=74)}),
    (clova, "30 % wrong pictures: without validation", {"unchecked": learned("select")}),
    (clova, "match: one concept learned within 60 s",
     {"match": learned("select", seconds=[9, 61])}),
    (clova, "loc: one concept learned within 180 s", {"loc": learned("loc", seconds=[181, 9])}),
    (dwim_claims, "data utilisation", {"made": 0.5}),
    (dwim_claims, "not tuned: at least 40 % right", {"before": (90, 110)}),
    (dwim_claims, "instruct-masking: at least 10 points", {"tuned": 0.62}),
    (dwim_claims, "instruct-masking: above not tuned with examples", {"frozen": 0.75}),
    (dwim_claims, "a question takes fewer calls", {"calls": 3}),
    (dwim_claims, "a question takes fewer calls", {"spread": 20}),
    (dwim_claims, "of all answers, those that are wrong", {"after": (70, 160)}),
    (dwim_claims, "of the wrong answers, those for a wrong tool", {"after": (35, 50)}),
    (avis_claims, "seek: at least 70 %", {"seek": 0.75}),
    (avis_claims, "knowledge: at least 10 points above", {"fixed": 0.8}),
    (avis_claims, "knowledge: above the sequence that does everything", {"everything": 0.9}),
    (avis_claims, "knowledge: the transition graph", {"unguided": 0.9}),
    (avis_claims, "look-alikes: the right entry", {"named": 0.8}),
    (avis_claims, "unanswerable questions: says so", {"unanswerable": 0.825}),
]  # fmt: skip


@pytest.mark.parametrize("reproduced", [clova, dwim_claims, avis_claims])
def test_good_figures_bear_out_every_claim_and_each_has_figures_against_it(
    reproduced: Reproduced,
) -> None:
    judged = reproduced()
    assert set(judged.values()) == {True}
    against = {begins for other, begins, _ in AGAINST if other is reproduced}
    untested = [words for words in judged if not words.startswith(tuple(against))]
    assert untested == []


@pytest.mark.parametrize(("reproduced", "begins", "changes"), AGAINST)
def test_a_claim_fails_on_figures_against_it(
    reproduced: Reproduced, begins: str, changes: dict[str, Any]
) -> None:
    judged = reproduced(**changes)
    assert [holds for words, holds in judged.items() if words.startswith(begins)] == [False]


def test_a_share_of_too_few_answers_is_open() -> None:
    few, many = (Claim.of_share("…", proportion(n, n), 0.7) for n in (4, 40))
    assert few.holds is None and "too few to judge" in few.reason
    assert many.holds is True


def test_half_a_point_is_no_right_answer() -> None:
    runner = SeekRunner(lambda cell, part, seed, number: 0.5, groups=lambda number: {})
    part = KnownPart(Path("unused"), 40, "test")
    claims = avis.judged(cast(CellRunner, runner), AvisStudy([part]))
    assert claims[0].claim.startswith("seek: at least 70 %") and claims[0].holds is False
