"""``viper setup routine``: create, show, check and try routines.

``new`` fills the templates of this package, ``check`` runs the docstring's examples
(:func:`viper.testing.routines.check_routines`), and ``try`` answers the same samples with the file
and without it, and compares (:func:`viper.evaluate.reports.comparison.routine_effect`).
"""

from __future__ import annotations

import json
import keyword
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from string import Template

import click

from viper.api.library import library_for, reserved_names
from viper.api.sets import ApiEntry
from viper.api.spec import entry_text
from viper.commands import options as cli
from viper.commands.terminal import counter, echo_table, note
from viper.errors import EXIT_FAILED, EXIT_OK, UnknownNameError, UsageError
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.sample_runner import Item, SampleRunner
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.metrics import metric
from viper.evaluate.reports.comparison import routine_effect
from viper.evaluate.sample_result import SampleResult
from viper.reasoner import Reasoner, RunOptions
from viper.schema import DEFAULT_API, TASKS, to_json
from viper.storage.files import write_file
from viper.testing.routines import check_routines

# Tasks that have prompts of their own; ``auto`` becomes one of them.
_TASKS = tuple(task for task in TASKS if task != "auto")


@click.group()
def routine() -> None:
    """List, show, create, check or try routines that programs may call.

    \b
    viper setup routine new get_patch_at_corner      write a template and a test
    viper setup routine check get_patch_at_corner.py
    viper run --api abstract+more+get_patch_at_corner.py table.png "the cube in the top left corner"
    viper setup routine try get_patch_at_corner.py --data world
    """


@routine.command()
@click.argument("name")
@click.option(
    "--tool",
    is_flag=True,
    help="Write a routine that runs in the parent process, with pixels and models.",
)
@click.option("--folder", type=cli.OutPath(), default=Path(), help="Folder for the files.")
def new(name: str, tool: bool, folder: Path) -> None:
    """Write NAME.py, the template of a routine, and test_NAME.py beside it."""
    if not name.isidentifier() or name.startswith("_") or keyword.iskeyword(name):
        raise UsageError(
            f"{name!r} cannot name a function; use a name like count_pairs, without .py"
        )
    if name in reserved_names():
        raise UsageError(f"the name {name!r} is taken by {reserved_names()[name]}; choose another")
    files = {folder / f"{name}.py": "tool" if tool else "pure", folder / f"test_{name}.py": "test"}
    for path in files:
        if path.exists():
            raise UsageError(f"{path}: exists already; nothing was written")
    for path, kind in files.items():
        template = resources.files("viper.commands") / "templates" / f"routine_{kind}.txt"
        text = Template(template.read_text(encoding="utf-8")).substitute(
            name=name,
            call=f"{name}(cup_patches[0])" if tool else f"{name}(cup_patches).width",
            expected="128.0" if tool else "60.0",
        )
        write_file(path, text)
        click.echo(path)
    note(f"next: viper setup routine check {folder / name}.py")


@routine.command("list")
@click.option("--task", type=click.Choice(_TASKS), default=None,
              help="List only the names in prompts of this task.")  # fmt: skip
@cli.api_option
def list_routines(api: str | None, task: str | None) -> None:
    """List the functions of an API, the process that runs them, and their tasks."""
    name = api or DEFAULT_API
    library = library_for(name)
    tasks_by_entry: dict[tuple[str, str, str], list[str]] = {}
    for each in [task] if task else _TASKS:
        for entry in library.api_set(name).entries(each):
            where = "parent" if entry.name in library.tool_routines else "child"
            full_name = f"{entry.owner}.{entry.name}" if entry.owner else entry.name
            tasks_by_entry.setdefault((full_name, where, entry.summary), []).append(each)
    rows = [
        (full_name, where, "every task" if len(of) == len(_TASKS) else ", ".join(of), summary)
        for (full_name, where, summary), of in tasks_by_entry.items()
    ]
    echo_table(("name", "runs in", "listed for", "what it does"), rows)


@dataclass(frozen=True, kw_only=True)
class ShowOptions(cli.ProfileChoice):
    """Options of ``viper setup routine show``."""

    api: str | None = cli.given_by(cli.api_option)


@routine.command()
@click.argument("name", type=cli.ROUTINE)
@cli.options_as(ShowOptions)
def show(options: ShowOptions, name: str) -> None:
    """Show the text of NAME in prompts, and its number of tokens."""
    api = options.api or DEFAULT_API
    components = cli.open_profile(replace(options, api=api)).components()
    entries_by_name: dict[str, ApiEntry] = {}
    for task in _TASKS:
        entries = components.library.api_set(api).entries(task)
        entries_by_name |= {entry.name: entry for entry in entries}
    if name not in entries_by_name:
        raise UnknownNameError("routine", name, entries_by_name)
    for detail in ("compact", "full"):
        text = entry_text(entries_by_name[name], detail)  # type: ignore[arg-type]
        tokens = components.llm.count_tokens(text)
        click.echo(f"{detail}: {tokens} tokens of {components.llm.model_id}")
        click.echo("\n".join(f"    {line}".rstrip() for line in text.splitlines()) + "\n")
    components.close()


@routine.command()
@click.argument("file", type=click.Path(path_type=Path))
@cli.api_option
def check(file: Path, api: str | None) -> int:
    """Check the routines in FILE: the rules for programs, the types and the docstring examples.

    The examples run in the real sandbox, on a grey image in which every detection returns two
    boxes. The exit code is 1 if a routine fails.
    """
    findings = check_routines(file, api or DEFAULT_API)
    for finding in findings:
        state = "FAILS" if finding.problem else "good"
        note = finding.problem or finding.advice
        click.echo(f"{state:6} {finding.routine}" + (f": {note}" if note else ""))
    return EXIT_FAILED if any(finding.problem for finding in findings) else EXIT_OK


@dataclass(frozen=True, kw_only=True)
class TryOptions(cli.ProfileChoice):
    """Options of ``viper setup routine try``."""

    # fmt: off
    data: str = cli.option("--data", default="world",
        help="Data set to answer (see viper data list).")
    root: Path | None = cli.given_by(cli.root_option)
    split: str | None = cli.split_field("Split to answer. By default the first of the data set.")
    limit: int = cli.option("--limit", type=click.IntRange(1), default=60,
        help="Number of samples.")
    seed: int = cli.seed_field("Random seed for samples and sampling.")
    as_json: bool = cli.option("--json", help="Print one JSON object.")
    api: str | None = cli.given_by(cli.api_option)
    # fmt: on


@routine.command("try")
@click.argument("file", type=click.Path(path_type=Path))
@cli.options_as(TryOptions)
def try_it(options: TryOptions, file: Path) -> None:
    """Measure whether FILE helps: answer the same samples and seeds with it and without it.

    The command prints both scores, the gain with its 95 % interval, and the share of programs that
    use the routine.
    """
    evaluation = cli.evaluation_of(options.data, options, options=RunOptions(strategy="program"))
    items = evaluation.items()
    base = options.api or cli.open_profile(options).document.run.api
    names = [routine.name for routine in library_for(str(file)).files[0].routines]
    without = _rows(replace(options, api=base), evaluation, items, "without")
    with_it = _rows(replace(options, api=f"{base}+{file}"), evaluation, items, "with")
    effect = routine_effect(without, with_it, names)
    if options.as_json:
        click.echo(json.dumps({**to_json(effect), "n": len(items), "api": base}))
        return
    click.echo(f"{len(items)} samples of {options.data}, {evaluation.located().split}, api {base}")
    for label, value in (("without", effect.without), ("with", effect.with_it)):
        click.echo(f"{label:8} {value.value:.3f} [{value.low:.3f}, {value.high:.3f}]")
    gain = effect.gain.difference
    counts = f"({effect.gain.better} better, {effect.gain.worse} worse)"
    click.echo(f"gain     {gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]  {counts}")
    click.echo(f"used in  {effect.used.value:.1%} of programs")


def _rows(
    choice: cli.ProfileChoice, evaluation: Evaluation, items: Sequence[Item], label: str
) -> list[SampleResult]:
    right = 0.0
    results: dict[int, SampleResult] = {}
    bounds = Bounds()
    with Reasoner(cli.open_profile(choice)) as reasoner, counter(label, len(items)) as advance:
        judge = metric(evaluation.metric)
        runner = SampleRunner.with_cache(reasoner, judge, evaluation.options, 2 * bounds.in_flight)
        for done in LocalEngine(runner, bounds).run(items, threading.Event()):
            results[done.position] = done.row
            right += done.row.score
            advance(f"{right / len(results):.3f}")
    return [results[item.position] for item in items]
