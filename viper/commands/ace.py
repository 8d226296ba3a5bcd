"""``viper ace``: banks of in-context examples: mine, sheet, show, check, merge, tune."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.ace_check import check
from viper.commands.ace_mine import mine
from viper.commands.ace_sheet import sheet
from viper.commands.ace_tune import tune
from viper.commands.out_path import OutPath
from viper.errors import EXIT_OK

if TYPE_CHECKING:
    from viper.schema import Example

_BANK = click.Path(path_type=Path)
_QUERY_CHARACTERS = 60


@click.group()
def ace() -> None:
    """Automatically made in-context examples (ACEs).

    Programs that a model wrote without examples, and that were right on labelled samples, are
    shown to it before the next query. Source: Stanić et al. 2024, sec. 2.3.

    \b
    viper ace mine --data world --shots 16 --out bank.jsonl     make a bank
    viper ace sheet sheet.txt --task ground --out bank.jsonl    make one without labels
    viper ace show bank.jsonl --programs                        look at it
    viper ace check bank.jsonl                                  does it still hold?
    viper ace merge one.jsonl other.jsonl --out both.jsonl
    viper ace tune --bank bank.jsonl --out tuned.toml           temperature, thresholds

    A profile names its bank in [run]: bank = "bank.jsonl".
    """


ace.add_command(mine)
ace.add_command(sheet)
ace.add_command(check)
ace.add_command(tune)


@ace.command()
@click.argument("bank", type=_BANK)
@click.option("--programs", is_flag=True, help="Print the programs, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the examples as one JSON list.")
def show(bank: Path, programs: bool, as_json: bool) -> int:
    """Show the examples of BANK in their order of merit.

    The number of an example is its line; `lines` is the length of its program.
    """
    from viper.ace.bank import read_bank
    from viper.commands.tables import echo_table
    from viper.schema import to_json

    items = read_bank(bank).items
    if as_json:
        click.echo(json.dumps([to_json(one) for one in items], ensure_ascii=False))
        return EXIT_OK
    if not programs:
        header = ("n", "task", "api", "kind", "score", "lines", "query")
        echo_table(header, [_line(number, one) for number, one in enumerate(items, start=1)])
        return EXIT_OK
    for number, one in enumerate(items, start=1):
        click.echo(_in_full(number, one))
    return EXIT_OK


@ace.command()
@click.argument("banks", type=_BANK, nargs=-1, required=True)
@click.option("--out", type=OutPath(), required=True, help="The bank to write; may be one of them.")
@click.option("--keep", type=click.IntRange(1), help="Examples of each task and API at most.")
def merge(banks: tuple[Path, ...], out: Path, keep: int | None) -> int:
    """Write the examples of several BANKS as one, the best first, each once.

    Merit is score, then length; types of query take turns, and examples that differ by words only
    come last. Two examples are the same where task, API, sample, query and program are.
    """
    from viper.ace.bank import merged, read_bank, write_bank

    read = [read_bank(path) for path in banks]
    found = merged(read, keep)
    write_bank(out, found)
    given = sum(len(one.items) for one in read)
    click.echo(f"{out}: {len(found)} of {given} examples")
    return EXIT_OK


def _line(number: int, one: Example) -> tuple[str, ...]:
    query = " ".join(one.query.split())
    cut = query if len(query) <= _QUERY_CHARACTERS else query[: _QUERY_CHARACTERS - 1] + "…"
    lines: Any = (str(number), one.task, one.api, one.kind or "-", f"{one.score:.2f}")
    return (*lines, str(one.program.strip("\n").count("\n") + 1), cut)


def _in_full(number: int, one: Example) -> str:
    source = " ".join(filter(None, (one.set, one.split, one.sample_id)))
    options = f"\noptions: {'; '.join(one.options)}" if one.options else ""
    return (
        f"{number}. {one.task}, {one.api}, {one.kind or 'no kind'}, score {one.score:.2f}, "
        f"from {source or 'nowhere'}, seed {one.seed}, by {one.llm}\n"
        f"query: {one.query}{options}\n"
        + "".join(f"    {line}\n" for line in one.program.strip("\n").split("\n"))
    )
