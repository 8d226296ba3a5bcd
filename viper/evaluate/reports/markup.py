"""The frame and the parts of HTML pages: no scripts, no network, everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from viper.evaluate.reports.escape import for_html

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
_STYLE = Path(__file__).with_name("report.css")


def document(title: str, body: Iterable[str]) -> str:
    """A page with everything in it; ``body`` is markup, the title plain text."""
    parts = [
        "<!doctype html>\n",
        '<html lang="en"><head><meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        f"<title>{for_html(title)}</title>\n<style>{_STYLE.read_text('utf-8')}</style></head>\n",
        f"<body><main>\n<h1>{for_html(title)}</h1>\n",
        *body,
        "</main></body></html>\n",
    ]
    return "".join(parts)


def table(caption: str, lines: Sequence[Sequence[str]]) -> str:
    """A table of plain text: the header, then lines that begin with their name."""
    header, *rest = lines
    body = (
        f'<tr><th scope="row">{for_html(first)}</th>'
        + "".join(f'<td class="number">{for_html(cell)}</td>' for cell in others)
        + "</tr>\n"
        for first, *others in rest
    )
    return framed(caption, header, body)


def framed(caption: str, header: Sequence[str], body: Iterable[str], kind: str = "") -> str:
    """A table with its caption and labelled header; ``body`` is markup."""
    head = "".join(f'<th scope="col">{for_html(name)}</th>' for name in header)
    head = f"<thead><tr>{head}</tr></thead>" if any(header) else ""
    name = for_html(caption)
    return scrolling(
        f"table of {caption}",
        f'<table class="{kind}"><caption>{name}</caption>{head}<tbody>\n{"".join(body)}'
        "</tbody></table>",
    )


def scrolling(label: str, content: str) -> str:
    """What scrolls by itself on a narrow screen, by keyboard too."""
    opening = f'<div class="scroll" role="region" tabindex="0" aria-label="{for_html(label)}">'
    return f"{opening}{content}</div>\n"
