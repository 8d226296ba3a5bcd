"""Drawings as inline SVG: no scripts, no network, the colours of the page around them."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from viper.evaluate.reports.escape import for_html

INK, BAR, PAPER = "#010203", "#040506", "#070809"
"""Stand for the page's colours until the drawing is done."""

PARTS = tuple(f"#0a0b{number:02x}" for number in range(11))
"""The same for the parts of a whole: ``--part-0`` to ``--part-10`` of the page."""

_PAGE = {
    INK: "currentColor",
    BAR: "var(--bar)",
    PAPER: "var(--paper)",
    **{color: f"var(--part-{number})" for number, color in enumerate(PARTS)},
}

_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def drawing(
    salt: str, title: str, size_in: tuple[float, float], draw: Callable[[Any, Any], None]
) -> str:
    """An SVG element with a title for screen readers.

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
    return _inlined(out.getvalue(), salt, title)


def _inlined(svg: str, salt: str, title: str) -> str:
    """The SVG element alone, named for screen readers, in the page's colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(
        r'<g id="[^"]*"', "<g", svg
    )  # the same in every drawing, and nothing asks for them
    for color, of_the_page in _PAGE.items():
        svg = svg.replace(color, of_the_page)
    svg = re.sub(r'^<svg ([^>]*?)width="[^"]*" height="[^"]*"', r"<svg \1", svg, count=1)
    name = f"plot-{sha256(salt.encode()).hexdigest()[:16]}"
    head = f'<svg role="img" aria-labelledby="{name}"'
    return svg.replace("<svg", head, 1).replace(
        ">", f'><title id="{name}">{for_html(title)}</title>', 1
    )
