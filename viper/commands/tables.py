"""Tables on stdout: aligned columns, plain text, safe to cut with other tools."""

from __future__ import annotations

from collections.abc import Sequence

import click


def echo_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a header and rows; the last column is not padded."""
    table = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        click.echo("  ".join([*cells, row[-1]]).rstrip())
