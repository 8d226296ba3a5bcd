"""``viper ace``: banks of in-context examples: mine, sheet, show, check, merge, tune."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from viper.ace.bank import merged, read_bank, write_bank
from viper.api.library import Library, library_for
from viper.commands.lazy_group import LazyGroup
from viper.commands.options import (
    OutPath,
    ProfileChoice,
    given_by,
    open_profile,
    option,
    options_as,
    root_option,
)
from viper.commands.terminal import counter, echo_table
from viper.data.sample import DatasetSpec
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.learning.bank_check import Checked, Data, find, not_run, read, run
from viper.reasoner import Reasoner
from viper.schema import Example, to_json

_BANK = click.Path(path_type=Path)
_QUERY_CHARACTERS = 60
_COMMANDS = {
    "mine": (
        "viper.commands.ace_mine:mine",
        "Answer a few labelled samples without examples and keep the best programs as BANK.",
    ),
    "describe": (
        "viper.commands.ace_sheet:sheet",
        "Make a bank without labels, from a description of the data set.",
    ),
    "pool": (
        "viper.commands.pool:pool",
        "Manage the demonstration pool: add, export, prune, rollback, show, start.",
    ),
    "tune": (
        "viper.commands.ace_tune:tune",
        "Try temperatures and thresholds on a few labelled samples; write the best as a profile.",
    ),
}


@click.group(cls=LazyGroup, paths=_COMMANDS, old_names={"sheet": "describe"})
def ace() -> None:
    """Automatically made in-context examples (ACEs).

    Programs that a model wrote without examples, and that were right on labelled samples, are
    shown to it before the next query. Source: Stanić et al. 2024, sec. 2.3.

    \b
    viper ace mine --data world --shots 16 --out bank.jsonl     make a bank
    viper ace describe sheet.txt --task ground --out bank.jsonl    make one without labels
    viper ace show bank.jsonl --programs                        look at it
    viper ace check bank.jsonl                                  does it still hold?
    viper ace merge one.jsonl other.jsonl --out both.jsonl
    viper ace tune --bank bank.jsonl --out tuned.toml           temperature, thresholds

    A profile names its bank in [run]: bank = "bank.jsonl".
    """


@ace.command()
@click.argument("bank", type=_BANK)
@click.option("--programs", is_flag=True, help="Print the programs, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the examples as one JSON list.")
def show(bank: Path, programs: bool, as_json: bool) -> int:
    """Show the examples of BANK in their order of merit.

    The number of an example is its line; `lines` is the length of its program.
    """
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
    read = [read_bank(path) for path in banks]
    found = merged(read, keep)
    write_bank(out, found)
    given = sum(len(one.items) for one in read)
    click.echo(f"{out}: {len(found)} of {given} examples")
    return EXIT_OK


@dataclass(frozen=True, kw_only=True)
class CheckOptions(ProfileChoice):
    """The options of ``viper ace check``."""

    # fmt: off
    set_name: str | None = option("--data", metavar="SET",
        help="Where the samples are; by default the set that an example names.")
    split: str | None = option("--split", metavar="NAME",
        help="By default the one that an example names.")
    root: Path | None = given_by(root_option)
    api: str | None = option("--api", metavar="NAME[+FILE.py]",
        help="Judge all of them by this API instead of their own: what would break if their "
             "programs had to do with what it offers?")
    out: Path | None = option("--out", type=OutPath(), metavar="FIXED",
        help="Write the examples that hold as a bank of their own.")
    as_json: bool = option("--json", help="Print one JSON list.")
    # fmt: on


@ace.command()
@click.argument("bank", type=click.Path(path_type=Path))
@options_as(CheckOptions)
def check(wanted: CheckOptions, bank: Path) -> int:
    """Run every example of BANK again under today's API and models, and name the broken ones.

    No program is written: first each text is read (does it parse, is it allowed, does the API
    have what it calls?), then it runs on its own sample and the set's metric judges it. It holds
    if its score is above 0.5, or no lower than when it was mined. Where the sample is not there,
    only the text was read: `not run`. Exit code 1 where an example is broken.

    \b
    viper ace check bank.jsonl
    viper ace check bank.jsonl --api abstract+routines.py
    viper ace check bank.jsonl --data refcoco --split train --root refer --out fixed.jsonl
    """
    examples = read_bank(bank).items
    if wanted.api is not None:
        examples = tuple(replace(one, api=wanted.api) for one in examples)
    checked = _checked(examples, wanted)
    holding = [one.example for one in checked if one.state != "broken"]
    if wanted.out is not None:
        write_bank(wanted.out, holding)
        click.echo(f"{wanted.out}: {len(holding)} examples", err=True)
    _echo(checked, wanted.as_json)
    return EXIT_OK if len(holding) == len(checked) else EXIT_FAILED


def _checked(examples: Sequence[Example], wanted: CheckOptions) -> list[Checked]:
    libraries: dict[str, Library | str] = {}
    found = []
    for number, example in enumerate(examples, start=1):
        if example.api not in libraries:
            try:
                libraries[example.api] = library_for(example.api)
            except UsageError as error:
                libraries[example.api] = str(error)
        library = libraries[example.api]
        if isinstance(library, str):
            found.append(Checked(number, example, "broken", library))
        else:
            found.append(read(number, example, library, listed=wanted.api is not None))
    return _run(found, libraries, wanted)


def _run(
    checked: list[Checked], libraries: dict[str, Library | str], wanted: CheckOptions
) -> list[Checked]:
    """Runs what reads well, with one reasoner for all APIs of one library."""
    open_profile(wanted)  # a wrong name shows before anything is read
    places = [place for place, one in enumerate(checked) if one.state != "broken"]
    data = Data(wanted.set_name, DatasetSpec(wanted.root, wanted.split))
    samples = find([checked[place].example for place in places], data)
    of_library: dict[Any, list[int]] = {}
    for index, place in enumerate(places):
        excused = not_run(checked[place], samples[index])
        if excused is None:
            of_library.setdefault(libraries[checked[place].example.api], []).append(index)
        else:
            checked[place] = excused
    with counter("checking", sum(map(len, of_library.values()))) as advance:
        for indices in of_library.values():
            api = checked[places[indices[0]]].example.api
            profile = open_profile(replace(wanted, api=api)).without_examples()
            with Reasoner(profile, preload=False) as reasoner:
                for index in indices:
                    place = places[index]
                    checked[place] = run(checked[place], samples[index], reasoner)
                    advance("")
    return checked


def _echo(checked: Sequence[Checked], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([_record(one) for one in checked], ensure_ascii=False))
        return
    rows = [
        (str(one.number), one.state, one.example.task, one.example.api, one.example.sample_id,
         "; ".join(filter(None, (one.why, one.note))) or "-")
        for one in checked
    ]  # fmt: skip
    echo_table(("n", "state", "task", "api", "sample", "why"), rows)
    counts = Counter(one.state for one in checked)
    click.echo(", ".join(f"{counts[state]} {state}" for state in ("ok", "broken", "not run")))


def _record(one: Checked) -> dict[str, Any]:
    found = {name: getattr(one, name) for name in ("number", "state", "why", "note", "score")}
    named = ("task", "api", "sample_id", "query")
    found["mined_score"] = one.example.score
    return found | {name: getattr(one.example, name) for name in named}


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
