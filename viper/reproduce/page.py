"""A reproduction as one HTML page: claims, tables, curves; opens from disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from viper.evaluate.reports.escape import for_html, for_terminal
from viper.evaluate.reports.markup import document, framed, scrolling, table
from viper.evaluate.reports.svg import INK, drawing
from viper.reproduce.result import Claim, Entry, Reproduction
from viper.reproduce.write import cells_of, gains_of, table_names, verdict

_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("-", "--", ":", "-.")
_WIDTH_IN, _HEIGHT_IN, _ROW_IN = 7.2, 1.1, 0.27


def page(found: Reproduction) -> str:
    """The page; tells series by mark and line, never by colour alone."""
    return document(found.title, [*_claims(found.claims), *_tables(found), *_facts(found)])


def _claims(claims: Sequence[Claim]) -> Iterator[str]:
    yield "<h2>What must hold</h2>\n"
    rows = (
        f'<tr><th scope="row">{verdict(claim)}</th><td>{for_html(claim.claim)}</td>'
        f"<td>{for_html(claim.reason)}</td></tr>\n"
        for claim in claims
    )
    yield framed("Claims", ["holds", "claim", "because (gains in points)"], rows)


def _tables(found: Reproduction) -> Iterator[str]:
    for name in table_names(found):
        rows = [row for row in found.rows if row.table == name]
        yield f"<h2>{for_html(name[0].upper() + name[1:])}</h2>\n"
        if rows:
            yield scrolling(f"plot of {name}", _plot(name, rows))
            yield table("Mean ± standard deviation over seeds, in points", cells_of(name, rows))
        steps = [one for one in found.gains if one.table == name]
        if steps:
            yield table("Gains in points, paired, with 95% intervals", gains_of(steps))


def _facts(found: Reproduction) -> Iterator[str]:
    text = json.dumps(dict(found.facts), indent=2, ensure_ascii=False)
    yield f"<h2>Models, seeds, settings</h2>\n<pre>{for_html(text)}</pre>\n"


def _plot(name: str, rows: Sequence[Entry]) -> str:
    """A mark with its deviation for each configuration and family, a line for each family."""
    names = list(dict.fromkeys(row.name for row in rows))
    families = list(dict.fromkeys(row.family for row in rows))
    height = _HEIGHT_IN + _ROW_IN * len(names)

    def draw(figure: Any, axes: Any) -> None:
        for index, family in enumerate(families):
            own = [row for row in rows if row.family == family]
            axes.errorbar(
                [100 * row.figure.mean for row in own],
                [names.index(row.name) for row in own],
                xerr=[100 * (row.figure.deviation or 0.0) for row in own],
                marker=_MARKS[index % len(_MARKS)],
                linestyle=_DASHES[index % len(_DASHES)],
                color=INK,
                markerfacecolor="none",
                linewidth=0.8,
                capsize=2,
                label=for_terminal(family),
            )
        axes.set_yticks(range(len(names)), [for_terminal(name) for name in names])
        axes.invert_yaxis()
        axes.set_xlabel("score, in points")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.0 + 0.35 / height), frameon=False,
                    ncols=max(1, len(families)))  # fmt: skip
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        figure.subplots_adjust(left=0.42, right=0.98, top=1 - 0.35 / height, bottom=0.5 / height)

    return drawing(f"reproduction {name}", f"{name}: scores by family", (_WIDTH_IN, height), draw)
