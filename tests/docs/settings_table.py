"""The table of run settings in ``docs/profiles.md``; ``python -m tests.docs.settings_table``
writes it again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import viper
from viper.strategies import STRATEGIES
from viper.strategies.settings import Setting, all_settings

PAGE = Path(viper.__file__).parent.parent / "docs" / "profiles.md"
START, END = "<!-- settings of a run: start -->\n", "<!-- settings of a run: end -->\n"


def table() -> str:
    """Return the table, a row for each setting of the shipped strategies."""
    return "\n".join([START.rstrip(), *_lines(), END])


def _lines() -> Iterator[str]:
    settings = [
        setting
        for setting in all_settings().values()
        if not setting.strategy or setting.strategy in STRATEGIES
    ]
    yield "| key | default | option, or meaning |"
    yield "|---|---|---|"
    for setting in settings:
        cells = [f"`{setting.name}`", f"`{_default(setting)}`", _meaning(setting)]
        yield "| " + " | ".join(cells) + " |"
    local = [f"`{setting.name}`" for setting in settings if not setting.declaration.http]
    yield ""
    yield "The HTTP service takes all of these except " + ", ".join(local) + "."


def _default(setting: Setting) -> str:
    return json.dumps(
        list(setting.default) if isinstance(setting.default, tuple) else setting.default
    )


def _meaning(setting: Setting) -> str:
    """Return the option, which ``viper run --help`` explains, or the help text and the values."""
    if setting.declaration.cli:
        return f"`{setting.option}`"
    return f"{setting.help.removesuffix('.')} ({_allowed(setting)})"


def _allowed(setting: Setting) -> str:
    declared = setting.declaration
    if declared.allowed:
        return declared.allowed
    if declared.choices:
        return ", ".join(f"`{text}`" for text in declared.choices)
    if setting.type is bool:
        return "true, false"
    if declared.unbounded:
        return "≥ 0"
    if declared.most is None:
        return f"≥ {declared.least:g}"
    return f"{declared.least:g}–{declared.most:g}"


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(START)
    PAGE.write_text(before + table() + rest.split(END)[1], encoding="utf-8")
