"""Names that a shell completes: of profiles, strategies, APIs, data sets and routines.

A name is the type of its option or argument; a key press imports only the registry of the names.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

import click
from click.shell_completion import CompletionItem


class Name(click.ParamType):
    """Type of an option or argument with known names; the command itself checks the value.

    Args:
        names: ``module:attribute`` of a function that returns the names; "" for none.
        files: complete paths as well.
        joined: several names may be joined by ``+``.
    """

    name = "text"

    def __init__(self, names: str, *, files: bool = False, joined: bool = False) -> None:
        self._names, self._files, self._joined = names, files, joined

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        before = incomplete[: incomplete.rfind("+") + 1] if self._joined else ""
        known: Any = resolve_name(self._names)() if self._names else ()
        full = [f"{before}{name}" for name in sorted(known)]
        # bash lists paths only if no name follows, and forgets the names before this mark
        items = [CompletionItem(incomplete, type="file")] if self._files else []
        return items + [CompletionItem(name) for name in full if name.startswith(incomplete)]


def _routines() -> set[str]:
    """Return the names that ``viper setup routine show`` knows without ``--api``."""
    from viper.api.sets import api_set
    from viper.schema import DEFAULT_API, TASKS

    listed = api_set(DEFAULT_API)
    return {entry.name for task in TASKS if task != "auto" for entry in listed.entries(task)}


PROFILE = Name("viper.profiles.files:known_profiles", files=True)
STRATEGY = Name("viper.strategies:strategy_names")
API = Name("viper.api.library:known_apis", files=True, joined=True)
DATA_SET = Name("viper.data.registry:DATASETS.names", files=True)
ROUTINE = Name("viper.commands.completion:_routines")
MEDIA = Name("", files=True)
