"""``viper seek``: what was done step by step, by runs and by people; graphs made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.kept_versions import shown
from viper.commands.out_path import OutPath
from viper.commands.seek_record import record
from viper.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from viper.strategies.seek.study import Session, Statistics


@click.group()
def seek() -> None:
    """Searches step by step: the transition graph, and what people and runs did.

    \b
    viper seek graph                           what strategy seek may do after what
    viper seek stats RUN                       a run of --strategy seek
    viper seek stats records.jsonl             the records of a user study
    viper seek record okvqa --root okvqa --out records.jsonl
    viper seek induce records.jsonl --out mine.toml --examples decisions.jsonl
    viper run photo.jpg "…" --strategy seek --graph mine.toml

    Source: AVIS (Hu et al. 2023), sec. 3.3 and appendix C.
    """


@seek.command()
@click.argument("graph", default="avis")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def graph(graph: str, as_json: bool) -> int:
    """Check GRAPH, a shipped one or a .toml file, and show it; or a fixed sequence."""
    from viper.strategies.seek.names import ACTIONS
    from viper.strategies.seek.sequence import FixedSequence, load_route

    found = load_route(graph)
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return EXIT_OK
    if isinstance(found, FixedSequence):
        for number, action in enumerate(found.actions, 1):
            click.echo(f"{number}. {action}: {ACTIONS[action].instruction}")
        return EXIT_OK
    for state, allowed in found.states.items():
        click.echo(f"{state}: {', '.join(allowed)}")
    click.echo("")
    for action in ACTIONS:
        click.echo(f"{action}: {found.instruction(action)}")
    return EXIT_OK


@seek.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def stats(source: Path, as_json: bool) -> int:
    """Say what SOURCE did: a run of --strategy seek, or records of people."""
    from viper.strategies.seek.study import statistics

    found = statistics(_sessions(source))
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return EXIT_OK
    for line in _lines(found):
        click.echo(line)
    return EXIT_OK


@seek.command()
@click.argument("records", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=OutPath(),
    required=True,
    metavar="FILE.toml",
    help="Where the graph is written.",
)
@click.option(
    "--examples",
    type=click.Path(path_type=Path),
    metavar="FILE.jsonl",
    help="Write the decisions that helped, as examples for the planner.",
)
@click.option("--name", default="induced", show_default=True, help="Of the graph.")
@click.option(
    "--least",
    type=click.FloatRange(0, 0.5),
    default=0.02,
    show_default=True,
    help="Leave out what was done at a state less often than this share.",
)
def induce(records: Path, out: Path, examples: Path | None, name: str, least: float) -> int:
    """Make a transition graph, with frequencies, of what people did."""
    from viper.evaluate.runs.files import write_whole
    from viper.strategies.seek.graph import graph_text
    from viper.strategies.seek.study import examples_of
    from viper.strategies.seek.study import induce as made_of

    sessions = _sessions(records)
    found = made_of(sessions, name, least)
    people = len({one.participant for one in sessions})
    text = graph_text(found, f"of {len(sessions)} questions by {people} participants")
    write_whole(out, text)
    if examples is not None:
        lines = [json.dumps(asdict(one), ensure_ascii=False) for one in examples_of(sessions)]
        write_whole(examples, "".join(f"{line}\n" for line in lines))
        click.echo(f"{examples}: {len(lines)} decisions", err=True)
    edges = sum(len(allowed) for allowed in found.states.values())
    click.echo(f"{out}: {len(found.states)} states, {edges} transitions")
    return EXIT_OK


def _sessions(source: Path) -> list[Session]:
    """The sessions of a run's folder or of a file of records."""
    from viper.strategies.seek.study import of_path, read_sessions

    if not source.is_dir():
        return list(read_sessions(source))
    from viper.evaluate.runs.store import RunStore

    found = []
    with RunStore.read(source) as store:
        for row in store.rows():
            trace = store.trace(row.sample_id, row.seed) or {}
            if trace.get("path"):
                found.append(of_path(trace["path"], "run", row.text))
    if not found:
        raise UsageError(f"{source}: no sample of that run was answered by --strategy seek")
    return found


def _lines(found: Statistics) -> list[str]:
    lines = [f"{found.sessions} questions, {found.found:.1%} with an answer"]
    lines.append(f"actions: {_shares(found.actions)}")
    for place, shares in enumerate(found.places, 1):
        if shares:
            lines.append(f"action {place}: {_shares(shares)}")
    lines.append("transitions:")
    lines += [f"    {state}: {_shares(shares)}" for state, shares in found.transitions.items()]
    lines.append(f"number of actions: {_shares(found.lengths)}")
    lines.append(f"verdicts: {_shares(found.verdicts) or 'none given'}")
    return lines


def _shares(shares: Mapping[Any, float]) -> str:
    return ", ".join(f"{shown(str(name))} {share:.1%}" for name, share in shares.items())


seek.add_command(record)
