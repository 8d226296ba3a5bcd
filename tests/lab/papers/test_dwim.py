"""The table of tuned agents and what must hold of them, with agents that are asked nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from tests.tuning.agent.turns import COUNT, DONE, FIND, STORE, code, workflow
from tests.tuning.agent.turns import WHOLE as WHOLE_IMAGE
from viper.evaluate.awareness import Awareness, awareness
from viper.strategies.explore.workflow import Workflow
from viper.tuning.agent.training import TuneSettings
from viper_lab.papers.dwim import (
    ABANDONED,
    BY_CAUSE,
    OF_A_QUESTION,
    OF_WRONG,
    RIGHT_OF_TOOLS,
    WHOLE,
    answers,
    awareness_rows,
    judged,
    of_use,
    right_answers,
    tool_rows,
    utilisation,
)
from viper_lab.papers.dwim_study import (
    FROZEN,
    MASKED,
    SFT,
    UNTUNED,
    AgentVariant,
    DwimScale,
    DwimStudy,
)
from viper_lab.papers.report import as_text, page
from viper_lab.papers.result import Reproduction
from viper_lab.papers.tables import entries, gain

COUNT_OF = 200


@dataclass
class Fake:
    """Shares of right workflows by mode, and of right answers by agent."""

    made_right: dict[str, float]
    right: dict[str, float]
    copied: float = 0.0
    scale: DwimScale = field(
        default_factory=lambda: DwimScale(COUNT_OF, COUNT_OF, (0, 1), TuneSettings())
    )

    def made(self, seed: int, mode: str) -> list[Workflow]:
        found = some(self.made_right.get(mode, 0.0), mode)
        copies = int(self.copied * COUNT_OF) if mode == "given" else 0
        return [replace(one, outcome="copied") if n < copies else one
                for n, one in enumerate(reversed(found))]  # fmt: skip

    def examples(self, seed: int, most: int) -> list[str]:
        return ["solved"] * (5 + seed)

    def answers(self, agent: AgentVariant, seed: int) -> list[Workflow]:
        return some(self.right.get(agent.name, 0.0), "standard")


def some(share: float, mode: str) -> list[Workflow]:
    right = workflow(FIND, COUNT, STORE, DONE, manner=mode)
    wrong = workflow(WHOLE_IMAGE, code("final_answer = answer", "3"), DONE, manner=mode)
    count = round(share * COUNT_OF)
    return [replace(right if n < count else wrong, id=f"s{n}") for n in range(COUNT_OF)]


def fake(made: dict[str, float], right: dict[str, float], **more: Any) -> DwimStudy:
    return cast(DwimStudy, Fake(made, right, **more))


def test_utilisation_says_what_was_copied() -> None:
    study = fake({"standard": 0.5, "given": 0.6, "discrepancy": 0.75}, {}, copied=0.2)
    rows = {one.name: one for one in entries(of_use(study), utilisation(), WHOLE)}
    assert rows["standard"].figure.mean == 0.5 and rows["discrepancy"].n == 2 * COUNT_OF
    assert rows["given"].note == "20.0 % more copied the answer" and not rows["standard"].note
    found = gain(of_use(study), utilisation(), ("standard", "discrepancy"), WHOLE)
    assert found is not None
    assert found.difference.value == pytest.approx(0.25) and found.difference.low > 0


def test_agents_are_paired_by_sample() -> None:
    study = fake({}, {UNTUNED.name: 0.5, MASKED.name: 0.75, SFT.name: 0.5})
    cells = list(entries(answers(study), right_answers(), WHOLE))
    rows = {one.name: one.figure.mean for one in cells}
    assert rows[MASKED.name] == 0.75 and len(rows) == 11
    notes = {one.name: one.note for one in cells if one.note}
    assert notes == {FROZEN.name: "5 or 6 examples in its prompts"}
    step = (UNTUNED.name, MASKED.name)
    found = gain(answers(study), right_answers(), step, WHOLE)
    assert found is not None and found.difference.value == pytest.approx(0.25)


def aware(calls: int, wrong_tool: int, wrong: int) -> list[Awareness]:
    """Of one seed: so many calls of a question, so many wrong answers, some for a wrong tool."""
    found = awareness(some(1 - wrong / COUNT_OF, "standard"))
    each = []
    for number, one in enumerate(reversed(found.each)):
        cause = "wrong tool" if number < wrong_tool else "wrong logic" if number < wrong else ""
        each.append(replace(one, calls=calls + number % 2, cause=cause))
    made = replace(found, each=tuple(each), calls=replace(found.calls, value=calls + 0.5))
    return [made, made]


@pytest.mark.parametrize(
    ("after", "holds"),
    [
        ((0.75, 2, 20, 50), [True, True, True, True, True, True, True]),
        ((0.75, 2, 45, 50), [True, True, True, True, True, True, False]),
        ((0.55, 3, 90, 90), [True, True, False, False, False, False, False]),
    ],
)
def test_claims(after: tuple[float, int, int, int], holds: list[bool]) -> None:
    right, calls, wrong_tool, wrong = after
    study = fake(
        {"standard": 0.5, "discrepancy": 0.8},
        {UNTUNED.name: 0.5, FROZEN.name: 0.6, MASKED.name: right},
    )
    found = judged(
        study, {UNTUNED.name: aware(3, 90, 100), MASKED.name: aware(calls, wrong_tool, wrong)}
    )
    assert [one.holds for one in found] == holds
    fallen = found[5].reason
    assert fallen.startswith("45.0 % [") and f"-> {100 * wrong_tool / COUNT_OF:.1f} % [" in fallen
    assert f"of 100 -> {100 * wrong_tool / wrong:.1f} % [" in found[6].reason


def test_rows_of_awareness() -> None:
    rows = list(awareness_rows({MASKED.name: aware(2, 20, 50)}))
    found = {(one.table, one.family): one for one in rows}
    assert found[OF_A_QUESTION, "calls of tools"].figure.mean == 2.5
    assert found[BY_CAUSE, "wrong tool"].figure.mean == 0.1
    assert found[OF_WRONG, "wrong tool"].figure.mean == 0.4
    assert found[OF_WRONG, "wrong tool"].n == 50


def test_rows_by_tool_stand_beside_each_other_in_numbers_and_in_points() -> None:
    before, after = ([awareness(some(right, "standard"))] * 3 for right in (0.0, 1.0))
    rows = [*awareness_rows({UNTUNED.name: before}), *tool_rows(before, after)]
    found = {(one.table, one.name, one.family): one for one in rows}
    asked = found[RIGHT_OF_TOOLS, "simple_query", "not tuned"]
    counted = found[RIGHT_OF_TOOLS, "find", "tuned"]
    assert (asked.figure.mean, counted.figure.mean) == (0, 1) and asked.n == counted.n == COUNT_OF
    assert asked.figure.n == 2 and asked.figure.deviation == 0
    assert found[ABANDONED, "simple_query", "not tuned"].figure.mean == 0
    text = as_text(Reproduction("x", rows, [], []))
    assert "turns" in text and "3.00" in text and "100.0" in text
    shown = page(Reproduction("x", rows, [], []))
    assert "Mean of a question" in shown
    unit = found["sections 11 and 14: of a question", UNTUNED.name, "turns"].to_json()["unit"]
    assert unit == "a question" and "unit" not in asked.to_json()
