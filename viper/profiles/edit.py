"""A profile's text with some values changed; comments and layout stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit

from viper.api.library import split_api
from viper.profiles.document import language_models
from viper.strategies.settings import all_settings
from viper.tools.settings import Sensitivity


def with_values(
    path: Path,
    name: str,
    run: Mapping[str, Any] | None = None,
    sensitivities: Mapping[str, Sensitivity] | None = None,
) -> str:
    """The text of the profile in ``path`` under another name and with these values.

    Paths that the profile means from its own folder are written whole, since the new profile
    may lie in another one.

    Args:
        run: keys of ``[run]`` with their new values, written as they are.
        sensitivities: replace those of the same name.
    """
    document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
    document["name"] = name
    _write_whole_paths(document, path.parent)
    if run:
        document.setdefault("run", tomlkit.table()).update(run)
    for key, value in (sensitivities or {}).items():
        _update(document["sensitivities"][key], value)
    return tomlkit.dumps(document)


def whole_path(path: str, base: Path) -> str:
    """A path that is meant from a folder, as it is found from everywhere."""
    return str((base / Path(path).expanduser()).resolve())


def whole_api(api: str, base: Path) -> str:
    """The name of an API whose files are found from everywhere."""
    return "+".join(
        whole_path(part, base) if part.endswith(".py") else part for part in split_api(api)
    )


def _write_whole_paths(document: Any, base: Path) -> None:
    """See :class:`viper.profiles.wiring.Profile` for what is relative to the profile's folder."""
    run = document.get("run", {})
    bank, api = run.get("bank"), run.get("api")
    if bank is not None and not bank.startswith("embedded:"):
        run["bank"] = str((base / bank).resolve())
    if api is not None and ".py" in api:
        run["api"] = whole_api(api, base)
    for one in all_settings().values():
        if one.declaration.is_path:
            for table in (run, run.get(one.strategy, {})):
                _write_whole(table, one.name, base)
    writers = (document.get(name, {}) for name in language_models())
    for choice in (*writers, *document.get("roles", {}).values()):
        _write_whole(choice, "model", base)
        _write_whole(choice.get("options", {}), "adapter", base)


def _write_whole(table: Any, key: str, base: Path) -> None:
    """The path under a key, where it is one that is meant from the profile's folder."""
    if str(table.get(key, "")).startswith(("./", "../")):
        table[key] = str((base / table[key]).resolve())


def _update(table: Any, value: Sensitivity) -> None:
    """Changes what is another number now; the rest is left as it was written."""
    for part in ("start", "step", "floor", "fixed"):
        number = getattr(value, part)
        if number is not None and table.get(part) != number:
            table[part] = number
