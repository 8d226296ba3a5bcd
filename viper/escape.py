"""Escaping of untrusted text (queries, programs, names) for terminal, CSV, Markdown and HTML."""

from __future__ import annotations

import html
import re
import unicodedata

from markupsafe import Markup

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#!|~$])")
_SPACES = re.compile(r"\s+")


def for_terminal(text: str, width: int | None = None) -> str:
    """Return one line without control characters, cut to ``width`` with an ellipsis."""
    line = _SPACES.sub(" ", _visible(text)).strip()
    return line[: width - 1] + "…" if width is not None and len(line) > width else line


def for_csv(text: str) -> str:
    """Return a cell that no spreadsheet reads as a formula.

    An apostrophe is put before such a cell.

    Source: OWASP, "CSV Injection".
    """
    cell = _visible(text)
    return f"'{cell}" if cell.lstrip().startswith(_FORMULA) or text.startswith(_FORMULA) else cell


def for_markdown(text: str) -> str:
    """Return one line without active markup: no end of a cell, no link, no HTML."""
    escaped = _MARKDOWN.sub(r"\\\1", for_terminal(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def for_html(text: object) -> Markup:
    """Return text for an element or a quoted attribute of HTML; markup stays as it is."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(_visible(str(text)), quote=True))


def python_lines(program: str) -> list[Markup]:
    """Return the lines of a program for an HTML element, with the classes of ``python.css``."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    html = highlight(
        _one_by_one(program),
        PythonLexer(stripnl=False, ensurenl=False),
        HtmlFormatter(nowrap=True, classprefix="py-"),
    )
    return [Markup(line) for line in html.splitlines()]


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
    return "".join(f"{_visible(line)}\n" for line in program.splitlines())


def _visible(text: str) -> str:
    """Write control and direction-changing characters as ``\\x1b``; line ends and tabs stay."""
    return "".join(
        character
        if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
