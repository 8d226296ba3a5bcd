"""What the commands of ``viper reproduce`` have in common."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.options import open_profile
from viper.commands.repeating import command_line
from viper.errors import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from viper.strategies.base import Components
    from viper_lab.commands.reproduce_progress import Progress
    from viper_lab.papers.lab import Cell, Lab, Scale
    from viper_lab.papers.parts import Part
    from viper_lab.papers.plan import Plan
    from viper_lab.papers.result import Reproduction

LOCKS = "locks"  # in the folder


@contextmanager
def hint_to_go_on(*, is_said: bool = True) -> Iterator[None]:
    """Says after Ctrl-C how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if is_said:
            click.echo("\nstopped; to go on: the same line again", err=True)
        raise


@contextmanager
def opened_lab(
    folder: Path,
    given: Mapping[str, Any],
    writers: Callable[[Mapping[str, Any]], Mapping[str, Components]],
    scale: Scale,
    processes: int,
) -> Iterator[Lab]:
    """A lab over loaded profiles; closes all of it. That of a member ends with who started it."""
    from viper.evaluate.engines.allocator import bound_arenas
    from viper.schema import to_json
    from viper_lab.commands.reproduce_members import cores, end_with_starter
    from viper_lab.papers.lab import Lab

    if given["member"]:
        end_with_starter()
    bound_arenas()
    if processes > 1:  # read when torch is imported
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // processes)))
    opened = writers(given)
    lab = Lab(opened, to_json(open_profile(dict(given)).document), folder, scale)
    try:
        with hint_to_go_on(is_said=not given["member"]):
            yield lab
    finally:
        lab.close()
        for components in opened.values():
            components.close()


def answer_together(
    lab: Lab, watcher: Progress, plan: Plan, cells: Sequence[tuple[Cell, Part]], processes: int
) -> None:
    """Answers what is not stored yet, with as many processes; tells the watcher of it."""
    from viper_lab.commands.reproduce_members import members
    from viper_lab.papers.crew import Claims, groups_of, share

    lab.watcher = watcher
    groups = groups_of(lab, cells)
    others = min(processes, len(groups)) - 1 if plan.missing else 0
    claims = Claims(lab.folder / LOCKS)
    with members(others, _same_again(), watcher) as beside, closing(claims):
        share(lab, groups, claims)
        beside.wait()


def answer_as_member(lab: Lab, cells: Sequence[tuple[Cell, Part]]) -> int:
    """Answers what no other process answers, and tells who started this one."""
    from viper_lab.commands.reproduce_members import Told
    from viper_lab.papers.crew import Claims, groups_of, share

    lab.watcher = Told(sys.stdout)
    with closing(Claims(lab.folder / LOCKS)) as claims:
        share(lab, groups_of(lab, cells), claims)
    return EXIT_OK


def processes_of(given: Mapping[str, Any]) -> int:
    """How many shall work side by side."""
    from viper_lab.commands.reproduce_members import cores

    if given["processes"] is not None:
        return int(given["processes"])
    models = [choice.model or "" for _, choice in open_profile(dict(given)).choices()]
    small = all(model.startswith("embedded:") for model in models if model)
    return min(2, cores()) if small else 1


def shown(found: Reproduction, folder: Path, *, as_json: bool) -> int:
    """Writes and prints a reproduction; the exit code."""
    from viper_lab.papers.report import as_text, write_reports

    write_reports(found, folder)
    click.echo(json.dumps(found.to_json(), allow_nan=False) if as_json else as_text(found))
    click.echo(f"{folder / 'report.html'}", err=True)
    return EXIT_FAILED if any(claim.holds is False for claim in found.claims) else EXIT_OK


def _same_again() -> list[str]:
    """The running command line without the program's name."""
    line = command_line(click.get_current_context(), leave_out=("member", "as_json"))
    return shlex.split(line)[1:]


PROCESSES = click.option(
    "--processes", type=click.IntRange(1, 64), metavar="N",
    help="At work side by side, each with models of its own; 2 where all models come with the "
         "package and there are two cores, else 1.",
)  # fmt: skip
MEMBER = click.option("--member", is_flag=True, hidden=True)
AS_JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print rows, gains and claims as JSON."
)
