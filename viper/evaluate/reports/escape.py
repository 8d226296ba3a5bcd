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


def _visible(text: str) -> str:
    """Write control and direction-changing characters as ``\\x1b``; line ends and tabs stay."""
    return "".join(
        character
        if character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs")
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
