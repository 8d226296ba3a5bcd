"""``viper ace``: banks of in-context examples, and settings tuned on labelled samples.

Subcommands that load models have modules of their own (`_COMMANDS`); the others are here. `check`
reads the bank, `_checked` parses each program against its API, and `_run` runs those that hold on
their own sample, with one reasoner for all APIs of one library.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from viper.ace.bank import merged, read_bank, write_bank
from viper.ace.bank_validation import (
    ExampleCheck,
    SampleSource,
    check_program,
    check_text,
    not_run,
    samples_of,
)
from viper.api.library import Library, library_for
from viper.commands import options as cli
from viper.commands.lazy_group import LazyGroup
from viper.commands.terminal import counter, echo_json, echo_table
from viper.data.sample import DatasetSpec
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.profiles.wiring import Profile
from viper.reasoner import Reasoner
from viper.schema import Example, to_json

_BANK = click.Path(path_type=Path)

# As in `viper pool`: leaves room for the other columns on a line of about 120 characters.
_QUERY_CHARACTERS = 60
# fmt: off
_COMMANDS = {
    "mine": ("viper.commands.ace_mine:mine",
        "Mine a bank: answer labelled samples and keep the best programs."),
    "describe": ("viper.commands.ace_describe:describe",
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
        return
    if not programs:
        header = ("n", "task", "api", "kind", "score", "lines", "query")
        echo_table(header, [_line(number, item) for number, item in enumerate(items, start=1)])
        return
    for number, example in enumerate(items, start=1):
        click.echo(_in_full(number, example))


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
class CheckOptions(cli.ProfileChoice):
    """Options of ``viper ace check``."""

    # fmt: off
    set_name: str | None = cli.option("--data", metavar="SET",
        help="Data set that holds the samples. By default the set that each example names.")
    split: str | None = cli.option("--split", metavar="NAME",
        help="Split that holds the samples. By default the split that each example names.")
    root: Path | None = cli.given_by(cli.root_option)
    api: str | None = cli.option("--api", metavar="NAME[+FILE.py]",
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
    viper ace check bank.jsonl --api abstract+routines.py
    viper ace check bank.jsonl --data refcoco --split train --root refer --out fixed.jsonl
    """
    examples = read_bank(bank).items
    if options.api is not None:
        examples = tuple(replace(example, api=options.api) for example in examples)
    checked = _checked(examples, options)
    holding = [result.example for result in checked if result.state != "broken"]
    if options.out is not None:
        write_bank(options.out, holding)
        click.echo(f"{options.out}: {len(holding)} examples", err=True)
    _echo(checked, options.as_json)
    return EXIT_OK if len(holding) == len(checked) else EXIT_FAILED


def _checked(examples: Sequence[Example], options: CheckOptions) -> list[ExampleCheck]:
    profile = cli.open_profile(options)
    libraries: dict[str, Library | str] = {}
    checks = []
    for number, example in enumerate(examples, start=1):
        if example.api not in libraries:
            try:
                own = _api_of(example, profile) is None
                libraries[example.api] = profile.library() if own else library_for(example.api)
            except UsageError as error:
                libraries[example.api] = str(error)
        library = libraries[example.api]
        if isinstance(library, str):
            checks.append(ExampleCheck(number, example, "broken", library))
        else:
            checks.append(check_text(number, example, library, listed=options.api is not None))
    return _run(checks, libraries, profile, options)


def _api_of(example: Example, profile: Profile) -> str | None:
    """Return an example's API, or None for the profile's own, whose files stand beside it."""
    return None if example.api == profile.document.run.api else example.api


def _run(
    checked: list[ExampleCheck],
    libraries: dict[str, Library | str],
    profile: Profile,
    options: CheckOptions,
) -> list[ExampleCheck]:
    """Run the programs that parse, with one reasoner for all APIs of one library."""
    places = [place for place, result in enumerate(checked) if result.state != "broken"]
    data = SampleSource(options.set_name, DatasetSpec(options.root, options.split))
    samples = samples_of([checked[place].example for place in places], data)
    of_library: dict[Any, list[int]] = {}
    for index, place in enumerate(places):
        excused = not_run(checked[place], samples[index])
        if excused is None:
            of_library.setdefault(libraries[checked[place].example.api], []).append(index)
        else:
            checked[place] = excused
    with counter("checking", sum(map(len, of_library.values()))) as advance:
        for indices in of_library.values():
            api = _api_of(checked[places[indices[0]]].example, profile)
            opened = cli.open_profile(replace(options, api=api)).without_examples()
            with Reasoner(opened, preload=False) as reasoner:
                for index in indices:
                    place = places[index]
                    checked[place] = check_program(checked[place], samples[index], reasoner)
                    advance("")
    return checked


def _echo(checked: Sequence[ExampleCheck], as_json: bool) -> None:
    if as_json:
        echo_json([_record(result) for result in checked])
        return
    rows = [
        (str(row.number), row.state, row.example.task, row.example.api, row.example.sample_id,
         "; ".join(filter(None, (row.why, row.note))) or "-")
        for row in checked
    ]  # fmt: skip
    echo_table(("n", "state", "task", "api", "sample", "why"), rows)
    counts = Counter(result.state for result in checked)
    click.echo(", ".join(f"{counts[state]} {state}" for state in ("ok", "broken", "not run")))


def _record(result: ExampleCheck) -> dict[str, Any]:
    record = {name: getattr(result, name) for name in ("number", "state", "why", "note", "score")}
    named = ("task", "api", "sample_id", "query")
    record["mined_score"] = result.example.score
    return record | {name: getattr(result.example, name) for name in named}


def _line(number: int, example: Example) -> tuple[str, ...]:
    query = " ".join(example.query.split())
    cut = query if len(query) <= _QUERY_CHARACTERS else query[: _QUERY_CHARACTERS - 1] + "…"
    lines: Any = (
        str(number),
        example.task,
        example.api,
        example.kind or "-",
        f"{example.score:.2f}",
    )
    return (*lines, str(example.program.strip("\n").count("\n") + 1), cut)


def _in_full(number: int, example: Example) -> str:
    source = " ".join(filter(None, (example.set, example.split, example.sample_id)))
    options = f"\noptions: {'; '.join(example.options)}" if example.options else ""
    return (
        f"{number}. {example.task}, {example.api}, {example.kind or 'no kind'}, "
        f"score {example.score:.2f}, from {source or 'nowhere'}, seed {example.seed}, "
        f"by {example.llm}\nquery: {example.query}{options}\n"
        + "".join(f"    {line}\n" for line in example.program.strip("\n").split("\n"))
    )
