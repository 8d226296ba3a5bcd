"""Plots of a report as inline SVG: no scripts, no network, the colours of the page around them.

Bars tell their kind by hatch and label, never by colour alone.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viper.evaluate.reports.escape import for_html, for_terminal

_INK, _BAR = "#010203", "#040506"
"""Stand for the page's colours until the drawing is done."""

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
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    shown = bars[:_MOST_BARS]
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "text.parse_math": False,
        "font.family": "sans-serif",
        "font.size": 9,
        "hatch.linewidth": 0.6,
        **{f"{part}.color": _INK for part in ("text", "xtick", "ytick")},
        "axes.edgecolor": _INK,
        "axes.labelcolor": _INK,
    }
    with rc_context(style):
        figure = Figure(figsize=(_WIDTH_IN, _MARGIN_IN + _ROW_IN * len(shown)))
        FigureCanvasSVG(figure)
        _fill(figure.add_subplot(), shown)
        figure.subplots_adjust(left=0.3, right=0.97, top=0.98, bottom=0.45 / figure.get_figheight())
        out = io.StringIO()
        with warnings.catch_warnings():
            # about glyphs that only its own font lacks: the text stays text, the reader has fonts
            warnings.simplefilter("ignore", UserWarning)
            figure.savefig(out, format="svg", transparent=True, metadata=_NO_METADATA)
    return _inlined(out.getvalue(), salt, title)


_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def _fill(axes: Any, bars: Sequence[Bar]) -> None:
    places = range(len(bars))
    drawn = axes.barh(
        places,
        [bar.value for bar in bars],
        xerr=[
            [max(0.0, bar.value - bar.low) for bar in bars],
            [max(0.0, bar.high - bar.value) for bar in bars],
        ],
        color=_BAR,
        edgecolor=_INK,
        linewidth=0.8,
        error_kw={"ecolor": _INK, "capsize": 3, "elinewidth": 1},
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


def _inlined(svg: str, salt: str, title: str) -> str:
    """The SVG element alone, named for screen readers, in the page's colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(
        r'<g id="[^"]*"', "<g", svg
    )  # the same in every drawing, and nothing asks for them
    svg = svg.replace(_INK, "currentColor").replace(_BAR, "var(--bar)")
    svg = re.sub(r'^<svg ([^>]*?)width="[^"]*" height="[^"]*"', r"<svg \1", svg, count=1)
    name = "plot-" + "".join(f"{ord(character):x}" for character in salt)[:40]
    head = f'<svg role="img" aria-labelledby="{name}"'
    return svg.replace("<svg", head, 1).replace(
        ">", f'><title id="{name}">{for_html(title)}</title>', 1
    )
