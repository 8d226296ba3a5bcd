"""The table of run settings in ``docs/profiles.md``; ``python -m tests.docs.settings_table``
writes it anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_origin

import viper
from viper.strategies import STRATEGIES
from viper.strategies.settings import Setting, all_settings

PAGE = Path(viper.__file__).parent.parent / "docs" / "profiles.md"
START, END = "<!-- settings of a run: start -->\n", "<!-- settings of a run: end -->\n"


def table() -> str:
    """Return the table, a row for each setting of the shipped strategies."""
    return "\n".join([START.rstrip(), *_lines(), END])


def _lines() -> Iterator[str]:
    yield "| key | default | allowed | `viper run`, `viper eval` | HTTP | what it is |"
    yield "|---|---|---|---|---|---|"
    for one in all_settings().values():
        if not one.strategy or one.strategy in STRATEGIES:
            cells = [f"`{one.name}`", f"`{_default(one)}`", _allowed(one), _option(one)]
            cells += ["yes" if one.declaration.http else "", one.help.removesuffix(".")]
            yield "| " + " | ".join(cells) + " |"


def _default(one: Setting) -> str:
    return json.dumps(list(one.default) if isinstance(one.default, tuple) else one.default)


def _allowed(one: Setting) -> str:
    declared = one.declaration
    if declared.allowed:
        return declared.allowed
    if get_origin(one.type) is tuple:
        return "a list of " + ", ".join(f"`{text}`" for text in declared.choices)
    if declared.choices:
        return ", ".join(f"`{text}`" for text in declared.choices)
    if one.type is bool:
        return "true, false"
    if one.type is str:
        return ", ".join(f"`{text}`" for text in declared.metavar.split("|"))
    if declared.unbounded:
        return "0 or more"
    if declared.most is None:
        return f"{declared.least:g} or more"
    return f"{declared.least:g} to {declared.most:g}"


def _option(one: Setting) -> str:
    return " ".join(f"`{flag}`" for flag in one.option.split("/")) if one.declaration.cli else ""


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(START)
    PAGE.write_text(before + table() + rest.split(END)[1], encoding="utf-8")
