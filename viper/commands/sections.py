"""Options in named sections of ``--help``, after the few options that matter first."""

from __future__ import annotations

from typing import Any

import click

PROGRAMS, EXAMPLES, LIMITS, WORKERS = "Programs", "Examples", "Limits", "Workers"
MACHINE, OUTPUT = "Models and machine", "Output"


class Option(click.Option):
    """An option with the heading of its section; the empty heading stands for ``Options``."""

    def __init__(self, *args: Any, section: str = "", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help lists its options in sections.

    Args:
        first: names of the parameters, separated by spaces, that the first section lists in this
            order. The first section also lists the options that declare no section.
    """

    def __init__(self, *args: Any, first: str = "", **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._first = first.split()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a heading and a table for each section."""
        first = {name: place for place, name in enumerate(self._first)}
        params = sorted(
            self.get_params(ctx), key=lambda option: first.get(option.name or "", len(first))
        )
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in params:
            record = param.get_help_record(ctx)
            if record and isinstance(param, click.Option):
                section = "" if param.name in first else getattr(param, "section", "")
                sections.setdefault(section or "Options", []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)
