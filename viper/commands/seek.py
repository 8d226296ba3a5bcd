"""``viper lab seek``: transition graphs of strategy ``seek``."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from viper.commands.lazy_group import LazyGroup
from viper.strategies.seek.graph import ACTIONS, FixedSequence, load_route

_COMMANDS = {
    "graph": ("viper.commands.seek:graph", "Check and show a transition graph or a fixed sequence.")
}


@click.group(cls=LazyGroup, paths=_COMMANDS, below=("seek", "lab.seek"))
def seek() -> None:
    """Show transition graphs; record and analyse knowledge searches.

    \b
    viper lab seek graph                           show the graph of strategy seek
    viper lab seek stats RUN                       analyse a run of --strategy seek
    viper lab seek stats records.jsonl             analyse the records of a user study
    viper lab seek record okvqa --root okvqa --out records.jsonl
    viper lab seek induce records.jsonl --out mine.toml --examples decisions.jsonl
    viper run photo.jpg "…" --strategy seek --graph mine.toml

    Source: AVIS (Hu et al. 2023), sec. 3.3 and appendix C.
    """


@click.command()
@click.argument("graph", default="avis")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def graph(graph: str, as_json: bool) -> None:
    """Check and show GRAPH: a shipped transition graph, a fixed sequence, or a .toml file."""
    route = load_route(graph)
    if as_json:
        click.echo(json.dumps(asdict(route)))
        return
    if isinstance(route, FixedSequence):
        for number, action in enumerate(route.actions, 1):
            click.echo(f"{number}. {action}: {ACTIONS[action].instruction}")
        return
    for state, allowed in route.states.items():
        click.echo(f"{state}: {', '.join(allowed)}")
    click.echo("")
    for action in ACTIONS:
        click.echo(f"{action}: {route.instruction(action)}")
