"""Bar charts of a report: shares and figures with their intervals.

Bars tell their kind by hatch and label, never by colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.evaluate.reports.escape import for_terminal
from viper.evaluate.reports.svg import BAR, INK, drawing

_HATCHES = ("", "///", "xxx", "\\\\\\", "---", "|||", "+++", "//--")
"""Lines only: a pattern of dots is 150 KB of SVG."""
_WIDTH_IN, _ROW_IN, _MARGIN_IN = 6.4, 0.34, 0.75
_LONGEST_LABEL = 28
_MOST_BARS = 24


@dataclass(frozen=True)
class Bar:
    """One bar: a share with its interval; ``note`` stands at its end."""

    label: str
    value: float
    low: float
    high: float
    note: str


def failure_plot(report: Mapping[str, Any]) -> str:
    """The share of each kind of failure; empty text where nothing failed."""
    bars = [
        Bar(kind, one["share"], one["low"], one["high"], f"{one['count']:,}")
        for kind, one in report["failures"].items()
    ]
    return _drawn("failures", "Share of answers that failed, by kind", bars) if bars else ""


def group_plot(kind: str, groups: Mapping[str, Any], headline: str) -> str:
    """The headline figure of each group with its 95% interval."""
    bars = [
        Bar(name, one["value"], one["low"], one["high"], f"{one['value']:.2f} (n = {one['n']:,})")
        for name, one in groups.items()
    ]
    return _drawn(f"by {kind}", f"{headline} by {kind}, with 95% intervals", bars)


def _drawn(salt: str, title: str, bars: Sequence[Bar]) -> str:
    shown = bars[:_MOST_BARS]
    height = _MARGIN_IN + _ROW_IN * len(shown)

    def draw(figure: Any, axes: Any) -> None:
        _fill(axes, shown)
        figure.subplots_adjust(left=0.3, right=0.97, top=0.98, bottom=0.45 / height)

    return drawing(salt, title, (_WIDTH_IN, height), draw)


def _fill(axes: Any, bars: Sequence[Bar]) -> None:
    places = range(len(bars))
    drawn = axes.barh(
        places,
        [bar.value for bar in bars],
        xerr=[
            [max(0.0, bar.value - bar.low) for bar in bars],
            [max(0.0, bar.high - bar.value) for bar in bars],
        ],
        color=BAR,
        edgecolor=INK,
        linewidth=0.8,
        error_kw={"ecolor": INK, "capsize": 3, "elinewidth": 1},
    )
    for place, patch in enumerate(drawn):
        patch.set_hatch(_HATCHES[place % len(_HATCHES)])
    for place, bar in zip(places, bars, strict=True):
        axes.annotate(
            for_terminal(bar.note),
            (max(bar.high, bar.value), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
        )
    axes.set_yticks(list(places), [for_terminal(bar.label, _LONGEST_LABEL) for bar in bars])
    axes.invert_yaxis()
    most = max((max(bar.high, bar.value) for bar in bars), default=1.0)
    axes.set_xlim(0, max(most * 1.4, 0.05))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
