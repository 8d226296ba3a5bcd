"""``viper ace check``: do the examples of a bank still hold?"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.option_groups import root_option
from viper.commands.options import open_profile, profile_options
from viper.commands.out_path import OutPath
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from viper.api.library import Library
    from viper.learning.bank_check import Checked
    from viper.schema import Example


@click.command()
@click.argument("bank", type=click.Path(path_type=Path))
@click.option("--data", "set_name", metavar="SET",
              help="Where the samples are; by default the set that an example names.")  # fmt: skip
@click.option("--split", metavar="NAME", help="By default the one that an example names.")
@root_option
@click.option("--api", metavar="NAME[+FILE.py]",
              help="Judge all of them by this API instead of their own: what would break if their "
                   "programs had to do with what it offers?")  # fmt: skip
@click.option("--out", type=OutPath(), metavar="FIXED",
              help="Write the examples that hold as a bank of their own.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list.")
@profile_options
def check(bank: Path, **given: Any) -> int:
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
    from viper.ace.bank import read_bank, write_bank

    examples = read_bank(bank).items
    if given["api"] is not None:
        examples = tuple(replace(one, api=given["api"]) for one in examples)
    checked = _checked(examples, given)
    holding = [one.example for one in checked if one.state != "broken"]
    if given["out"] is not None:
        write_bank(given["out"], holding)
        click.echo(f"{given['out']}: {len(holding)} examples", err=True)
    _echo(checked, given["as_json"])
    return EXIT_OK if len(holding) == len(checked) else EXIT_FAILED


def _checked(examples: Sequence[Example], given: dict[str, Any]) -> list[Checked]:
    from viper.api.library import library_for
    from viper.learning.bank_check import Checked, read

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
            found.append(read(number, example, library, listed=given["api"] is not None))
    return _run(found, libraries, given)


def _run(
    checked: list[Checked], libraries: dict[str, Library | str], given: dict[str, Any]
) -> list[Checked]:
    """Runs what reads well, with one reasoner for all APIs of one library."""
    from viper.commands.progress import counter
    from viper.data.sample import Where
    from viper.learning.bank_check import Data, find, not_run, run
    from viper.reasoner import Reasoner

    open_profile(given)  # a wrong name shows before anything is read
    places = [place for place, one in enumerate(checked) if one.state != "broken"]
    data = Data(given["set_name"], Where(given["root"], given["split"]))
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
            profile = open_profile({**given, "api": api}).without_examples()
            with Reasoner(profile, preload=False) as reasoner:
                for index in indices:
                    place = places[index]
                    checked[place] = run(checked[place], samples[index], reasoner)
                    advance("")
    return checked


def _echo(checked: Sequence[Checked], as_json: bool) -> None:
    from viper.commands.tables import echo_table

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
    example = one.example
    return {
        "number": one.number,
        "state": one.state,
        "why": one.why,
        "note": one.note,
        "score": one.score,
        "mined_score": example.score,
        "task": example.task,
        "api": example.api,
        "sample_id": example.sample_id,
        "query": example.query,
    }
