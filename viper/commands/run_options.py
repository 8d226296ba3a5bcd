"""Options of ``viper run`` and ``viper eval``, with those that settings declare.

A setting keeps the value of the profile if its option is absent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_origin

import click

from viper.commands import options as cli
from viper.commands.options import EXAMPLES, LIMITS, MACHINE, OUTPUT, PROGRAMS, WORKERS, Option
from viper.errors import UsageError
from viper.schema import TASKS
from viper.strategies import STRATEGIES
from viper.strategies.settings import Setting, all_settings


def _option(setting: Setting) -> cli.Decorator:
    """Return the option of a setting; its value is None if the option is absent."""
    declared = setting.declaration
    section = f"Strategy {setting.strategy}" if setting.strategy else declared.section
    attributes: dict[str, Any] = {"section": section, "help": setting.text.replace("`", "")}
    if declared.metavar:
        attributes["metavar"] = declared.metavar
    if get_origin(setting.type) is tuple:
        attributes["multiple"] = True
    elif declared.choices:
        attributes["type"] = click.Choice(declared.choices)
    elif setting.type in _RANGES:
        attributes["type"] = _RANGES[setting.type](declared.least, declared.most)
    spellings = filter(None, (setting.option, declared.earlier, _parameter(setting)))
    return click.option(*spellings, cls=Option, default=None, **attributes)


def _parameter(setting: Setting) -> str:
    return f"setting_{setting.name}"


def _offered(names: Collection[str] = ()) -> list[Setting]:
    offered = (setting for setting in all_settings().values() if setting.declaration.cli)
    return [setting for setting in offered if not names or setting.name in names]


_RANGES: dict[Any, Any] = {int: click.IntRange, float: click.FloatRange}


def run_settings(*names: str) -> Any:
    """Return a field with an option for each setting of a run; absent options are None.

    Args:
        names: of these settings only.
    """
    return cli.given_by(cli.options(*map(_option, _offered(names))))


# Settings that count for given programs as well.
GIVEN_PROGRAMS = "checks", "abstain"


# fmt: off
bank_option: cli.Decorator = click.option("--bank", "examples_bank", cls=Option, section=EXAMPLES,
    metavar="FILE", help="Bank of in-context examples that replaces the bank of the profile.")

threshold_option: cli.Decorator = click.option("--threshold", "thresholds", cls=Option,
    section=MACHINE, multiple=True, metavar="NAME=VALUE",
    help="Start value of a threshold, for example detector.threshold=0.2; repeatable.")
# fmt: on


def run_changes(
    settings: Mapping[str, object], examples_bank: str | None = None, *, examples: bool = True
) -> dict[str, Any]:
    """Return the keyword arguments of ``RunOptions`` that the options of settings ask for.

    Args:
        examples: show in-context examples.

    Raises:
        UsageError: ``--zero-shot`` stands beside an option that asks for examples.
    """
    parameters = {setting.name: _parameter(setting) for setting in _offered()}
    changes = {name: settings[each] for name, each in parameters.items() if each in settings}
    if not examples:
        for value, flag in ((changes["examples"], "--n-examples"), (examples_bank, "--bank")):
            if value:
                raise UsageError(f"--zero-shot shows no examples; leave out {flag} or --zero-shot")
        changes["examples"] = 0
    return {name: None if value == () else value for name, value in changes.items()}


def sent_parameters() -> set[str]:
    """Return the parameters of ``viper run`` that ``--server`` can be combined with."""
    names = "media_and_query choices task strategy api save as_json seed program_only interactive"
    sent = {_parameter(setting) for setting in _offered() if setting.declaration.http}
    return {*names.split(), *["fields", "like", "force", "verbose", "quiet", "server"], *sent}


@dataclass(frozen=True, kw_only=True)
class QueryOptions(cli.ProfileChoice):
    """Options of ``viper run``."""

    # fmt: off
    choices: tuple[str, ...] = cli.option("--options",
        help='Candidate answers: "a; b; c", or the option repeated. Sets the task to choice.')
    task: str = cli.option("--task", default="auto", help=f"Task of the query: {', '.join(TASKS)}.")
    like: tuple[str, ...] = cli.option("--like", metavar="X0,Y0,X1,Y1", section=cli.QUERY,
        help="Box of an example, in pixels from the top-left corner; up to four. Ask for 'these', "
             "or use the argument marked in a program.")
    fields: str = cli.given_by(cli.fields_option, "")
    strategy: str | None = cli.option("--strategy", type=cli.STRATEGY,
        help="Strategy that answers, by default the profile's; the list is below.")
    api: str | None = cli.given_by(cli.api_option)
    save: Path | None = cli.option("--save", type=cli.OutFile("picture"),
        help="Draw the answer on the image and write the image to this file.")
    html: Path | None = cli.option("--html", type=cli.OutFile("page"),
        help="Write a page that shows each line of the program beside its result.")
    as_json: bool = cli.option("--json", help="Print one JSON object with the whole trace.")
    json_schema: int = cli.given_by(cli.schema_option)
    page: int | None = cli.given_by(cli.page_option)
    seed: int = cli.seed_field("Random seed for sampling.")
    dry_run: bool = cli.option("--dry-run",
        help="Print which models would load and how many requests they would get, then stop.")
    show_prompt: bool = cli.option("--show-prompt", section=PROGRAMS,
        help="Print the prompt without sending it to a model, then stop.")
    program_only: bool = cli.option("--program-only", section=PROGRAMS,
        help="Print only the program of the run.")
    verbose: bool = cli.given_by(cli.verbose_option)
    quiet: bool = cli.given_by(cli.quiet_option)
    force: bool = cli.option("--force", section=OUTPUT,
        help="Print the answer even if the profile withholds it, because the picture is unlike "
             "those that its models know, or the query has words that they do not know.")
    interactive: bool = cli.option("-i", "--interactive",
        help="Read questions from standard input, a line each, until an empty line.")
    server: str | None = cli.option("--server", metavar="URL", section=MACHINE,
        help="Ask a running viper serve instead of loading models; VIPER_SERVE_TOKEN is sent.")
    settings: Mapping[str, object] = run_settings()
    examples_bank: str | None = cli.given_by(bank_option)
    learned: bool = cli.learned_field()
    thresholds: tuple[str, ...] = cli.given_by(threshold_option)
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """Where the items of a run are answered.

    Attributes:
        workers: items at once, in each actor; a command that has these options declares it as one.
    """

    # fmt: off
    engine: Literal["local", "ray"] = cli.option("--engine", default="local", section=WORKERS,
        help="Run on threads of this process, or on actors of Ray.")
    actors: int = cli.option("--actors", type=click.IntRange(1, 1024), default=2, section=WORKERS,
        help="Number of Ray actors, each with its own models.")
    ray_address: str | None = cli.option("--ray-address", envvar="RAY_ADDRESS", metavar="ADDRESS",
        section=WORKERS,
        help="Address of a Ray cluster: HOST:PORT or auto. By default Ray starts on this machine.")
    cpus_per_actor: float | None = cli.option("--cpus-per-actor", section=WORKERS,
        type=click.FloatRange(0, min_open=True), metavar="N",
        help="CPUs of each actor and threads of its models. By default an equal share.")
    gpus_per_actor: float | None = cli.option("--gpus-per-actor", type=click.FloatRange(0),
        metavar="N", section=WORKERS,
        help="GPUs of each actor; 0.5 lets two share a GPU. By default an equal share.")
    # fmt: on
    workers: int = 1


@dataclass(frozen=True, kw_only=True)
class EvalOptions(RayOptions, cli.ProfileChoice):
    """Options of ``viper eval``."""

    # fmt: off
    root: Path | None = cli.given_by(cli.root_option)
    split: str | None = cli.split_field("Split to answer. By default the first of the data set.")
    limit: int | None = cli.option("--limit", type=click.IntRange(1),
        help="Number of samples to draw at random. By default all samples.")
    strategy: str | None = cli.option("--strategy", type=cli.STRATEGY,
        help=f"Strategy that answers: {', '.join(STRATEGIES)} (see viper run --help). By default "
             "the profile's.")
    out: Path | None = cli.option("--out", type=cli.OutPath(), metavar="RUN",
        help="Folder of the run. By default runs/SET-SPLIT-TIME.")
    resume: bool = cli.option("--resume",
        help="Continue the run in --out, or start it if the folder does not exist. A larger "
             "--limit extends the run.")
    seeds: int = cli.option("--seeds", type=click.IntRange(1, 100), default=1,
        help="Number of seeds for every sample; the report shows means and deviations.")
    as_json: bool = cli.option("--json", help="Print the report as JSON.")
    dry_run: bool = cli.option("--dry-run",
        help="Print the samples, models and number of programs, then stop.")
    ids: str | None = cli.option("--ids", metavar="FILE|ID,ID", section="Samples",
        help="Answer only these samples and ignore --limit; a file holds one id on each line.")
    seed: int = cli.seed_field(section="Samples")
    programs: Path | None = cli.programs_option("Samples")
    examples: bool = cli.option("--examples/--zero-shot", default=True, section=EXAMPLES,
        help="Show the in-context examples of the profile.")
    examples_bank: str | None = cli.given_by(bank_option)
    learned: bool = cli.learned_field(by_default=False)
    api: str | None = cli.given_by(cli.api_option)
    settings: Mapping[str, object] = run_settings()
    deadline_s: float | None = cli.option("--deadline", type=click.FloatRange(0, min_open=True),
        metavar="SECONDS", section=LIMITS,
        help="Time limit for one sample in seconds; a sample that exceeds it counts as failed.")
    budget_usd: float | None = cli.option("--budget-usd", type=click.FloatRange(0, min_open=True),
        section=LIMITS, help="Start no further sample once programs cost this many US dollars.")
    html: bool = cli.option("--html/--no-html", default=True, section="Output",
        help="Write a page with plots beside the report.")
    judgements: Path | None = cli.option("--judgements", metavar="FILE.csv", section="Output",
        help="Write a sheet, with the edited images, on which people judge the edits.")
    track: str | None = cli.option("--track", metavar="NAME:WHERE", section="Output",
        help="Experiment tracker to report to: tensorboard:DIR, mlflow:URI or wandb:PROJECT.")
    workers: int = cli.workers_field(
        "Number of samples to answer at the same time; with --engine ray, in each actor.")
    thresholds: tuple[str, ...] = cli.given_by(threshold_option)
    # fmt: on

    @property
    def execution(self) -> dict[str, Any]:
        """Return the values on execution that the manifest of the run stores."""
        return {name: getattr(self, name) for name in ("engine", "workers", "budget_usd")}
