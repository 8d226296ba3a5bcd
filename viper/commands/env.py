"""``viper env``: environments for training, and runs as training data."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click

from viper.commands import options as cli
from viper.commands.lazy_group import LazyGroup
from viper.commands.options import SectionedCommand
from viper.commands.serve import AddressOptions, settings_of
from viper.commands.terminal import note, status
from viper.env.episode import Episode, RewardWeights, Rules
from viper.env.export import TrainingData
from viper.env.tasks import Tasks
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.evaluate.runs.store import RunStore, samples_of_run
from viper.plugins import need_packages
from viper.reasoner import Reasoner
from viper.serve.settings import address_of, listening_at
from viper.storage.files import write_file

# Seconds to wait at the end for sessions whose code still runs: a person who pressed Ctrl-C waits.
_CLOSE_S = 3


@click.group(cls=LazyGroup)
def env() -> None:
    """Train language models of your own on tasks with exact rewards.

    \b
    viper env serve world-everyday --split train:2 --exact
    viper env export runs/first --format sft -o sft.jsonl
    """


@dataclass(frozen=True, kw_only=True)
class EnvServeOptions(AddressOptions):
    """Options of ``viper env serve``."""

    # fmt: off
    root: Path | None = cli.given_by(cli.root_option)
    split: str | None = cli.option("--split", metavar="NAME",
        help="Split, or split and level as train:2.  [default: the first of the set]")
    seed: int = cli.seed_field("Random seed of sets that draw their samples.")
    turns: int = cli.option("--turns", type=click.IntRange(1), default=4,
        help="Number of actions after which an episode ends.")
    exact: bool = cli.option("--exact", default=False,
        help="Answer tool calls from the known scene instead of asking models.")
    weights: str = cli.option("--weights", metavar="PART=NUMBER,…", default="answer=1,kind=.1",
        help="RewardWeights of the reward's parts answer, kind, calls and verified.")
    sessions: int = cli.option("--max-sessions", "sessions", type=click.IntRange(1), default=64,
        help="Greatest number of episodes at the same time.")
    api: str | None = cli.given_by(cli.api_option)
    # fmt: on


@env.command(cls=SectionedCommand, first="root split seed turns exact weights host port sessions")
@click.argument("data", metavar="SET", type=cli.DATA_SET)
@cli.options_as(EnvServeOptions)
def serve(serving: EnvServeOptions, data: str) -> None:
    """Serve the tasks of SET as an OpenEnv environment until Ctrl-C.

    A client resets a session with seed=N, the number of a task, and steps with code.

    \b
    viper env serve world-everyday --split train:2 --exact
    """
    need_packages(("openenv",), "viper env serve")
    settings = settings_of(serving, allow_exec=True)
    import uvicorn

    from viper.env.openenv import guarded_app

    tasks = Tasks(data, root=serving.root, split=serving.split, seed=serving.seed)
    rules = Rules(serving.turns, exact=serving.exact, weights=RewardWeights.of(serving.weights))
    with (
        listening_at(settings.host, settings.port) as listening,
        cli.open_reasoner(serving, many_queries=not serving.exact) as reasoner,
    ):
        with closing(Episode(tasks[0], reasoner, rules)) as first:
            first.reset()  # what cannot work fails here, not at a client
        app = guarded_app(tasks, reasoner, rules, settings, serving.sessions)
        note(f"serving on {address_of(listening)}")
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_CLOSE_S)
        uvicorn.Server(config).run(sockets=[listening])


@dataclass(frozen=True, kw_only=True)
class EnvExportOptions(cli.ProfileChoice):
    """Options of ``viper env export``."""

    # fmt: off
    format: str = cli.option("--format", type=click.Choice(["sft", "preference"]), required=True,
        help="sft: prompt and completion. preference: prompt, chosen and rejected.")
    out: Path | None = cli.option("-o", "--out", type=cli.OutPath(), metavar="FILE.jsonl",
        help="Write to this file instead of stdout.")
    unverified: bool = cli.option("--unverified",
        help="Take right programs that no other scene and no check confirms, too.")
    force: bool = cli.option("--force", help="Replace an existing file.")
    root: Path | None = cli.given_by(cli.root_option)
    # fmt: on


@env.command()
@click.argument("run", type=click.Path(path_type=Path))
@cli.options_as(EnvExportOptions)
def export(options: EnvExportOptions, run: Path) -> int:
    """Write the right programs of RUN (a folder that viper eval wrote) as lines of JSON.

    Each line has a prompt, as `viper env` gives it at the start of an episode, and a program as
    the answer. Programs are verified: where the data set knows its scenes (world-everyday), they
    answer rightly about other scenes as well; else they passed the checks of viper eval --verify.

    \b
    viper eval world-everyday --split train:2 --limit 500 --out runs/first
    viper env export runs/first --format sft -o sft.jsonl
    viper env export runs/first --format preference -o pairs.jsonl
    """
    if options.out is not None and options.out.exists() and not options.force:
        raise UsageError(f"{options.out}: there already; choose another name or give --force")
    with (
        RunStore.read(run) as store,
        Reasoner(cli.open_profile(options), preload=False) as reasoner,
    ):
        samples = samples_of_run(store, options.root, {name for name, _ in store.done()})
        data = TrainingData(store, samples, reasoner.components, options.unverified)
        with status("verifying"):
            records = list(data.sft() if options.format == "sft" else data.preference())
    lines = "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
    if options.out is None:
        click.echo(lines, nl=False)
    else:
        write_file(options.out, lines)
    left_out = ", ".join(f"{count} {reason}" for reason, count in data.left_out.most_common())
    note(f"{len(records)} records; left out: {left_out or 'nothing'}")
    return EXIT_OK if records else EXIT_FAILED
