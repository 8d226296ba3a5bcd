"""The error diagram drawn: a bar for each run, cut into its parts.

Parts are told by hatch, order and label as well as by colour, and the colours (``report.css``)
differ in lightness, so that the drawing can be read in print and by colour-blind people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from viper.evaluate.reports.error_diagram import PARTS
from viper.evaluate.reports.error_table import NamedErrors, parts_of
from viper.evaluate.reports.escape import for_terminal
from viper.evaluate.reports.svg import INK, PAPER, drawing
from viper.evaluate.reports.svg import PARTS as COLORS

HATCHES = ("", "//", "\\\\", "xx", "--", "|", "||||", "++", "/////", "\\\\\\\\\\", "xxxxx")
"""Of each part; lines only: a pattern of dots is 150 KB of SVG."""

_WIDTH_IN, _ROW_IN, _LEGEND_IN, _AXIS_IN = 6.4, 0.5, 0.24, 0.5
_COLUMNS = 3
_LEFT = 0.2
_LONGEST_LABEL = 18
_SMALLEST_LABELLED = 0.05


def error_plot(runs: Sequence[NamedErrors]) -> str:
    """Stacked bars of the shares, in percent; empty text where no run has an answer."""
    shown = [run for run in runs if run.errors["n"]]
    if not shown:
        return ""
    parts = parts_of(shown)
    legend_in = _LEGEND_IN * -(-len(parts) // _COLUMNS) + 0.1
    height = legend_in + _ROW_IN * len(shown) + _AXIS_IN

    def draw(figure: Any, axes: Any) -> None:
        _stack(axes, shown, parts)
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-_LEFT / (0.97 - _LEFT), 1.0),
            ncol=_COLUMNS,
            frameon=False,
            fontsize=8,
            handlelength=2.2,
            handleheight=1.2,
        )
        top = 1 - legend_in / height
        figure.subplots_adjust(left=_LEFT, right=0.97, top=top, bottom=_AXIS_IN / height)

    title = "Shares of answers by overlap, right or wrong, and errors by kind"
    return drawing("errors", title, (_WIDTH_IN, height), draw)


def _stack(axes: Any, runs: Sequence[NamedErrors], parts: Sequence[str]) -> None:
    ends = [0.0] * len(runs)
    for part in parts:
        shares = [run.errors["parts"].get(part, {"share": 0.0})["share"] for run in runs]
        style = PARTS.index(part)
        axes.barh(
            range(len(runs)),
            shares,
            left=ends,
            height=0.7,
            color=COLORS[style],
            hatch=HATCHES[style],
            edgecolor=INK,
            linewidth=0.8,
            label=part,
        )
        for place, share in enumerate(shares):
            if share >= _SMALLEST_LABELLED:
                _number(axes, ends[place] + share / 2, place, share)
        ends = [end + share for end, share in zip(ends, shares, strict=True)]
    axes.set_yticks(range(len(runs)), [_label(run.name) for run in runs])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0%", "25%", "50%", "75%", "100%"])
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _label(name: str) -> str:
    """The end of a name, in which folders of runs differ."""
    line = for_terminal(name)
    return line if len(line) <= _LONGEST_LABEL else f"…{line[1 - _LONGEST_LABEL :]}"


def _number(axes: Any, x: float, y: float, share: float) -> None:
    """A share in percent, on a ground of its own: hatches are no ground for numbers."""
    ground = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.2}
    axes.text(x, y, f"{100 * share:.0f}", ha="center", va="center", fontsize=8, bbox=ground)
