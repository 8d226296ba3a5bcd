"""A reproduction as one HTML page: claims, tables, curves; opens from disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from viper.evaluate.reports.escape import for_html
from viper.evaluate.reports.markup import document, framed, scrolling, table
from viper_lab.papers.plots import gain_plot, score_plot
from viper_lab.papers.result import POINTS, Claim, Reproduction
from viper_lab.papers.write import cells_of, gains_of, table_names, verdict


def page(found: Reproduction) -> str:
    """The page; its plots tell series by mark, hatch and line, never by colour alone."""
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
        scored = [row for row in rows if row.unit == POINTS]
        if scored:
            yield scrolling(f"plot of {name}", score_plot(name, scored))
        if rows and not scored:
            yield table("Mean of a question", cells_of(name, rows))
        elif rows:
            yield table("Mean ± standard deviation over seeds, in points", cells_of(name, rows))
        steps = [one for one in found.gains if one.table == name]
        if steps:
            yield scrolling(f"plot of the gains of {name}", gain_plot(name, steps))
            yield table("Gains in points, paired, with 95% intervals", gains_of(steps))


def _facts(found: Reproduction) -> Iterator[str]:
    text = json.dumps(dict(found.facts), indent=2, ensure_ascii=False)
    yield f"<h2>Models, seeds, settings</h2>\n<pre>{for_html(text)}</pre>\n"
