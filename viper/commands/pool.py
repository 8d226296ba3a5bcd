"""``viper ace pool``: demonstrations of correct and incorrect plans and programs.

Each command opens the pool of the state folder (`_pool`), selects demonstrations by options or ids,
and prints or changes them. Versions and rollback are shared with `viper learn prompts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

from viper.ace.bank import read_bank, write_bank
from viper.commands.lazy_group import LazyGroup
from viper.commands.options import option, options_as, state_option
from viper.commands.terminal import echo_json, echo_table, indented, note
from viper.errors import UsageError
from viper.escape import for_terminal
from viper.profiles.files import state_dir
from viper.schema import to_json
from viper.storage.versioned import VersionedStore
from viper.strategies.demonstration_pool import (
    FOLDER,
    LOWEST_SCORE,
    DemonstrationPool,
    PoolExample,
    pool_example,
)

# Leaves room for the other columns of the table on a line of about 120 characters.
_QUERY_CHARACTERS = 60
_COMMANDS = {
    "start": (
        "viper.commands.pool_start:start",
        "Fill the pool with demonstrations from the labelled samples of SET.",
    )
}


@dataclass(frozen=True, kw_only=True)
class Which:
    """Options that select demonstrations."""

    # fmt: off
    part: Literal["plan", "program"] | None = option("--part", help="Select plans or programs.")
    polarity: Literal["correct", "incorrect"] | None = option("--polarity",
        help="Select correct or incorrect demonstrations.")
    task: str | None = option("--task", metavar="TASK", help="Select demonstrations of a task.")
    # fmt: on

    def of(self, items: Iterable[PoolExample]) -> list[PoolExample]:
        """Return the items that the options select."""
        filters = {name: value for name, value in vars(self).items() if value}
        return [
            item
            for item in items
            if all(getattr(item.example, name) == value for name, value in filters.items())
        ]


@click.group(cls=LazyGroup, paths=_COMMANDS)
def pool() -> None:
    """Manage the demonstration pool: plans and programs for prompts.

    Strategy plan shows the demonstrations with the most similar queries: some correct ones, and
    some incorrect ones with their critique. Source: CLOVA, sec. 3.2.

    \b
    viper ace pool start gqa --root gqa             make demonstrations from labelled samples
    viper ace pool show                             list demonstrations with their scores
    viper ace pool show 1f3c5d7e9a0b                show one demonstration in full
    viper ace pool prune --below 0.3 --dry-run      list misleading demonstrations
    viper ace pool export demonstrations.jsonl      write a file (viper ace pool add reads it)
    viper ace pool rollback 12                      restore an earlier version
    """


@pool.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@options_as(Which)
@click.option("--versions", is_flag=True, help="List the versions of the pool instead.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
@state_option
def show(
    which: Which, ids: tuple[str, ...], versions: bool, as_json: bool, state: Path | None
) -> None:
    """List the demonstrations, or show the demonstrations of these IDs in full.

    `outcomes` counts the tasks solved and not solved with the demonstration in the prompt. The
    score follows from them.
    """
    pool_store = _pool(state)
    if versions:
        echo_versions(pool_store.store)
        return
    items = _named(pool_store, ids) if ids else which.of(pool_store.items())
    if as_json:
        for item in items:
            echo_json({"id": item.id, "score": round(item.score, 4), **to_json(item)})
    elif ids:
        for item in items:
            click.echo(_in_full(item))
    elif not items:
        note(f"{pool_store.store.folder}: no such demonstrations")
    else:
        header = ("id", "part", "polarity", "score", "outcomes", "validated", "task", "query")
        echo_table(header, [_line(item) for item in items])


@pool.command()
@click.option(
    "--below",
    type=click.FloatRange(0, 1),
    metavar="SCORE",
    help="Remove demonstrations with a lower score. By default those too low for any prompt.",
)
@click.option("--id", "ids", multiple=True, metavar="ID", help="Remove this ID; repeatable.")
@click.option("--dry-run", is_flag=True, help="Only list the demonstrations to remove.")
@state_option
def prune(below: float | None, ids: tuple[str, ...], dry_run: bool, state: Path | None) -> None:
    """Remove misleading demonstrations; earlier versions keep them."""
    pool_store = _pool(state)
    least = LOWEST_SCORE if below is None else below
    removed = _named(pool_store, ids) if ids else pool_store.below(least)
    for item in removed:
        click.echo("  ".join(_line(item)))
    before = len(pool_store.items())
    if removed and not dry_run:
        pool_store.remove([item.id for item in removed], f"pruned {len(removed)}")
    note(f"{len(removed)} of {before} {'would go' if dry_run else 'went'}")


@pool.command()
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@options_as(Which)
@click.option("--validated", is_flag=True, help="Write only validated demonstrations.")
@state_option
def export(which: Which, out: Path, validated: bool, state: Path | None) -> None:
    """Write the demonstrations to OUT as JSON lines, in the format of a bank of examples.

    A bank shows only the correct programs. Scores and outcomes are not written.
    """
    items = [item for item in which.of(_pool(state).items()) if item.validated or not validated]
    if not items:
        raise UsageError("no such demonstrations, so nothing was written; see: viper ace pool show")
    write_bank(out, [item.example for item in items])
    click.echo(f"{out}: {len(items)} demonstrations")


@pool.command()
@click.argument("bank", type=click.Path(path_type=Path, dir_okay=False))
@state_option
def add(bank: Path, state: Path | None) -> None:
    """Add the demonstrations of BANK, a file of viper ace pool export.

    An example without a part, as viper ace mine writes it, counts as a program.
    """
    examples = read_bank(bank).items
    added = [each if each.part else replace(each, part="program") for each in examples]
    pool_store = _pool(state)
    before = len(pool_store.items())
    ids = pool_store.add([pool_example(each) for each in added], f"added from {bank.name}")
    new = len(pool_store.items()) - before
    click.echo(f"{pool_store.store.folder}: {new} new of {len(ids)} demonstrations")


def _pool(state: Path | None) -> DemonstrationPool:
    return DemonstrationPool(state_dir(state) / FOLDER)


def _named(pool_store: DemonstrationPool, ids: tuple[str, ...]) -> list[PoolExample]:
    by_id = {item.id: item for item in pool_store.items()}
    missing = [name for name in ids if name not in by_id]
    if missing:
        raise UsageError(f"no demonstration {missing[0]!r}; viper ace pool show lists the ids")
    return [by_id[name] for name in dict.fromkeys(ids)]


def _line(item: PoolExample) -> tuple[str, ...]:
    example = item.example
    outcomes = f"{item.helped}:{item.misled}"
    validated = "yes" if item.validated else "no"
    kinds = (example.part, example.polarity, f"{item.score:.2f}", outcomes, validated)
    return (item.id, *kinds, example.task, for_terminal(example.query, _QUERY_CHARACTERS))


def _in_full(item: PoolExample) -> str:
    example = item.example
    lines = [
        f"{item.id}: {example.polarity} {example.part}, {example.task}, {for_terminal(example.api)}"
        f", score {item.score:.2f}, solved {item.helped}, not solved {item.misled}",
        f"validated on: {for_terminal(item.validated_on) or 'nothing'}",
        f"query: {for_terminal(example.query)}",
    ]
    if example.options:
        lines.append(f"options: {for_terminal('; '.join(example.options))}")
    for name in ("plan", "program", "critique"):
        text = getattr(example, name)
        if text:
            lines += [f"{name}:", *indented(text)]
    if item.fault is not None and isinstance(item.fault.desired, str):
        lines += [f"the {item.fault.location} should be:", *indented(item.fault.desired)]
    return "\n".join(lines) + "\n"


def echo_versions(store: VersionedStore) -> None:
    """Print the versions of a store, newest last."""
    rows = [(each.number, each.made, for_terminal(each.note)) for each in store.versions()]
    if rows:
        echo_table(("version", "made", "by"), rows)
    else:
        note(f"{store.folder}: nothing was kept yet")


def rollback_command(open_pool: Callable[[Path | None], Any]) -> click.Command:
    """Build ``rollback``, which restores a version of a pool and prints the new number."""

    @click.command()
    @click.argument("version", type=click.IntRange(0))
    @state_option
    def rollback(version: int, state: Path | None) -> None:
        """Restore the pool of VERSION as a new version; later versions stay available."""
        store = open_pool(state).store
        before, now = store.version, store.roll_back(version)
        hint = " already" if now == before else f"; version {before} is still there"
        click.echo(f"version {now} is like version {version}{hint}")

    return rollback


pool.add_command(rollback_command(_pool))
