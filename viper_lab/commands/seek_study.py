"""``viper lab seek record``, ``stats``, ``induce``: record how people search, build a graph."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from viper.commands.options import (
    SEED,
    OutPath,
    ProfileChoice,
    given_by,
    open_profile,
    option,
    options_as,
    root_option,
)
from viper.errors import EXIT_OK, UsageError
from viper.escape import for_terminal
from viper.evaluate.runs.store import RunStore
from viper.plugins import need_packages
from viper.storage.files import write_file
from viper_lab.study.records import (
    Session,
    Statistics,
    examples_of,
    graph_text,
    of_path,
    read_sessions,
    statistics,
)
from viper_lab.study.records import induce as records_graph


@dataclass(frozen=True, kw_only=True)
class RecordOptions(ProfileChoice):
    """Options of ``viper lab seek record``."""

    # fmt: off
    out: Path = option("--out", type=OutPath(), default=Path("records.jsonl"), metavar="FILE.jsonl",
        help="File for the records; existing records stay.")
    split: str | None = option("--split", metavar="NAME",
        help="Split of the questions. By default the first of the data set.")
    limit: int = option("--limit", type=click.IntRange(1), default=20, metavar="N",
        help="Number of questions; everybody gets the same ones in another order.")
    seed: int = option("--seed", type=SEED, default=0,
        help="Random seed for the choice of questions.")
    root: Path | None = given_by(root_option)
    host: str = option("--host", default="127.0.0.1",
        help="Address to listen on. The address of the page holds a random token; everybody who "
             "has it may take part.")
    port: int = option("--port", type=click.IntRange(0, 65535), default=0, show_default=False,
        help="Port to listen on. By default a free port.")
    open_browser: bool = option("--open/--no-open", default=True,
        help="Open the page in a browser.")
    # fmt: on


@click.command(short_help="Record how people search, on a web page.")
@click.argument("set_name", metavar="SET")
@options_as(RecordOptions)
def record(options: RecordOptions, set_name: str) -> int:
    """Record how people find answers, on a web page where they choose each action, until Ctrl-C.

    Each question of SET must be about one image. Participants choose from all actions, rate each
    result, and end with "Found it" or "Could not find it". Each finished question becomes a line of
    FILE, under a random number that identifies nobody. viper lab seek induce builds a graph from
    the lines, and viper lab seek stats analyses them.

    \b
    viper lab seek record world-knowledge --limit 10 --out records.jsonl
    viper lab seek record okvqa --root okvqa --profile openai --host 0.0.0.0 --port 8010 --no-open
    """
    need_packages(("starlette", "uvicorn"), "viper lab seek record")
    from viper.data.sample import DatasetSpec
    from viper.evaluate.evaluation import Evaluation
    from viper.reasoner import Reasoner
    from viper.serve.gate import AccessRules
    from viper.serve.settings import address_of, listening_at
    from viper.web.behind_token import serve_page
    from viper_lab.study.app import create_study
    from viper_lab.study.sessions import Sessions

    spec = DatasetSpec(options.root, options.split, options.seed)
    samples = Evaluation(set_name, spec, options.limit).samples()
    with ExitStack() as stack:
        listening = stack.enter_context(listening_at(options.host, options.port))
        reasoner = stack.enter_context(Reasoner(open_profile(options), preload=False))
        sessions = Sessions(reasoner, samples, options.out)
        access = AccessRules.to_pages(options.host)
        app, address = create_study(sessions, access), address_of(listening, f"{access.prefix}/")
        hint = f"records go to {options.out}; Ctrl-C stops it"
        try:
            serve_page(app, listening, address, hint, open_browser=options.open_browser)
        finally:
            click.echo(f"{sessions.recorded} questions recorded in {options.out}", err=True)
    return EXIT_OK


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def stats(source: Path, as_json: bool) -> int:
    """Analyse SOURCE: a run of --strategy seek, or records of people."""
    figures = statistics(_sessions(source))
    click.echo(json.dumps(asdict(figures)) if as_json else "\n".join(_lines(figures)))
    return EXIT_OK


@click.command()
@click.argument("records", type=click.Path(path_type=Path))
@click.option("--out", type=OutPath(), required=True, metavar="FILE.toml",
              help="File for the graph.")  # fmt: skip
@click.option("--examples", type=click.Path(path_type=Path), metavar="FILE.jsonl",
              help="Write the helpful decisions to this file, as examples for the strategy.",
)  # fmt: skip
@click.option("--name", default="induced", show_default=True, help="Name of the graph.")
@click.option("--least", type=click.FloatRange(0, 0.5), default=0.02, show_default=True,
              help="Leave out actions with a smaller share at their state.")  # fmt: skip
def induce(records: Path, out: Path, examples: Path | None, name: str, least: float) -> int:
    """Build a transition graph with frequencies from the records of people."""
    sessions = _sessions(records)
    graph = records_graph(sessions, name, least)
    people = len({session.participant for session in sessions})
    write_file(out, graph_text(graph, f"of {len(sessions)} questions by {people} participants"))
    if examples is not None:
        decisions = list(examples_of(sessions))
        lines = (json.dumps(asdict(decision), ensure_ascii=False) for decision in decisions)
        write_file(examples, "".join(f"{line}\n" for line in lines))
        click.echo(f"{examples}: {len(decisions)} decisions", err=True)
    edges = sum(len(allowed) for allowed in graph.states.values())
    click.echo(f"{out}: {len(graph.states)} states, {edges} transitions")
    return EXIT_OK


def _sessions(source: Path) -> list[Session]:
    """Return the sessions of the folder of a run, or of a file of records."""
    if not source.is_dir():
        return list(read_sessions(source))
    sessions = []
    with RunStore.read(source) as store:
        for result in store.rows():
            trace = store.trace(result.sample_id, result.seed) or {}
            if trace.get("path"):
                sessions.append(of_path(trace["path"], "run", result.text))
    if not sessions:
        raise UsageError(f"{source}: no sample of that run was answered by --strategy seek")
    return sessions


def _lines(figures: Statistics) -> list[str]:
    places = enumerate(figures.places, 1)
    return [
        f"{figures.sessions} questions, {figures.found:.1%} with an answer",
        f"actions: {_shares(figures.actions)}",
        *(f"action {place}: {_shares(shares)}" for place, shares in places if shares),
        "transitions:",
        *(f"    {state}: {_shares(shares)}" for state, shares in figures.transitions.items()),
        f"number of actions: {_shares(figures.lengths)}",
        f"verdicts: {_shares(figures.verdicts) or 'none given'}",
    ]


def _shares(shares: Mapping[Any, float]) -> str:
    return ", ".join(f"{for_terminal(str(name))} {share:.1%}" for name, share in shares.items())
