"""``viper ace``: banks of in-context examples, and settings tuned on labelled samples.

Subcommands that load models have modules of their own (`_COMMANDS`); the others are here. `check`
reads the bank, parses each program against its API, and runs those that hold on their own sample.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from viper.ace.bank import merged, read_bank, write_bank
from viper.ace.bank_validation import (
    ExampleCheck,
    ExampleSample,
    SampleSource,
    check_program,
    check_text,
    not_run,
    samples_of,
)
from viper.api.library import Library, library_for
from viper.commands import options as cli
from viper.commands.lazy_group import LazyGroup
from viper.commands.terminal import counter, echo_json, echo_table, note
from viper.data.sample import DatasetSpec
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.escape import for_terminal
from viper.reasoner import Reasoner
from viper.schema import to_json

_BANK = click.Path(path_type=Path)

# As in `viper pool`: leaves room for the other columns on a line of about 120 characters.
_QUERY_CHARACTERS = 60
# fmt: off
_COMMANDS = {
    "mine": ("viper.commands.ace_mine:mine",
        "Mine a bank: answer labelled samples and keep the best programs."),
    "describe": ("viper.commands.ace_mine:describe",
        "Make a bank without labels, from a description of the data set."),
    "pool": ("viper.commands.pool:pool",
        "Manage the demonstration pool: add, export, prune, rollback, show, start."),
    "tune": ("viper.commands.ace_tune:tune",
        "Tune temperature and thresholds on labelled samples; write a profile."),
}
# fmt: on


@click.group(cls=LazyGroup, paths=_COMMANDS, old_names={"sheet": "describe"})
def ace() -> None:
    """Build and check in-context examples; tune temperature and thresholds.

    Automatic in-context examples (ACEs) are programs that a model wrote without examples and that
    answered labelled samples correctly. The prompt of the next query shows them.
    Source: Stanić et al. 2024, sec. 2.3.

    \b
    viper ace mine --data world --shots 16 --out bank.jsonl        make a bank
    viper ace describe sheet.txt --task ground --out bank.jsonl    make a bank without labels
    viper ace show bank.jsonl --programs                           look at a bank
    viper ace check bank.jsonl                                     run its examples again
    viper ace merge first.jsonl second.jsonl --out both.jsonl
    viper ace tune --bank bank.jsonl --out tuned.toml              temperature, thresholds

    A profile names its bank in [run]: bank = "bank.jsonl".
    """


@ace.command(short_help="Show the examples of a bank.")
@click.argument("bank", type=_BANK)
@click.option("--programs", is_flag=True, help="Print the programs in full.")
@click.option("--json", "as_json", is_flag=True, help="Print the examples as one JSON list.")
def show(bank: Path, programs: bool, as_json: bool) -> None:
    """Show the examples of BANK, best first.

    The number of an example is its line in the file; `lines` is the length of its program.
    """
    items = read_bank(bank).items
    if as_json:
        echo_json([to_json(example) for example in items])
    elif not programs:
        rows = []
        for number, item in enumerate(items, start=1):
            lines = item.program.strip("\n").count("\n") + 1
            about = (number, item.task, item.api, item.kind or "-", f"{item.score:.2f}", lines)
            rows.append((*about, for_terminal(item.query, _QUERY_CHARACTERS)))
        echo_table(("n", "task", "api", "kind", "score", "lines", "query"), rows)
    else:
        for number, item in enumerate(items, start=1):
            source = " ".join(filter(None, (item.set, item.split, item.sample_id))) or "nowhere"
            choices = f"\noptions: {'; '.join(item.options)}" if item.options else ""
            click.echo(
                f"{number}. {item.task}, {item.api}, {item.kind or 'no kind'}, score "
                f"{item.score:.2f}, from {source}, seed {item.seed}, by {item.llm}\n"
                f"query: {item.query}{choices}\n"
                + "".join(f"    {line}\n" for line in item.program.strip("\n").split("\n"))
            )


@ace.command(short_help="Merge several banks into one.")
@click.argument("banks", type=_BANK, nargs=-1, required=True)
@click.option(
    "--out", type=cli.OutPath(), required=True, help="Bank to write; may be one of BANKS."
)
@click.option(
    "--keep", type=click.IntRange(1), help="Maximum number of examples for each task and API."
)
def merge(banks: tuple[Path, ...], out: Path, keep: int | None) -> None:
    """Merge the examples of several BANKS into one, best first and without duplicates.

    A higher score comes first, then a shorter program. Kinds of query take turns, and examples
    that differ from an earlier one only in words come last. Two examples are duplicates if task,
    API, sample, query and program are equal.
    """
    input_banks = [read_bank(path) for path in banks]
    examples = merged(input_banks, keep)
    write_bank(out, examples)
    total = sum(len(bank.items) for bank in input_banks)
    click.echo(f"{out}: {len(examples)} of {total} examples")


@dataclass(frozen=True, kw_only=True)
class CheckOptions(cli.DataTrust, cli.ProfileChoice):
    """Options of ``viper ace check``."""

    # fmt: off
    set_name: str | None = cli.option("--data", metavar="SET", type=cli.DATA_SET,
        help="Data set that holds the samples. By default the set that each example names.")
    split: str | None = cli.option("--split", metavar="NAME",
        help="Split that holds the samples. By default the split that each example names.")
    root: Path | None = cli.given_by(cli.root_option)
    api: str | None = cli.option("--api", metavar="NAME[+FILE.py]", type=cli.API,
        help="Check all examples against this API instead of their own, to see what would break.")
    out: Path | None = cli.option("--out", type=cli.OutPath(), metavar="FIXED",
        help="Write the examples that pass to a new bank.")
    as_json: bool = cli.option("--json", help="Print one JSON list.")
    # fmt: on


@ace.command(short_help="Run the examples of a bank again and list the broken ones.")
@click.argument("bank", type=_BANK)
@cli.options_as(CheckOptions)
def check(options: CheckOptions, bank: Path) -> int:
    """Run every example of BANK again with the current API and models, and list the broken ones.

    No model writes a program. Each program is first parsed and checked: it may call only what the
    API offers. Then it runs on its own sample, and the metric of the data set scores it. It passes
    if the score is at least .5 or not below the score of mining. If the sample is missing, only the
    text is checked (`not run`). The exit code is 1 if an example is broken.

    \b
    viper ace check bank.jsonl
    viper ace check bank.jsonl --api abstract+more+routines.py
    viper ace check bank.jsonl --data refcoco --split train --root refer --out fixed.jsonl
    """
    examples = read_bank(bank).items
    if options.api is not None:
        examples = tuple(replace(example, api=options.api) for example in examples)
    profile = cli.open_profile(options)
    # An API of the bank is data; one of the command line is not.
    stored = None if options.trust or options.api is not None else ()
    libraries: dict[str, Library | str] = {}
    checked = []
    for number, example in enumerate(examples, start=1):
        api = example.api
        if api not in libraries:
            try:
                own = api == profile.document.run.api  # its files stand beside the profile
                libraries[api] = profile.library() if own else library_for(api, stored=stored)
            except UsageError as error:
                libraries[api] = str(error)
        library = libraries[api]
        if isinstance(library, str):
            checked.append(ExampleCheck(number, example, "broken", library))
        else:
            checked.append(check_text(number, example, library, listed=options.api is not None))
    # The programs that parse run on their samples, with one reasoner for all APIs of one library.
    places = [place for place, result in enumerate(checked) if result.state != "broken"]
    data = SampleSource(options.set_name, DatasetSpec(options.root, options.split))
    samples = samples_of([checked[place].example for place in places], data)
    of_library: dict[Any, list[tuple[int, ExampleSample]]] = {}
    for place, sample in zip(places, samples, strict=True):
        excused = not_run(checked[place], sample)
        if excused is None:
            library = libraries[checked[place].example.api]
            of_library.setdefault(library, []).append((place, sample))
        else:
            checked[place] = excused
    with counter("checking", sum(map(len, of_library.values()))) as advance:
        for runs in of_library.values():
            api = checked[runs[0][0]].example.api
            api_of_runs = None if api == profile.document.run.api else api
            opened = cli.open_profile(replace(options, api=api_of_runs)).without_examples()
            with Reasoner(opened, preload=False) as reasoner:
                for place, sample in runs:
                    checked[place] = check_program(checked[place], sample, reasoner)
                    advance("")
    holding = [result.example for result in checked if result.state != "broken"]
    if options.out is not None:
        write_bank(options.out, holding)
        note(f"{options.out}: {len(holding)} examples")
    if options.as_json:
        records = []
        for result in checked:
            record = {n: getattr(result, n) for n in ("number", "state", "why", "note", "score")}
            record["mined_score"] = result.example.score
            names = ("task", "api", "sample_id", "query")
            records.append(record | {name: getattr(result.example, name) for name in names})
        echo_json(records)
    else:
        rows = [
            (row.number, row.state, row.example.task, row.example.api, row.example.sample_id,
             "; ".join(filter(None, (row.why, row.note))) or "-")
            for row in checked
        ]  # fmt: skip
        echo_table(("n", "state", "task", "api", "sample", "why"), rows)
        counts = Counter(result.state for result in checked)
        click.echo(", ".join(f"{counts[state]} {state}" for state in ("ok", "broken", "not run")))
    return EXIT_OK if len(holding) == len(checked) else EXIT_FAILED
