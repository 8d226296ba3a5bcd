"""Plots of reports as inline SVG: no scripts, no network, the colours of the page around them.

Bars tell their kind by hatch, order and label as well as by colour, and the colours
(``parts.css``) differ in lightness, so that a drawing can be read in print and by colour-blind
people.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from markupsafe import Markup

from viper.escape import for_html, for_terminal
from viper.evaluate.reports.error_diagram import PARTS
from viper.evaluate.reports.tables import NamedReport, parts_of

# Placeholders that the page's colours replace in the finished drawing: Matplotlib does not know
# variables of CSS, and no other colour has these values.
INK, BAR, PAPER = "#010203", "#040506", "#070809"

# Placeholders of the parts: ``--part-0`` to ``--part-10`` of the page.
COLORS = tuple(f"#0a0b{number:02x}" for number in range(11))

_PAGE = {
    INK: "currentColor",
    BAR: "var(--bar)",
    PAPER: "var(--paper)",
    **{color: f"var(--part-{number})" for number, color in enumerate(COLORS)},
}

_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def drawing(
    salt: str, title: str, size_in: tuple[float, float], draw: Callable[[Any, Any], None]
) -> Markup:
    """Return an SVG element with a title for screen readers.

    Args:
        salt: of the ids in it; no other drawing of the page has the same.
        title: what it shows.
        size_in: width and height in inches.
        draw: gets Matplotlib's figure and axes; colours are those above.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "text.parse_math": False,
        "font.family": "sans-serif",
        "font.size": 9,
        "hatch.linewidth": 0.6,
        **{f"{part}.color": INK for part in ("text", "xtick", "ytick")},
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        **{f"axes.spines.{side}": False for side in ("top", "right")},
    }
    with rc_context(style):
        figure = Figure(figsize=size_in)
        FigureCanvasSVG(figure)
        draw(figure, figure.add_subplot())
        out = io.StringIO()
        with warnings.catch_warnings():
            # about glyphs that only its own font lacks: the text stays text, the reader has fonts
            warnings.simplefilter("ignore", UserWarning)
            figure.savefig(out, format="svg", transparent=True, metadata=_NO_METADATA)
    # the SVG element alone, named for screen readers, in the page's colours
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    # these ids are the same in every drawing, and nothing asks for them
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    for color, of_the_page in _PAGE.items():
        svg = svg.replace(color, of_the_page)
    svg = re.sub(r'^<svg ([^>]*?)width="[^"]*" height="[^"]*"', r"<svg \1", svg, count=1)
    name = f"plot-{sha256(salt.encode()).hexdigest()[:16]}"
    svg = svg.replace("<svg", f'<svg role="img" aria-labelledby="{name}"', 1)
    return Markup(svg.replace(">", f'><title id="{name}">{for_html(title)}</title>', 1))


# Lines only: a pattern of dots is 150 KB of SVG.
_BAR_HATCHES = ("", "///", "xxx", "\\\\\\", "---", "|||", "+++", "//--")
# The width of the page's column at 9 points; a bar with room for one line of text.
_WIDTH_IN, _BAR_IN, _MARGIN_IN = 6.4, 0.34, 0.75
# What fits left of the bars, and on one screen.
_LONGEST_BAR_LABEL, _MOST_BARS = 28, 24


# The label of a bar, its value with the interval, and the note at its end.
Bar = tuple[str, Mapping[str, float], str]


def failure_plot(report: Mapping[str, Any]) -> str:
    """Return a plot of the share of each kind of failure; empty if nothing failed."""
    bars = [
        (kind, {**failure, "value": failure["share"]}, f"{failure['count']:,}")
        for kind, failure in report["failures"].items()
    ]
    most = max((entry["high"] for _, entry, _ in bars), default=0.0)
    return (
        _bar_plot("failures", "Share of answers that failed, by kind", bars, most) if bars else ""
    )


def group_plot(kind: str, groups: Mapping[str, Any], headline: str) -> str:
    """Return a plot of the headline figure of each group with its 95% interval."""
    bars = [(name, g, f"{g['value']:.2f} (n = {g['n']:,})") for name, g in groups.items()]
    most = max([1.0, *(entry["high"] for _, entry, _ in bars)])
    return _bar_plot(f"by {kind}", f"{headline} by {kind}, with 95% intervals", bars, most)


def _bar_plot(salt: str, title: str, bars: Sequence[Bar], most: float) -> str:
    """Return a plot whose axis ends at ``most``, with the notes right of it."""
    bars = bars[:_MOST_BARS]
    height = _MARGIN_IN + _BAR_IN * len(bars)

    def draw(figure: Any, axes: Any) -> None:
        places = range(len(bars))
        values = [entry["value"] for _, entry, _ in bars]
        below = [max(0.0, entry["value"] - entry["low"]) for _, entry, _ in bars]
        above = [max(0.0, entry["high"] - entry["value"]) for _, entry, _ in bars]
        bar_parts = axes.barh(
            places,
            values,
            xerr=[below, above],
            color=BAR,
            edgecolor=INK,
            linewidth=0.8,
            error_kw={"ecolor": INK, "capsize": 3, "elinewidth": 1},
        )
        beside = {"xytext": (8, 0), "textcoords": "offset points", "va": "center"}
        for place, patch in enumerate(bar_parts):
            patch.set_hatch(_BAR_HATCHES[place % len(_BAR_HATCHES)])
            axes.annotate(for_terminal(bars[place][2]), (most, place), **beside)
        axes.set_yticks(
            list(places), [for_terminal(label, _LONGEST_BAR_LABEL) for label, *_ in bars]
        )
        axes.invert_yaxis()
        axes.set_xlim(0, most)
        figure.subplots_adjust(left=0.3, right=0.8, top=0.98, bottom=0.45 / height)

    return drawing(salt, title, (_WIDTH_IN, height), draw)


# Of each part; lines only: a pattern of dots is 150 KB of SVG.
HATCHES = ("", "//", "\\\\", "xx", "--", "|", "||||", "++", "/////", "\\\\\\\\\\", "xxxxx")

# In inches: a bar with its number, a line of the legend, the axis below. Three names of errors fit
# the width.
_ROW_IN, _LEGEND_IN, _AXIS_IN = 0.5, 0.24, 0.5
_COLUMNS = 3

# Room on the left, as a share of the width, for labels of 18 characters of this size.
_LEFT = 0.2
_LONGEST_LABEL = 18

# The number of a smaller part would cover its neighbours.
_SMALLEST_LABELLED = 0.05


def error_plot(runs: Sequence[NamedReport]) -> str:
    """Return stacked bars of the shares in percent; empty if no run has an answer."""
    plotted = [run for run in runs if run.errors["n"]]
    if not plotted:
        return ""
    parts = parts_of(plotted)
    legend_in = _LEGEND_IN * -(-len(parts) // _COLUMNS) + 0.1
    height = legend_in + _ROW_IN * len(plotted) + _AXIS_IN

    def draw(figure: Any, axes: Any) -> None:
        ends = [0.0] * len(plotted)
        for part in parts:
            shares = [run.errors["parts"].get(part, {"share": 0.0})["share"] for run in plotted]
            number, places = PARTS.index(part), range(len(plotted))
            look = {"color": COLORS[number], "hatch": HATCHES[number], "edgecolor": INK}
            axes.barh(places, shares, left=ends, height=0.7, linewidth=0.8, label=part, **look)
            for place, share in enumerate(shares):
                if share >= _SMALLEST_LABELLED:
                    # on a plain background, since hatches hide numbers
                    ground = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.2}
                    where = {"ha": "center", "va": "center", "fontsize": 8, "bbox": ground}
                    axes.text(ends[place] + share / 2, place, f"{100 * share:.0f}", **where)
            ends = [end + share for end, share in zip(ends, shares, strict=True)]
        names = [for_terminal(run.name) for run in plotted]
        # the end of a name, where folders of runs differ
        cut = [n if len(n) <= _LONGEST_LABEL else f"…{n[1 - _LONGEST_LABEL :]}" for n in names]
        axes.set_yticks(range(len(plotted)), cut)
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0%", "25%", "50%", "75%", "100%"])
        anchor = (-_LEFT / (0.97 - _LEFT), 1.0)
        style = {"frameon": False, "fontsize": 8, "handlelength": 2.2, "handleheight": 1.2}
        axes.legend(loc="lower left", bbox_to_anchor=anchor, ncol=_COLUMNS, **style)
        top = 1 - legend_in / height
        figure.subplots_adjust(left=_LEFT, right=0.97, top=top, bottom=_AXIS_IN / height)

    title = "Shares of answers by overlap, right or wrong, and errors by kind"
    return drawing("errors", title, (_WIDTH_IN, height), draw)


def risk_plot(confidence: Mapping[str, Any] | None) -> str:
    """Return the curve of risk by coverage; empty if no answer has a confidence."""
    if not confidence:
        return ""
    points = [(answered / confidence["n"], wrong / answered)
              for _, answered, wrong in confidence["steps"]]  # fmt: skip

    def draw(figure: Any, axes: Any) -> None:
        axes.plot(*zip(*points, strict=True), color=BAR, marker="o", markersize=3)
        axes.set_xlabel("share of answers given, the most confident first")
        axes.set_ylabel("share of these that is wrong")
        axes.set_xlim(0, 1)
        axes.set_ylim(bottom=0)
        figure.subplots_adjust(left=0.12, right=0.97, top=0.95, bottom=0.18)

    return drawing("risk", "Share of wrong answers by share of answers given", (6.4, 2.8), draw)
