"""``viper data``: list, check and show data sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import click

from viper.commands.lazy_group import LazyGroup
from viper.commands.options import DATA_SET, options, root_option, seed_option
from viper.commands.terminal import echo_json, echo_table
from viper.data.registry import DATASETS, choose, data_set
from viper.data.sample import DatasetSpec
from viper.errors import EXIT_FAILED, EXIT_OK
from viper.schema import to_json

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_COMMANDS = {"score": ("viper.commands.score:score", "Score predictions that were made elsewhere.")}


@click.group(cls=LazyGroup, paths=_COMMANDS)
def data() -> None:
    """List, check and show data sets; score predictions made elsewhere.

    \b
    viper data list
    viper data check nlvr --root DIR     list missing files and their source
    viper data show mine.csv             show samples of your own file
    viper data score gqa --root gqa --predictions answers.jsonl
    """


_set_options = options(
    click.argument("name", metavar="SET", type=DATA_SET),
    root_option,
    click.option("--split", metavar="S", help="Split. By default the first of the data set."),
    _json_option,
)


@data.command("list")
@_json_option
def list_sets(as_json: bool) -> None:
    """List the data sets: shipped, on the model hub, and from installed packages."""
    sets = [data_set(name) for name in DATASETS.names()]
    if as_json:
        keys = ("name", "metric", "summary", "splits")
        echo_json([{key: getattr(each, key) for key in keys} for each in sets])
        return
    rows = [(s.name, s.metric, s.splits[0], len(s.splits), s.summary) for s in sets]
    echo_table(("name", "metric", "default split", "splits", "what"), rows)


@data.command()
@_set_options
def check(name: str, root: Path | None, split: str | None, as_json: bool) -> int:
    """Check the files of SET; the exit code is 1 if files are missing."""
    findings = data_set(name).check(DatasetSpec(root, split))
    complete = all(finding.ok for finding in findings)
    if as_json:
        rows = [dataclasses.asdict(finding) for finding in findings]
        echo_json({"complete": complete, "findings": rows})
    else:
        for finding in findings:
            click.echo(f"{'ok' if finding.ok else 'problem':7}  {finding.what}: {finding.says}")
        click.echo("complete" if complete else "not complete")
    return EXIT_OK if complete else EXIT_FAILED


@data.command()
@_set_options
@click.option("--limit", type=click.IntRange(min=1), default=3, show_default=True, metavar="N",
              help="Number of samples.")  # fmt: skip
@seed_option("Random seed for the choice of samples.")
def show(
    name: str, root: Path | None, split: str | None, as_json: bool, limit: int, seed: int
) -> None:
    """Show a few random samples of SET; media are not read."""
    spec = DatasetSpec(root, split, seed, limit)
    names = ("text", "task", "media", "files", "options", "target", "groups", "cluster")
    for sample in choose(data_set(name).samples(spec), limit, seed):
        row = {"id": sample.sample_id, **{name: getattr(sample, name) for name in names}}
        row = {key: value for key, value in row.items() if value not in ((), {}, "", None)}
        if as_json:
            echo_json(to_json(row))
            continue
        for key, value in row.items():
            if isinstance(value, Mapping):
                value = ", ".join(f"{name}={each}" for name, each in value.items())
            text = "; ".join(map(str, value)) if isinstance(value, tuple) else value
            click.echo(f"{key:9} {text}")
        click.echo()
