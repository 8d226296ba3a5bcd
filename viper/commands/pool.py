"""``viper pool``: demonstrations of plans and programs, also of those that did not work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.kept_versions import echo_versions, indented, pool_folder, roll_back, shown
from viper.commands.option_groups import options, state_option
from viper.commands.pool_start import start
from viper.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from viper.ace.pool import DemonstrationPool
    from viper.ace.pooled import Pooled

_QUERY_CHARACTERS = 60

_which = options(
    click.option("--part", type=click.Choice(["plan", "program"]), help="Only this part."),
    click.option("--polarity", type=click.Choice(["correct", "incorrect"]),
                 help="Only those that worked, or those that did not."),
    click.option("--task", metavar="TASK", help="Only those of this task."),
)  # fmt: skip


@click.group()
def pool() -> None:
    """The demonstration pool: plans and programs that are shown before a query.

    Strategy plan shows those whose queries are most like its own: some that worked, and some that
    did not with the reason. Source: CLOVA, sec. 3.2.

    \b
    viper pool start gqa --root gqa                 the first ones, from labelled samples
    viper pool show                                 what there is, with its scores
    viper pool show 1f3c5d7e9a0b                    one of them in full
    viper pool prune --below 0.3 --dry-run          those that mislead
    viper pool export demonstrations.jsonl          to share them; viper pool add takes them in
    viper pool rollback 12                          as it was in an earlier version
    """


pool.add_command(start)


@pool.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@_which
@click.option("--versions", is_flag=True, help="List the versions instead.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
@state_option
def show(ids: tuple[str, ...], versions: bool, as_json: bool, **given: Any) -> int:
    """Show the demonstrations, or those of these IDs in full.

    `outcomes` are tasks solved and not solved with it in a prompt; the score is what they say.
    """
    from viper.commands.tables import echo_table

    found = _pool(given)
    if versions:
        echo_versions(found.ledger)
        return EXIT_OK
    items = _named(found, ids) if ids else _chosen(found, given)
    if as_json:
        for one in items:
            click.echo(json.dumps(_record(one), ensure_ascii=False))
    elif ids:
        for one in items:
            click.echo(_in_full(one))
    elif not items:
        click.echo(f"{found.ledger.folder}: no such demonstrations", err=True)
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
def prune(below: float | None, ids: tuple[str, ...], dry_run: bool, **given: Any) -> int:
    """Take out demonstrations that mislead; earlier versions keep them."""  # fmt: skip
    from viper.ace.pool import LOWEST_SCORE

    found = _pool(given)
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
@_which
@click.option("--validated", is_flag=True, help="Only those that were validated.")
@state_option
def export(out: Path, validated: bool, **given: Any) -> int:
    """Write the demonstrations to OUT, JSON lines as a bank of examples has them.

    A bank shows those that are correct programs; scores and outcomes stay in the pool.
    """
    from viper.ace.bank import write_bank

    items = [one for one in _chosen(_pool(given), given) if one.validated or not validated]
    if not items:
        raise UsageError("no such demonstrations, so nothing was written; see: viper pool show")
    write_bank(out, [one.example for one in items])
    click.echo(f"{out}: {len(items)} demonstrations")
    return EXIT_OK


@pool.command()
@click.argument("bank", type=click.Path(path_type=Path, dir_okay=False))
@state_option
def add(bank: Path, **given: Any) -> int:
    """Take in the demonstrations of BANK, as viper pool export wrote them.

    An example without a part, as viper ace mine makes it, is taken as one of programs.
    """
    from dataclasses import replace

    from viper.ace.bank import read_bank
    from viper.ace.pooled import pooled

    examples = (one if one.part else replace(one, part="program") for one in read_bank(bank).items)
    found = _pool(given)
    before = len(found.items())
    given_ids = found.add([pooled(one) for one in examples], f"added from {bank.name}")
    new = len(found.items()) - before
    click.echo(f"{found.ledger.folder}: {new} new of {len(given_ids)} demonstrations")
    return EXIT_OK


@pool.command()
@click.argument("version", type=click.IntRange(0))
@state_option
def rollback(version: int, **given: Any) -> int:
    """Make the pool as it was in VERSION; what came since stays in its own versions."""
    roll_back(_pool(given).ledger, version)
    return EXIT_OK


def _pool(given: dict[str, Any]) -> DemonstrationPool:
    from viper.ace.pool import FOLDER, DemonstrationPool

    return DemonstrationPool(pool_folder(given["state"], FOLDER))


def _chosen(found: DemonstrationPool, given: dict[str, Any]) -> list[Pooled]:
    wanted = {name: given[name] for name in ("part", "polarity", "task") if given[name]}
    return [
        one
        for one in found.items()
        if all(getattr(one.example, name) == value for name, value in wanted.items())
    ]


def _named(found: DemonstrationPool, ids: tuple[str, ...]) -> list[Pooled]:
    known = {one.id: one for one in found.items()}
    missing = [one for one in ids if one not in known]
    if missing:
        raise UsageError(f"no demonstration {missing[0]!r}; viper pool show lists the ids")
    return [known[one] for one in dict.fromkeys(ids)]


def _line(one: Pooled) -> tuple[str, ...]:
    example = one.example
    outcomes = f"{one.helped}:{one.misled}"
    validated = "yes" if one.validated else "no"
    kinds = (example.part, example.polarity, f"{one.score:.2f}", outcomes, validated)
    return (one.id, *kinds, example.task, shown(example.query, _QUERY_CHARACTERS))


def _record(one: Pooled) -> dict[str, Any]:
    from viper.schema import to_json

    return {"id": one.id, "score": round(one.score, 4), **to_json(one)}


def _in_full(one: Pooled) -> str:
    example = one.example
    lines = [
        f"{one.id}: {example.polarity} {example.part}, {example.task}, {shown(example.api)}, "
        f"score {one.score:.2f}, solved {one.helped}, not solved {one.misled}",
        f"validated on: {shown(one.validated_on) or 'nothing'}",
        f"query: {shown(example.query)}",
    ]
    if example.options:
        lines.append(f"options: {shown('; '.join(example.options))}")
    for name in ("plan", "program", "critique"):
        text = getattr(example, name)
        if text:
            lines += [f"{name}:", *indented(text)]
    if one.fault is not None and isinstance(one.fault.desired, str):
        lines += [f"the {one.fault.location} should be:", *indented(one.fault.desired)]
    return "\n".join(lines) + "\n"
