"""The options of ``viper run`` and ``viper eval``, those that settings declare among them.

A setting's option keeps what the profile says where it is not given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_origin

import click

from viper.commands.options import (
    Decorator,
    OutPath,
    ProfileChoice,
    api_option,
    given_by,
    learned_option,
    option,
    options,
    root_option,
    seed_option,
    workers_option,
)
from viper.errors import UsageError
from viper.schema import TASKS
from viper.strategies import STRATEGIES
from viper.strategies.settings import Setting, all_settings


def _option(one: Setting) -> Decorator:
    """The option of a setting; None where it is not given."""
    declared = one.declaration
    given: dict[str, Any] = {"default": None, "help": one.help.replace("`", "")}
    if declared.metavar:
        given["metavar"] = declared.metavar
    if get_origin(one.type) is tuple:
        given |= {"multiple": True}
    elif declared.choices:
        given["type"] = click.Choice(declared.choices)
    elif one.type in _RANGES:
        given["type"] = _RANGES[one.type](declared.least, declared.most)
    return click.option(one.option, _parameter(one), **given)


def _parameter(one: Setting) -> str:
    return f"setting_{one.name}"


def _offered() -> list[Setting]:
    return [one for one in all_settings().values() if one.declaration.cli]


_RANGES: dict[Any, Any] = {int: click.IntRange, float: click.FloatRange}


def run_settings() -> Any:
    """Return a field for the settings of a run, an option for each; of those not given None."""
    return given_by(options(*map(_option, _offered())))


bank_option: Decorator = click.option(
    "--bank", "examples_bank", metavar="FILE", help="Examples to show instead of the profile's."
)

threshold_option: Decorator = click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    metavar="NAME=VALUE",
    help="Where a threshold starts, as detector.threshold=0.2; repeatable.",
)


def run_changes(
    settings: Mapping[str, object], examples_bank: str | None = None, *, examples: bool = True
) -> dict[str, Any]:
    """Return what the options of settings ask of ``RunOptions``.

    Args:
        examples: whether any are shown.

    Raises:
        UsageError: examples are asked for and refused at once.
    """
    changes = {one.name: settings[_parameter(one)] for one in _offered()}
    if not examples:
        for value, spelled in ((changes["examples"], "--n-examples"), (examples_bank, "--bank")):
            if value:
                raise UsageError(f"--zero-shot shows no examples; leave out {spelled} or that")
    return {name: None if value == () else value for name, value in changes.items()}


@dataclass(frozen=True, kw_only=True)
class QueryOptions(ProfileChoice):
    """The options of ``viper run``."""

    # fmt: off
    task: str = option("--task", default="auto", help=f"{', '.join(TASKS)}.")
    api: str | None = given_by(api_option)
    strategy: str = option("--strategy", default="program", help="How to go about it; see below.")
    choices: tuple[str, ...] = option("--options",
        help='Candidate answers: "a; b; c", or the option repeated. Makes the task a choice.')
    examples_bank: str | None = given_by(bank_option)
    thresholds: tuple[str, ...] = given_by(threshold_option)
    settings: Mapping[str, object] = run_settings()
    seed: int = option("--seed", default=0, help="Of sampling.")
    as_json: bool = option("--json", help="Print one JSON object with the whole trace.")
    save: Path | None = option("--save", type=OutPath(),
        help="Write the answer drawn on the picture.")
    html: Path | None = option("--html", type=OutPath(),
        help="Write what happened as a page: each line of the program beside what it produced.")
    show_prompt: bool = option("--show-prompt", help="Print the prompt and ask no model.")
    dry_run: bool = option("--dry-run",
        help="Say which models would load and what would be asked of them.")
    program_only: bool = option("--program-only",
        help="Print the program of the run and nothing else.")
    learned: bool = given_by(learned_option())
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class EvalOptions(ProfileChoice):
    """The options of ``viper eval``."""

    # fmt: off
    root: Path | None = given_by(root_option)
    split: str | None = option("--split", metavar="NAME", help="By default the set's first.")
    limit: int | None = option("--limit", type=click.IntRange(1),
        help="Only so many samples, at random.")
    ids: str | None = option("--ids", metavar="FILE|ID,ID",
        help="Only these samples; a file names one a line. --limit does not count then.")
    seed: int = given_by(seed_option())
    seeds: int = option("--seeds", type=click.IntRange(1, 100), default=1,
        help="Answer every sample under so many seeds: means with deviations.")
    strategy: str = option("--strategy", default="program",
        help=f"{', '.join(STRATEGIES)}; viper run --help says what each does.")
    examples: bool = option("--examples/--zero-shot", default=True,
        help="Show the profile's in-context examples.")
    deadline_s: float | None = option("--deadline", type=click.FloatRange(0, min_open=True),
        metavar="SECONDS", help="For one sample; past it, it counts as failed.")
    examples_bank: str | None = given_by(bank_option)
    thresholds: tuple[str, ...] = given_by(threshold_option)
    settings: Mapping[str, object] = run_settings()
    out: Path | None = option("--out", type=OutPath(), metavar="RUN",
        help="Folder of the run; by default runs/SET-SPLIT-TIME.")
    resume: bool = option("--resume",
        help="Go on with the run in --out; begins it where there is none.")
    workers: int = given_by(
        workers_option("Samples on their way at once; with --engine ray, in each actor."))
    budget_usd: float | None = option("--budget-usd", type=click.FloatRange(0, min_open=True),
        help="Begin no further sample once programs cost this much.")
    engine: Literal["local", "ray"] = option("--engine", default="local",
        help="Threads here, or actors of Ray.")
    track: str | None = option("--track", metavar="NAME:WHERE",
        help="tensorboard:DIR, mlflow:URI or wandb:PROJECT.")
    judgements: Path | None = option("--judgements", metavar="FILE.csv",
        help="Write edits as a sheet for people to judge, with pictures beside it.")
    html: bool = option("--html/--no-html", default=True, help="Write the page with plots, too.")
    dry_run: bool = option("--dry-run", help="Say what would be done; load no model.")
    as_json: bool = option("--json", help="Print the report as JSON.")
    ray_address: str | None = option("--ray-address", envvar="RAY_ADDRESS", metavar="ADDRESS",
        help="auto, or HOST:PORT of a cluster. By default a Ray of its own.")
    cpus_per_actor: float | None = option("--cpus-per-actor",
        type=click.FloatRange(0, min_open=True), metavar="N",
        help="Also the threads its models compute with. By default divided evenly.")
    gpus_per_actor: float | None = option("--gpus-per-actor", type=click.FloatRange(0), metavar="N",
        help="0.5: two on one GPU; 0: none. By default GPUs are divided evenly.")
    actors: int = option("--actors", type=click.IntRange(1, 1024), default=2,
        help="With --engine ray: how many reasoners.")
    api: str | None = given_by(api_option)
    learned: bool = given_by(learned_option(by_default=False))
    # fmt: on

    @property
    def execution(self) -> dict[str, Any]:
        """How the run is executed, as its manifest keeps it."""
        return {name: getattr(self, name) for name in ("engine", "workers", "budget_usd")}
