"""``reproduce look``: each claim is borne out by good figures, and fails on figures against it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from viper.evaluate.sample_result import SampleResult
from viper.models.llm.messages import Picture, pictures_of
from viper.models.llm.scripted import ScriptedLLM
from viper.prompting.exploring import compact_look_opening
from viper_lab.datasets.fine import KINDS
from viper_lab.papers.cell_runner import Cell, Scale
from viper_lab.papers.look import ChangedPrompts, FinePart, LookStudy
from viper_lab.papers.result import Claim
from viper_lab.recipes.looker_episodes import AT_ONCE

Right = Callable[[str, str, int], bool]
"""Of a cell's name, a kind and a number."""


class FakeRunner:
    scale = Scale(70, (0,))

    def __init__(self, right: Right) -> None:
        self.right = right

    def all_results(self, cell: Cell, part: FinePart) -> list[SampleResult]:
        return [
            SampleResult(f"test-0-{kind}-{n}", 0, float(self.right(cell.name, kind, n)))
            for kind in KINDS
            for n in range(20)
        ]

    def model_ids(self) -> dict[str, str]:
        return {}


def claims(right: Right) -> list[Claim]:
    study = LookStudy(FinePart("test"), quick=True)
    return list(study.reproduce(cast(Any, FakeRunner(right))).claims)


def good(cell: str, kind: str, number: int) -> bool:
    return number < 18 and (kind == "dots" or cell == "look")


def test_good_figures_bear_the_claims_out() -> None:
    assert [claim.holds for claim in claims(good)] == [True] * 4


@pytest.mark.parametrize(
    ("failing", "right"),
    [
        (0, lambda cell, kind, n: good(cell, kind, n) and n < 9),
        (1, lambda cell, kind, n: good(cell, kind, n) or (cell == "one program" and n < 16)),
        (2, lambda cell, kind, n: good("look", kind, n)),
        (
            3,
            lambda cell, kind, n: (
                good(cell, kind, n) and (cell != "look" or kind != "dots" or n > 0)
            ),
        ),
    ],
    ids=["right", "lead", "seeing", "blind kinds"],
)
def test_figures_against_a_claim_fail_it(failing: int, right: Right) -> None:
    assert claims(right)[failing].holds is False


@pytest.mark.parametrize(("way", "count"), [("blind", 0), ("whole", 1), ("tiles", 12)])
def test_what_the_rivals_are_shown(way: str, count: int) -> None:
    llm = ScriptedLLM(lambda prompt: "The answer is A.")
    picture = Picture(np.zeros((768, 1024, 3), np.uint8))
    prompt = compact_look_opening("what is it?", (), [picture], 6)
    ChangedPrompts(llm, way)._changed(prompt)
    changed = ChangedPrompts(llm, way)._changed(prompt)
    assert len(pictures_of(changed)) == count
    assert (AT_ONCE in str(changed)) == (way != "blind")
