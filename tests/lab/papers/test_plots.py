"""The plots of a reproduction: which kind a table gets, and what stands in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

import pytest

from viper.evaluate.intervals import Estimate, OverSeeds
from viper_lab.papers.plots import CurvePoint, apart, curves_of, gain_plot, place_of, score_plot
from viper_lab.papers.report import page
from viper_lab.papers.result import Gain, Reproduction, TableCell
from viper_lab.papers.zero_shot import Ablation

PAPER = Ablation()

FAMILIES = ("referring", "question", "video")


def rows_of(
    names: Sequence[str], families: Sequence[str] = FAMILIES, table: str = "t"
) -> list[TableCell]:
    return [
        TableCell(table, name, family, OverSeeds(0.05 * index, 0.02, 3), 60)
        for index, name in enumerate(names)
        for family in families
    ]


def texts(svg: str) -> list[str]:
    """What can be read in a drawing."""
    root = ElementTree.fromstring(svg)
    return ["".join(one.itertext()) for one in root.iter() if one.tag.endswith("text")]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("0 examples", ("… examples", 0, "")),
        ("1 example", ("… examples", 1, "")),
        ("4 by BM25", ("… by BM25", 4, "")),
        ("from scratch, dynamic threshold, 1 trial",
         ("from scratch, dynamic threshold", 1, "trials")),
        ("feedback, 5 trials", ("feedback", 5, "trials")),
        ("abstract API, temperature 0.4", ("abstract API", 0.4, "temperature")),
        ("abstract API, detector.threshold 0.075", ("abstract API", 0.075, "detector.threshold")),
        ("100 random", ("… random", 100, "")),
        ("BM25", None),
        ("+ ACE", None),
        ("version 1.2.3", None),
    ],
)  # fmt: skip
def test_a_number_in_a_name(name: str, place: tuple[str, float, str] | None) -> None:
    assert place_of(name) == (None if place is None else CurvePoint(*place))


def test_which_tables_are_curves() -> None:
    names = {
        table.name: (
            [f"{name}, {count} trial{'s' if count > 1 else ''}"
             for name in table.cells for count in range(1, 6)]
            if table.trials else list(table.cells)
        )
        for table in (
            PAPER.table_2, PAPER.kept, PAPER.figure_2, PAPER.figure_3, PAPER.figure_4,
            PAPER.shots, PAPER.temperatures(0.4), PAPER.voting, PAPER.second,
            PAPER.thresholds("detector.threshold", [0.05, 0.1, 0.2], FAMILIES[:1]),
        )
    }  # fmt: skip
    found = {table: curves_of(rows_of(rows)) for table, rows in names.items()}
    assert {table: list(one.series) for table, one in found.items() if one is not None} == {
        "figure 3": [
            f"{api} API{how}" for api in ("ViperGPT", "abstract") for how in ("", " by BM25")
        ],
        "figure 4": list(PAPER.figure_4.cells),
        "tables 5 and 6": [
            f"… {how}, {api} API"
            for api in ("ViperGPT", "abstract")
            for how in ("chosen", "random")
        ],
        "table 3": ["ViperGPT API", "abstract API"],
        "table 4": ["ViperGPT API", "abstract API"],
    }
    shots, trials = found["tables 5 and 6"], found["figure 4"]
    assert shots is not None and list(shots.levels) == [
        "no examples, ViperGPT API", "no examples, abstract API",
    ]  # fmt: skip
    assert shots.counted == ""
    assert trials is not None and trials.counted == "trials"


def test_curves_have_a_panel_for_each_family() -> None:
    names = ["no examples", *(f"feedback, {count} trials" for count in (1, 2, 4))]
    rows = rows_of(names)[1:]  # the first family has no level, and its name is read all the same
    found = texts(score_plot("figure 4", rows))
    for shown in (*FAMILIES, "feedback", "no examples", "trials", "score, in points", "1", "4"):
        assert found.count(shown) >= 1, shown
    assert found.count("feedback") == 1


def test_bars_tell_families_by_hatch() -> None:
    svg = score_plot("table 2", rows_of(["ViperGPT API", "+ ACE"]))
    assert {"ViperGPT API", "+ ACE", *FAMILIES} <= set(texts(svg))
    assert len(re.findall("<pattern", svg)) == 2  # the first family's bars are plain
    assert "url(#" in svg and "#0" not in re.sub(r"url\(#|href=\"#", "", svg)


def test_gains_stand_at_a_line_at_zero() -> None:
    long = "from scratch, dynamic threshold -> feedback, dynamic threshold"
    steps = [
        Gain("t", name, family, Estimate(value, 9, value - 0.05, value + 0.05))
        for name, value in (("a -> b", 0.1), (long, -0.1))
        for family in FAMILIES
    ]
    svg = gain_plot("t", steps)
    found = texts(svg)
    assert {"a → b", "0", *FAMILIES, "gain, in points"} <= set(found)
    assert "from scratch, dynamic threshold →" in found and "feedback, dynamic threshold" in found
    assert svg.count("stroke-dasharray") == 1


def test_a_step_that_one_family_lacks() -> None:
    steps = [
        Gain("t", "a", "x", Estimate(0.0, 1, 0.0, 0.0)),
        Gain("t", "b", "y", Estimate(0.1, 9, 0.0, 0.2)),
    ]
    assert {"a", "b", "x", "y"} <= set(texts(gain_plot("t", steps)))


def test_labels_of_numbers_that_lie_close_are_left_out() -> None:
    assert apart([0, 1, 2, 4, 8, 16], 2.4) == [0, 1, 2, 4, 8, 16]
    assert apart([0.05, 0.075, 0.1, 0.15, 0.2], 1.5) == [0.05, 0.1, 0.15, 0.2]
    assert apart([3], 1) == [3] and apart([], 1) == []


def test_every_plot_of_a_page_has_a_name_of_its_own() -> None:
    rows = [
        row
        for number in (2, 3, 4)
        for row in rows_of([f"{count} examples" for count in (0, 1, 2)], table=f"figure {number}")
    ]
    step = Gain("figure 3", "0 examples -> 2 examples", "video", Estimate(0.1, 9, 0.0, 0.2))
    text = page(Reproduction("Curves", rows, [step], []))
    names = re.findall(r'<svg role="img" aria-labelledby="([^"]+)"', text)
    assert len(set(names)) == len(names) == 4
    for name in names:
        assert text.count(f'<title id="{name}">') == 1
    assert "<title" in text and "figure 3: gains with 95% intervals" in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(set(ids)) == len(ids)
