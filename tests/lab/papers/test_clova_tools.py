"""Single tools before and after: rows, gains, and the claims about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from viper.tools.models import ModelSet
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox
from viper_lab.papers import clova_tools
from viper_lab.papers.clova_claims import _noise, _same_without, _seconds, _tools
from viper_lab.papers.clova_tools import (
    ToolOutcome,
    ToolResults,
    ToolSetup,
    tool_outcome,
    tool_rows,
)
from viper_lab.scores.concepts.measurement import ToolAnswer, rows


def asked(kind: str, rights: Sequence[float]) -> list[ToolAnswer]:
    return [ToolAnswer(kind, "pyramid", f"scene {i // 2}", right) for i, right in enumerate(rights)]


def outcome(
    kind: str, before: Sequence[float], after: Sequence[float], **more: object
) -> ToolOutcome:
    old = asked(kind, [1.0] * 20)
    given = {"old": (old, old), "seconds": [10.0], "same_without": True, **more}
    return ToolOutcome((asked(kind, before), asked(kind, after)), **given)  # type: ignore[arg-type]


def tools(found: dict[str, list[ToolOutcome]], noisy: object = None) -> ToolResults:
    entries, gains = tool_rows(list(found.values()))
    return ToolResults(found, noisy, entries, gains)  # type: ignore[arg-type]


LEARNT = outcome("loc", [0.0] * 18 + [1.0] * 2, [1.0] * 19 + [0.0])


def test_rows_are_paired_question_by_question() -> None:
    (row,) = rows(*LEARNT.new)
    assert (row.before.value, row.after.value) == (0.1, 0.95)
    assert row.gain.difference.value == pytest.approx(0.85)
    with pytest.raises(ValueError, match="not answers to the same questions"):
        rows(LEARNT.new[0], LEARNT.new[1][1:])


def test_seeds_are_rows_of_one_table() -> None:
    entries, gains = tool_rows([[LEARNT, LEARNT]])
    first = entries[0]
    assert (first.name, first.family, first.n) == ("loc, before", "new", 40)
    assert first.figure.mean == pytest.approx(0.1) and first.figure.deviation == 0
    assert [(one.name, one.family) for one in gains] == [("loc", "new"), ("loc", "old")]


def test_strict_tools_must_come_from_below_to_above() -> None:
    (claim, kept, *_) = _tools(tools({"loc": [LEARNT]}), "")
    assert claim.holds and kept.holds
    assert "10.0 % [0.0, 30.0] -> 95.0 % [85.0, 100.0]: " in claim.reason
    knew = outcome("loc", [1.0] * 10 + [0.0] * 10, [1.0] * 20)
    assert not _tools(tools({"loc": [knew]}), "")[0].holds
    assert _tools(tools({"seg": [knew]}), "")[0].holds


def test_what_is_lost_on_old_concepts_counts() -> None:
    old = asked("vqa", [1.0] * 20)
    forgot = outcome("vqa", [0.0] * 20, [1.0] * 20, old=(old, asked("vqa", [1.0] * 18 + [0, 0])))
    claims = _tools(tools({"vqa": [forgot]}), "left out")
    others = [(None, "left out")] * 4
    assert [claim.holds for claim in claims[:2]] == [True, False]
    assert [(claim.holds, claim.reason) for claim in claims[2:]] == others


def test_what_the_tools_could_do_before_must_stay() -> None:
    absent = outcome("seg absent", [1.0] * 20, [1.0] * 20)
    lost = outcome("seg absent", [1.0] * 20, [1.0] * 17 + [0.0] * 3)
    assert _tools(tools({"seg": [absent]}), "")[0].holds is True
    assert _tools(tools({"seg": [lost]}), "")[0].holds is False


def test_wrong_pictures_are_counted() -> None:
    checked = outcome(
        "select", [0.0] * 20, [1.0] * 20, kept_wrong=2, wrong=100, kept_good=80, good=100
    )
    unchecked = outcome("select", [0.0] * 20, [1.0] * 8 + [0.0] * 12)
    found = _noise(tools({"match": [checked]}, ([checked], [unchecked])), "")
    assert [claim.holds for claim in found] == [True, True, True]
    assert found[0].reason == "98.0 % [93.0, 99.4], n = 100"
    loose = replace(checked, kept_wrong=6, kept_good=74)  # intervals from 87.5 and from 64.6
    found = _noise(tools({"match": [loose]}, ([loose], [loose])), "")
    assert [claim.holds for claim in found] == [False, False, False]
    few = replace(checked, kept_wrong=0, wrong=10)
    assert _noise(tools({"match": [few]}, ([few], [few])), "")[0].holds is None


def test_what_was_not_measured_is_open() -> None:
    for claims in (_tools(None, "why"), _noise(None, "why"), _seconds(None, "why")):
        assert all(claim.holds is None and claim.reason == "why" for claim in claims)
    assert _same_without(None, "why").holds is None


def test_the_slowest_concept_decides() -> None:
    slow = outcome("select", [0.0], [1.0], seconds=[10.0, 61.0])
    (claim, other) = _seconds(tools({"match": [slow]}), "why")
    assert claim.holds is False and "61.0 s" in claim.reason and other.holds is None


def test_one_changed_answer_without_the_pool_breaks_the_claim() -> None:
    changed = outcome("select", [0.0], [1.0], same_without=False)
    assert _same_without(tools({"match": [LEARNT, changed]}), "").holds is False


def test_what_was_measured_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []

    def measured(*_: object) -> ToolOutcome:
        counted.append(1)
        return LEARNT

    monkeypatch.setattr(clova_tools, "_measured", measured)
    toolbox, setup = Toolbox(ModelSet({}), ToolSettings()), ToolSetup("loc", 0)
    first = tool_outcome(toolbox, setup, tmp_path, print)
    again = tool_outcome(toolbox, setup, tmp_path, print)
    assert len(counted) == 1 and again == first
    tool_outcome(toolbox, ToolSetup("loc", 1), tmp_path, print)
    assert len(counted) == 2


def test_prompts_of_decoders_are_a_table_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setups: list[ToolSetup] = []

    def measured(toolbox: Toolbox, setup: ToolSetup, *_: object) -> ToolOutcome:
        setups.append(setup)
        return LEARNT

    monkeypatch.setattr(clova_tools, "tool_outcome", measured)
    given = (Toolbox(ModelSet({}), ToolSettings()), ToolSetup("", 0), tmp_path, (0,), print)
    found = clova_tools.measured_tools(*given, quick=False)
    assert [each.tool for each in setups if each.decoder] == ["loc", "seg"]
    assert "tools, prompts of a decoder" in {cell.table for cell in found.entries}
    setups.clear()
    clova_tools.measured_tools(*given, quick=True)
    assert not any(each.decoder for each in setups)


def test_both_forms_have_outcomes_of_their_own() -> None:
    probe, decoder = ToolSetup("loc", 0), ToolSetup("loc", 0, decoder=True)
    assert clova_tools.slug_of(probe) != clova_tools.slug_of(decoder)
