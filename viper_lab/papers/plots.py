"""The tables of a reproduction as plots: bars, curves, gains with their intervals.

Families and series are told by hatch, mark and dash, never by colour: a plot can be read in print
and by colour-blind people.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from viper.escape import for_terminal
from viper.evaluate.reports.plots import BAR, INK, PAPER, drawing
from viper_lab.papers.result import Gain, TableCell

# Lines only: a pattern of dots is 150 KB of SVG.
_HATCHES = ("", "////", "xxxx", "----", "\\\\\\\\", "||||", "++++", "//--")
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("-", "--", ":", "-.")

_WIDTH_IN = 7.2
_LINE_IN, _LEGEND_IN, _AXIS_IN = 0.16, 0.24, 0.5
# Characters of a row's label on one line, and in all.
_LABEL, _LONGEST = 36, 150
# A series of fewer is no curve.
_CURVE_POINTS = 3
_COLUMNS, _PANEL_IN = 3, 1.9


T = TypeVar("T", TableCell, Gain)


# Draws the rows of a family: gets the axes, the rows, their lines in inches, its number.
_Draw = Callable[[Any, Sequence[T], Sequence[float], int], None]
# Gets the axes with all rows.
_Finish = Callable[[Any], None]


class CurvePoint(NamedTuple):
    """Where a row stands on a curve: its series, the number, and what is counted ("" if unsaid)."""

    series: str
    x: float
    counted: str


_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")


def place_of(name: str) -> CurvePoint | None:
    """Return the series and position given by the last number of a row's name, or None without a
    number.

    ``feedback, 3 trials`` is the series ``feedback`` at 3 trials; ``4 by BM25``, which has no
    name of its own before a comma, is the series ``… by BM25`` at 4.
    """
    numbers = list(_NUMBER.finditer(name))
    if not numbers:
        return None
    number = numbers[-1]
    series, comma, counted = name[: number.start()].rpartition(", ")
    if not comma:
        return CurvePoint(_plural(f"{counted}…{name[number.end() :]}"), float(number[0]), "")
    counted = _plural(f"{counted} {name[number.end() :]}".strip())
    return CurvePoint(series, float(number[0]), counted)


def _plural(words: str) -> str:
    """Return the words with ``trial`` or ``example`` in the plural: both forms are one series."""
    return re.sub(r"\b(trial|example)$", r"\1s", words)


@dataclass(frozen=True)
class Curves:
    """Rows that run over a number.

    Attributes:
        counted: name of the number; "" where the names of the series say it.
        series: each one's rows by their number, in the order of the table.
        levels: rows without a number, drawn as lines across.
    """

    counted: str
    series: Mapping[str, Mapping[float, Sequence[TableCell]]]
    levels: Mapping[str, Sequence[TableCell]]


def curves_of(rows: Sequence[TableCell]) -> Curves | None:
    """Return the rows as curves, or None if no series has three numbers or most rows have none."""
    series: dict[str, dict[float, list[TableCell]]] = {}
    levels: dict[str, list[TableCell]] = {}
    counted = set()
    for row in rows:
        place = place_of(row.name)
        if place is None:
            levels.setdefault(row.name, []).append(row)
            continue
        series.setdefault(place.series, {}).setdefault(place.x, []).append(row)
        counted.add(place.counted)
    longest = max((len(line) for line in series.values()), default=0)
    if longest < _CURVE_POINTS or 2 * sum(map(len, levels.values())) > len(rows):
        return None
    return Curves(counted.pop() if len(counted) == 1 else "", series, levels)


def score_plot(table: str, rows: Sequence[TableCell]) -> str:
    """Draw the scores of a table: curves if its rows run over a number, else bars."""
    curves = curves_of(rows)
    return _bars(table, rows) if curves is None else _curves(table, rows, curves)


def gain_plot(table: str, steps: Sequence[Gain]) -> str:
    """Draw a forest plot: one row per step and family with its interval, and a line at 0."""

    def draw(axes: Any, own: Sequence[Gain], places: Sequence[float], index: int) -> None:
        differences = [gain.difference for gain in own]
        below = [100 * max(0.0, each.value - each.low) for each in differences]
        above = [100 * max(0.0, each.high - each.value) for each in differences]
        axes.errorbar(
            [100 * each.value for each in differences],
            places,
            xerr=[below, above],
            **_mark(index),
            linestyle="none",
            label=for_terminal(own[0].family, _LABEL),
        )

    def finish(axes: Any) -> None:
        axes.axvline(0, color=INK, linewidth=1, linestyle="--", zorder=0)
        axes.margins(x=0.06)
        axes.set_xlabel("gain, in points")

    title = f"{table}: gains with 95% intervals, by step and family"
    return _grid(f"gains of {table}", title, steps, draw, finish)


def _bars(table: str, rows: Sequence[TableCell]) -> str:
    """Draw a bar with its deviation per configuration and family, told apart by hatches."""

    def draw(axes: Any, own: Sequence[TableCell], places: Sequence[float], index: int) -> None:
        axes.barh(
            places,
            [100 * row.figure.mean for row in own],
            height=_LINE_IN,
            xerr=[100 * (row.figure.deviation or 0.0) for row in own],
            color=BAR if index % 2 == 0 else PAPER,
            hatch=_HATCHES[index % len(_HATCHES)],
            edgecolor=INK,
            linewidth=0.8,
            error_kw={"ecolor": INK, "capsize": 2.5, "elinewidth": 1.2},
            label=for_terminal(own[0].family, _LABEL),
        )

    def finish(axes: Any) -> None:
        axes.set_xlim(left=0)
        axes.set_xlabel("score, in points; lines: standard deviation over seeds")

    title = f"{table}: scores by configuration and family"
    return _grid(f"scores of {table}", title, rows, draw, finish)


def _grid(salt: str, title: str, rows: Sequence[T], draw: _Draw[T], finish: _Finish) -> str:
    """Draw groups of rows from top to bottom: one line per family, one label per group."""
    families = _families(rows)
    labels = {row.name: _lines(row.name) for row in rows}
    middles, borders = {}, [0.0]
    for name, lines in labels.items():
        size = _LINE_IN * max(len(families), len(lines)) + 0.14
        middles[name] = borders[-1] + size / 2
        borders.append(borders[-1] + size)
    height = borders[-1] + _LEGEND_IN + 0.1 + _AXIS_IN

    def draw_all(figure: Any, axes: Any) -> None:
        for index, family in enumerate(families):
            own = [row for row in rows if row.family == family]
            line = _LINE_IN * (index - (len(families) - 1) / 2)
            draw(axes, own, [middles[row.name] + line for row in own], index)
        finish(axes)
        axes.set_ylim(borders[-1], 0)
        axes.set_yticks(list(middles.values()), ["\n".join(lines) for lines in labels.values()])
        axes.tick_params(axis="y", length=0)
        for border in borders[1:-1]:
            axes.axhline(border, color=INK, linewidth=0.3, zorder=0)
        axes.legend(
            loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(families), frameon=False,
            handleheight=1.2, handlelength=2.2,
        )  # fmt: skip
        top = 1 - (_LEGEND_IN + 0.1) / height
        figure.subplots_adjust(left=0.38, right=0.98, top=top, bottom=_AXIS_IN / height)

    return drawing(salt, title, (_WIDTH_IN, height), draw_all)


def _curves(table: str, rows: Sequence[TableCell], curves: Curves) -> str:
    """Draw one panel per family, with a line and its deviations per series."""
    families = _families(rows)
    lines = -(-len(families) // _COLUMNS)
    top_in = 0.18 * -(-(len(curves.series) + len(curves.levels)) // 2) + 0.35
    height = top_in + lines * (_PANEL_IN + 0.3) + _AXIS_IN - 0.3

    def draw(figure: Any, axes: Any) -> None:
        axes.remove()
        columns = min(_COLUMNS, len(families))
        panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).flat
        for panel, family in zip(panels, families, strict=False):
            _panel(panel, family, curves)
        for panel in list(figure.axes)[len(families) :]:
            panel.set_visible(False)
        handles: dict[str, Any] = {}
        for panel in figure.axes:
            handles |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
        figure.legend(
            handles.values(), handles.keys(),
            loc="upper left", ncols=2, frameon=False, fontsize=8, handlelength=3.4,
        )  # fmt: skip
        figure.supxlabel(for_terminal(curves.counted or "number (…)", _LABEL), fontsize=9)
        figure.axes[0].set_ylabel("score, in points")
        figure.subplots_adjust(
            left=0.08, right=0.99, wspace=0.08, hspace=0.3 / _PANEL_IN,
            top=1 - top_in / height, bottom=_AXIS_IN / height,
        )  # fmt: skip

    over = f" over {curves.counted}" if curves.counted else ""
    title = f"{table}: scores{over}, a panel for each family"
    return drawing(f"scores of {table}", title, (_WIDTH_IN, height), draw)


def _panel(panel: Any, family: str, curves: Curves) -> None:
    numbers = sorted({x for by_number in curves.series.values() for x in by_number})
    beside = 0.008 * (numbers[-1] - numbers[0])
    for index, (series, by_number) in enumerate(curves.series.items()):
        # a little beside each other, so that deviations do not cover one another
        points = [
            (x + beside * (index - (len(curves.series) - 1) / 2), row.figure)
            for x, rows in sorted(by_number.items())
            for row in rows
            if row.family == family
        ]
        panel.errorbar(
            [x for x, _ in points],
            [100 * figure.mean for _, figure in points],
            yerr=[100 * (figure.deviation or 0.0) for _, figure in points],
            **_mark(index),
            linestyle=_DASHES[index % len(_DASHES)],
            label=for_terminal(series, 50),
        )
    for index, (name, rows) in enumerate(curves.levels.items()):
        style = {"color": INK, "linewidth": 1, "linestyle": (0, (1 + index, 3))}
        for row in rows:
            if row.family == family:
                panel.axhline(100 * row.figure.mean, label=for_terminal(name, 50), **style)
    ticks = apart(numbers, _WIDTH_IN / _COLUMNS)
    panel.set_xticks(ticks, [f"{x:g}" for x in ticks], fontsize=8)
    panel.set_title(for_terminal(family, 30), fontsize=9)


def apart(numbers: Sequence[float], width_in: float) -> list[float]:
    """Return the numbers whose labels do not touch on an axis of this width. The last is always
    kept.
    """
    if len(numbers) < 2:
        return list(numbers)
    scale = 0.85 * width_in / (numbers[-1] - numbers[0])
    spaced = [numbers[-1]]
    for number in reversed(numbers[:-1]):
        needed = 0.08 * (len(f"{number:g}") + len(f"{spaced[-1]:g}")) / 2 + 0.04
        if (spaced[-1] - number) * scale >= needed:
            spaced.append(number)
    return spaced[::-1]


def _mark(index: int) -> dict[str, Any]:
    """Return the marker and dash of a series. Every second marker is filled."""
    return {
        "marker": _MARKS[index % len(_MARKS)],
        "markerfacecolor": PAPER if index % 2 == 0 else INK,
        "markersize": 5,
        "color": INK,
        "linewidth": 1,
        "capsize": 2.5,
    }


def _lines(name: str) -> list[str]:
    """Split a label into lines: after each arrow, then between words where a line is too long."""
    text = for_terminal(name.replace(" -> ", " → "), _LONGEST)
    parts = [text] if len(text) <= _LABEL else text.replace(" → ", " →\n").split("\n")
    return [line for part in parts for line in textwrap.wrap(part, _LABEL)] or [""]


def _families(rows: Sequence[TableCell] | Sequence[Gain]) -> list[str]:
    return list(dict.fromkeys(row.family for row in rows))
