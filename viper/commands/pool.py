"""``viper ace pool``: demonstrations of plans and programs, also of those that did not work."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import click

from viper.ace.bank import read_bank, write_bank
from viper.ace.pool import FOLDER, LOWEST_SCORE, DemonstrationPool
from viper.ace.pooled import Pooled, pooled
from viper.commands.lazy_group import LazyGroup
from viper.commands.options import option, options_as, state_option
from viper.commands.terminal import echo_table, indented
from viper.errors import EXIT_OK, UsageError
from viper.evaluate.reports.escape import for_terminal
from viper.profiles.document import state_dir
from viper.schema import to_json
from viper.storage.versioned import VersionedStore

_QUERY_CHARACTERS = 60
_COMMANDS = {
    "start": (
        "viper.commands.pool_start:start",
        "Fill the pool with first demonstrations: solved samples of SET, and planted faults.",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Which:
    """Which demonstrations are meant."""

    # fmt: off
    part: Literal["plan", "program"] | None = option("--part", help="Only this part.")
    polarity: Literal["correct", "incorrect"] | None = option("--polarity",
        help="Only those that worked, or those that did not.")
    task: str | None = option("--task", metavar="TASK", help="Only those of this task.")
    # fmt: on

    def of(self, items: Iterable[Pooled]) -> list[Pooled]:
        """Return those of the items that are meant."""
        wanted = {name: value for name, value in vars(self).items() if value}
        return [
            one
            for one in items
            if all(getattr(one.example, name) == value for name, value in wanted.items())
        ]


@click.group(cls=LazyGroup, paths=_COMMANDS)
def pool() -> None:
    """The demonstration pool: plans and programs that are shown before a query.

    Strategy plan shows those whose queries are most like its own: some that worked, and some that
    did not with the reason. Source: CLOVA, sec. 3.2.

    \b
    viper ace pool start gqa --root gqa                 the first ones, from labelled samples
    viper ace pool show                                 what there is, with its scores
    viper ace pool show 1f3c5d7e9a0b                    one of them in full
    viper ace pool prune --below 0.3 --dry-run          those that mislead
    viper ace pool export demonstrations.jsonl          a file for others (viper ace pool add)
    viper ace pool rollback 12                          as it was in an earlier version
    """


@pool.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@options_as(Which)
@click.option("--versions", is_flag=True, help="List the versions instead.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
@state_option
def show(
    which: Which, ids: tuple[str, ...], versions: bool, as_json: bool, state: Path | None
) -> int:
    """Show the demonstrations, or those of these IDs in full.

    `outcomes` are tasks solved and not solved with it in a prompt; the score is what they say.
    """
    found = _pool(state)
    if versions:
        echo_versions(found.store)
        return EXIT_OK
    items = _named(found, ids) if ids else which.of(found.items())
    if as_json:
        for one in items:
            click.echo(json.dumps(_record(one), ensure_ascii=False))
    elif ids:
        for one in items:
            click.echo(_in_full(one))
    elif not items:
        click.echo(f"{found.store.folder}: no such demonstrations", err=True)
    else:
        header = ("id", "part", "polarity", "score", "outcomes", "validated", "task", "query")
        echo_table(header, [_line(one) for one in items])
    return EXIT_OK


@pool.command()
@click.option(
    "--below",
    type=click.FloatRange(0, 1),
    default=None,
    metavar="SCORE",
    help="Those with a lower score; by default those that are not shown any more.",
)
@click.option("--id", "ids", multiple=True, metavar="ID", help="These, whatever their score.")
@click.option("--dry-run", is_flag=True, help="Say which, and take none out.")
@state_option
def prune(below: float | None, ids: tuple[str, ...], dry_run: bool, state: Path | None) -> int:
    """Take out demonstrations that mislead; earlier versions keep them."""  # fmt: skip
    found = _pool(state)
    if ids:
        gone = _named(found, ids)
    else:
        gone = found.below(LOWEST_SCORE if below is None else below)
    for one in gone:
        click.echo("  ".join(_line(one)))
    before = len(found.items())
    if gone and not dry_run:
        found.remove([one.id for one in gone], f"pruned {len(gone)}")
    verb = "would go" if dry_run else "went"
    click.echo(f"{len(gone)} of {before} {verb}", err=True)
    return EXIT_OK


@pool.command()
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@options_as(Which)
@click.option("--validated", is_flag=True, help="Only those that were validated.")
@state_option
def export(which: Which, out: Path, validated: bool, state: Path | None) -> int:
    """Write the demonstrations to OUT, JSON lines as a bank of examples has them.

    A bank shows those that are correct programs; scores and outcomes stay in the pool.
    """
    items = [one for one in which.of(_pool(state).items()) if one.validated or not validated]
    if not items:
        raise UsageError("no such demonstrations, so nothing was written; see: viper ace pool show")
    write_bank(out, [one.example for one in items])
    click.echo(f"{out}: {len(items)} demonstrations")
    return EXIT_OK


@pool.command()
@click.argument("bank", type=click.Path(path_type=Path, dir_okay=False))
@state_option
def add(bank: Path, state: Path | None) -> int:
    """Take in the demonstrations of BANK, as viper ace pool export wrote them.

    An example without a part, as viper ace mine makes it, is taken as one of programs.
    """
    examples = (one if one.part else replace(one, part="program") for one in read_bank(bank).items)
    found = _pool(state)
    before = len(found.items())
    given_ids = found.add([pooled(one) for one in examples], f"added from {bank.name}")
    new = len(found.items()) - before
    click.echo(f"{found.store.folder}: {new} new of {len(given_ids)} demonstrations")
    return EXIT_OK


@pool.command()
@click.argument("version", type=click.IntRange(0))
@state_option
def rollback(version: int, state: Path | None) -> int:
    """Make the pool as it was in VERSION; what came since stays in its own versions."""
    roll_back(_pool(state).store, version)
    return EXIT_OK


def _pool(state: Path | None) -> DemonstrationPool:
    return DemonstrationPool(state_dir(state) / FOLDER)


def _named(found: DemonstrationPool, ids: tuple[str, ...]) -> list[Pooled]:
    known = {one.id: one for one in found.items()}
    missing = [one for one in ids if one not in known]
    if missing:
        raise UsageError(f"no demonstration {missing[0]!r}; viper ace pool show lists the ids")
    return [known[one] for one in dict.fromkeys(ids)]


def _line(one: Pooled) -> tuple[str, ...]:
    example = one.example
    outcomes = f"{one.helped}:{one.misled}"
    validated = "yes" if one.validated else "no"
    kinds = (example.part, example.polarity, f"{one.score:.2f}", outcomes, validated)
    return (one.id, *kinds, example.task, for_terminal(example.query, _QUERY_CHARACTERS))


def _record(one: Pooled) -> dict[str, object]:
    return {"id": one.id, "score": round(one.score, 4), **to_json(one)}


def _in_full(one: Pooled) -> str:
    example = one.example
    lines = [
        f"{one.id}: {example.polarity} {example.part}, {example.task}, {for_terminal(example.api)}"
        f", score {one.score:.2f}, solved {one.helped}, not solved {one.misled}",
        f"validated on: {for_terminal(one.validated_on) or 'nothing'}",
        f"query: {for_terminal(example.query)}",
    ]
    if example.options:
        lines.append(f"options: {for_terminal('; '.join(example.options))}")
    for name in ("plan", "program", "critique"):
        text = getattr(example, name)
        if text:
            lines += [f"{name}:", *indented(text)]
    if one.fault is not None and isinstance(one.fault.desired, str):
        lines += [f"the {one.fault.location} should be:", *indented(one.fault.desired)]
    return "\n".join(lines) + "\n"


def echo_versions(store: VersionedStore) -> None:
    """The versions that can be rolled back to, the newest last."""
    rows = [(str(one.number), one.made, for_terminal(one.note)) for one in store.versions()]
    if not rows:
        click.echo(f"{store.folder}: nothing was kept yet", err=True)
        return
    echo_table(("version", "made", "by"), rows)


def roll_back(store: VersionedStore, version: int) -> None:
    """Goes back to a version, and says what is the newest one now."""
    before = store.version
    now = store.roll_back(version)
    if now == before:
        click.echo(f"version {now} is like version {version} already")
    else:
        click.echo(f"version {now} is like version {version}; version {before} is still there")
