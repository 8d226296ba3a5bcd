"""The prompt that asks a language model for queries about a data set that it knows by its sheet.

Source: Stanić et al. 2024, sec. 5, name a data sheet instead of labelled samples as future work;
the words are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from string import Template

from viper.prompting.compact import one_line

SHEET_TASKS: tuple[str, ...] = ("ground", "question", "choice")


def build_query_prompt(
    sheet: str, task: str, count: int, known: Sequence[str] = (), *, media: str = "pictures"
) -> str:
    """The prompt that asks for queries, one a line.

    Args:
        sheet: what is known of the data set, in words.
        task: one of ``SHEET_TASKS``.
        count: how many are wanted.
        known: queries that are there already and must not come again.
        media: what the set holds: ``pictures``, ``videos``.
    """
    values = {
        "sheet": sheet.strip(),
        "kind": _template(f"queries_{task}").strip(),
        "count": str(count),
        "known": _known(known),
        "media": media,
    }
    return Template(_template("queries")).substitute(values).rstrip("\n") + "\n"


def _known(queries: Sequence[str]) -> str:
    if not queries:
        return ""
    listed = "".join(f"{one_line(query)}\n" for query in queries)
    return f"\n## Queries that are there already and must not come again\n\n{listed}"


def _template(name: str) -> str:
    path = resources.files("viper.prompting") / "templates" / f"{name}.md"
    return path.read_text(encoding="utf-8")
