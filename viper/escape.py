"""Escaping of untrusted text (queries, programs, names) for terminal, CSV, Markdown and HTML.

Each ``for_…`` first makes hidden characters visible and then escapes for one format. The templates
of all pages escape by :func:`for_html`, whatever they show.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

if TYPE_CHECKING:
    import jinja2

# Beginnings of formulas in spreadsheets, with the full-width signs that they take for the same.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
_NEGATIVE = re.compile(r"-[0-9]+(?:\.[0-9]+)?")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#!|~$])")
_SPACES = re.compile(r"\s+")
# Pages hold megabytes of base64, so only characters beyond these are looked at one by one.
_NOT_ASCII_TEXT = re.compile(r"[^\t\n -~]")


def for_terminal(text: str, width: int | None = None) -> str:
    """Return one line without control characters, cut to ``width`` with an ellipsis."""
    line = _SPACES.sub(" ", visible(text)).strip()
    return line[: width - 1] + "…" if width is not None and len(line) > width else line


def for_csv(text: str) -> str:
    """Return a cell that no spreadsheet reads as a formula.

    An apostrophe is put before such a cell, but not before a negative number.

    Source: OWASP, "CSV Injection".
    """
    cell = visible(text)
    is_formula = cell.lstrip().startswith(_FORMULA) or text.startswith(_FORMULA)
    return f"'{cell}" if is_formula and not _NEGATIVE.fullmatch(text) else cell


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Write rows as CSV; escape cells of untrusted text by :func:`for_csv` first."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def for_markdown(text: str) -> str:
    """Return one line without active markup: no end of a cell, no link, no HTML."""
    escaped = _MARKDOWN.sub(r"\\\1", for_terminal(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def for_html(text: object) -> Markup:
    """Return text for an element or a quoted attribute of HTML; markup stays as it is."""
    if isinstance(text, Markup):
        return text
    return escape(visible(str(text)))


@cache
def template_environment(*folders: Path) -> jinja2.Environment:
    """Build the environment of templates for all pages: each value is escaped, and none is missing.

    Args:
        folders: folders of the templates; a name is looked up in the first one first.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        autoescape=True,
        finalize=for_html,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["python_lines"] = python_lines
    return environment


def python_lines(program: str) -> list[Markup]:
    """Return the lines of a program for an HTML element, with the classes of ``python.css``."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    lines = highlight(
        _one_by_one(program),
        PythonLexer(stripnl=False, ensurenl=False),
        HtmlFormatter(nowrap=True, classprefix="py-"),
    )
    return [Markup(line) for line in lines.splitlines()]


def python_on_terminal(program: str) -> list[str]:
    """Return the lines of a program, in colors where stderr shows them."""
    from rich.console import Console
    from rich.syntax import Syntax

    syntax = Syntax("", "python", theme="ansi_dark", background_color="default")
    console = Console(stderr=True, soft_wrap=True)
    with console.capture() as capture:
        console.print(syntax.highlight(_one_by_one(program)), end="")
    return capture.get().splitlines()


def _one_by_one(program: str) -> str:
    """Return a program whose lines are visible and all end with a newline."""
    return "".join(f"{visible(line)}\n" for line in program.splitlines())


def visible(text: str) -> str:
    """Write control and direction-changing characters as ``\\x1b``; line ends and tabs stay."""
    return _NOT_ASCII_TEXT.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    character = match[0]
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs")
    return character.encode("unicode_escape").decode("ascii") if hidden else character
