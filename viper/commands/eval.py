"""``viper eval``: answer a data set, judge every answer, keep everything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.correction_options import correction_options, run_changes
from viper.commands.eval_ray import profile_of, ray_options
from viper.commands.option_groups import options, root_option, seed_option, workers_option
from viper.commands.options import api_option, learned_option, profile_options
from viper.commands.out_path import OutPath
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.strategies import STRATEGIES

if TYPE_CHECKING:
    from viper.data.sample import Sample
    from viper.evaluate.engines.answering import Engine, Item
    from viper.evaluate.engines.runner import Budget, Ended
    from viper.evaluate.evaluation import Evaluation
    from viper.evaluate.runs.manifest import Manifest
    from viper.evaluate.runs.store import RunStore
    from viper.evaluate.trackers.tracking import Tracker


_of_the_set = options(
    root_option,
    click.option("--split", metavar="NAME", help="By default the set's first."),
    click.option("--limit", type=click.IntRange(1), help="Only so many samples, at random."),
    click.option("--ids", metavar="FILE|ID,ID", help="Only these samples; a file names one a "
                 "line. --limit does not count then."),
    seed_option(),
    click.option("--seeds", type=click.IntRange(1, 100), default=1, show_default=True,
                 help="Answer every sample under so many seeds: means with deviations."),
)  # fmt: skip


_of_the_answers = options(
    click.option("--strategy", default="program", show_default=True,
                 help=f"{', '.join(STRATEGIES)}; viper run --help says what each does."),
    click.option("--examples/--zero-shot", default=True, show_default=True,
                 help="Show the profile's in-context examples."),
    click.option("--deadline", "deadline_s", type=click.FloatRange(0, min_open=True),
                 metavar="SECONDS", help="For one sample; past it, it counts as failed."),
)  # fmt: skip


_of_the_run = options(
    click.option("--out", type=OutPath(), metavar="RUN",
                 help="Folder of the run; by default runs/SET-SPLIT-TIME."),
    click.option("--resume", is_flag=True,
                 help="Go on with the run in --out; begins it where there is none."),
    workers_option("Samples on their way at once; with --engine ray, in each actor."),
    click.option("--budget-usd", type=click.FloatRange(0, min_open=True),
                 help="Begin no further sample once programs cost this much."),
    click.option("--engine", type=click.Choice(["local", "ray"]), default="local",
                 show_default=True, help="Threads here, or actors of Ray."),
    click.option("--track", metavar="NAME:WHERE",
                 help="tensorboard:DIR, mlflow:URI or wandb:PROJECT."),
    click.option("--judgements", type=click.Path(path_type=Path), metavar="FILE.csv",
                 help="Write edits as a sheet for people to judge, with pictures beside it."),
    click.option("--html/--no-html", default=True, show_default=True,
                 help="Write the page with plots, too."),
    click.option("--dry-run", is_flag=True, help="Say what would be done; load no model."),
    click.option("--json", "as_json", is_flag=True, help="Print the report as JSON."),
)  # fmt: skip


@click.command("eval")
@click.argument("name", metavar="SET")
@_of_the_set
@_of_the_answers
@correction_options
@_of_the_run
@ray_options
@api_option
@learned_option(by_default=False)
@profile_options
def evaluate(name: str, **given: Any) -> int:
    """Answer the samples of SET (viper data list; or a FILE.csv, FILE.jsonl of your own).

    Every judged sample is stored at once with its trace; Ctrl-C or a crash loses only what
    was under way, and the same line with --resume goes on. A sample that fails counts 0 and
    stands in the report under its kind of failure. Exit code 0 when all samples are done.

    \b
    viper eval world --limit 60 --out runs/first
    viper eval refcoco --root refer --split testA --profile local --seeds 3 --out runs/testA
    viper eval nlvr --root nlvr --limit 600 --strategy vqa --out runs/vqa
    """
    evaluation = _evaluation(name, given)
    if given["resume"] and given["out"] is None:
        raise UsageError("--resume needs --out RUN: which run to go on with")
    if given["judgements"] is not None and given["engine"] == "ray":
        raise UsageError("--judgements keeps pictures here; leave out --engine ray")
    if given["dry_run"]:
        return _dry_run(evaluation, given)
    return _evaluate(evaluation, given)


def _evaluation(name: str, given: dict[str, Any]) -> Evaluation:
    from viper.commands.options import quiet_libraries

    quiet_libraries(given["offline"])
    from viper.data.sample import Where
    from viper.evaluate.evaluation import Evaluation, read_ids
    from viper.reasoner import RunOptions
    from viper.strategies import strategy

    strategy(given["strategy"])
    return Evaluation(
        set_name=name,
        where=Where(given["root"], given["split"], given["seed"]),
        limit=given["limit"],
        ids=read_ids(given["ids"]) if given["ids"] else (),
        seeds=tuple(range(given["seed"], given["seed"] + given["seeds"])),
        options=RunOptions(strategy=given["strategy"], **run_changes(given)),
        deadline_s=given["deadline_s"],
    )


def _evaluate(evaluation: Evaluation, given: dict[str, Any]) -> int:
    from datetime import UTC, datetime

    from viper.commands.eval_ray import on_ray
    from viper.commands.pages import write_report_page
    from viper.commands.progress import status
    from viper.evaluate.engines.runner import Budget, items
    from viper.evaluate.evaluation import default_folder
    from viper.evaluate.reports.report import report
    from viper.evaluate.runs.store import RunStore, check_free
    from viper.evaluate.trackers.tracking import open_tracker

    folder = given["out"] or default_folder(evaluation, datetime.now(UTC).strftime("%Y%m%d-%H%M%S"))
    if not given["resume"]:
        check_free(folder)
    tracker = open_tracker(given["track"]) if given["track"] else None
    with status("reading samples"):
        samples = evaluation.samples()
    _first_media(samples)
    opened = on_ray if given["engine"] == "ray" else _on_threads
    with opened(evaluation, samples, given) as (engine, manifest):
        begin = RunStore.resume if given["resume"] else RunStore.create
        with begin(folder, manifest) as store:
            click.echo(f"run: {folder}", err=True)
            todo = items(samples, evaluation.seeds)
            ended = _drive(engine, todo, store, Budget(given["budget_usd"]), tracker)
            made = report(store)
            exit_code = _finish(store, made, ended, given)
            if given["html"]:
                known = {sample.sample_id: sample for sample in samples}
                write_report_page(store, made, known, given["sandbox"])
            return exit_code


def _first_media(samples: Any) -> None:
    from viper.evaluate.evaluation import missing_media

    problems = list(missing_media(samples))
    if problems:
        click.echo(f"viper: warning: {problems[0]}; see viper data check", err=True)


@contextmanager
def _on_threads(
    evaluation: Evaluation, samples: list[Sample], given: dict[str, Any]
) -> Iterator[tuple[Engine, Manifest]]:
    from viper.commands.progress import status
    from viper.evaluate.engines.answering import Answering
    from viper.evaluate.engines.local import Bounds, LocalEngine
    from viper.evaluate.engines.runner import bound_arenas
    from viper.evaluate.evaluation import manifest_of
    from viper.evaluate.judgements import JudgementSheet, Kept
    from viper.evaluate.metrics import metric
    from viper.reasoner import Reasoner
    from viper.schema import to_json

    bound_arenas()
    profile, workers = profile_of(given), given["workers"]
    with Reasoner(profile, preload=False) as reasoner:
        with status("loading models"):
            execution = {name: given[name] for name in ("engine", "workers", "budget_usd")}
            document = to_json(profile.document)
            manifest = manifest_of(evaluation, samples, reasoner, document, execution)
        judge = metric(evaluation.metric)
        if given["judgements"] is not None:
            judge = Kept(judge, JudgementSheet(given["judgements"]))
        answering = Answering.with_cache(reasoner, judge, evaluation.options, workers + 8)
        yield LocalEngine(answering, Bounds(workers, evaluation.deadline_s)), manifest


def _drive(
    engine: Engine,
    todo: list[Item],
    store: RunStore,
    budget: Budget,
    tracker: Tracker | None,
) -> Ended:
    from viper.commands.eval_progress import shown
    from viper.evaluate.engines.runner import run

    if tracker is not None:
        tracker.start(store.manifest)
    with shown(len(todo), len(store.done())) as progress:

        def on_done(row: Any, running: Any) -> None:
            progress(running)
            if tracker is not None:
                tracker.row(row, {"score": running.mean, "failed": running.failed})

        try:
            ended = run(engine, todo, store, budget=budget, on_done=on_done)
        except KeyboardInterrupt:
            click.echo(f"\nstopped; to go on: the same line with --resume --out {store.folder}",
                       err=True)  # fmt: skip
            raise
    if tracker is not None:
        from viper.evaluate.reports.report import report

        tracker.finish(report(store))
    return ended


def _finish(store: RunStore, made: dict[str, Any], ended: Ended, given: dict[str, Any]) -> int:
    from viper.evaluate.reports.tables import NamedReport, rendered

    store.write_report(made)
    if given["judgements"] is not None:
        from viper.evaluate.judgements import JudgementSheet

        count = JudgementSheet(given["judgements"]).write(store.rows())
        click.echo(f"viper: {count} edits to judge: {given['judgements']}", err=True)
    if given["as_json"]:
        click.echo(json.dumps(made, allow_nan=False, ensure_ascii=False))
    else:
        click.echo(rendered([NamedReport(str(store.folder), made)], "table"))
    if ended.reason == "budget":
        click.echo(
            f"viper: the budget of ${given['budget_usd']:g} is spent after "
            f"{ended.running.done} of {ended.running.total} samples; to go on: a larger "
            f"--budget-usd with --resume --out {store.folder}",
            err=True,
        )
        return EXIT_FAILED
    return EXIT_OK


def _dry_run(evaluation: Evaluation, given: dict[str, Any]) -> int:
    from viper.commands.profile import place_of
    from viper.commands.tables import echo_table
    from viper.profiles.inventory import inventory

    samples = evaluation.samples()
    _first_media(samples)
    runs = len(samples) * len(evaluation.seeds)
    click.echo(f"{evaluation.set_name} {evaluation.located().split}: {len(samples)} samples, "
               f"metric {evaluation.metric}")  # fmt: skip
    profile = profile_of(given)
    states = list(inventory(profile, given["offline"]))
    echo_table(
        ("role", "backend", "model", "weights"),
        [(s.role, s.backend, s.model or "-", s.problem or place_of(s)) for s in states],
    )
    run = evaluation.options.settings(profile.document.run)
    fewest, most = (run.votes + 1) // 2, run.votes * run.trials
    seeds = f"{len(evaluation.seeds)} seed{'s' if len(evaluation.seeds) > 1 else ''}"
    click.echo(f"{runs} runs under {seeds}, {given['workers']} at once; "
               f"{runs * fewest} to {runs * most} programs")  # fmt: skip
    return EXIT_FAILED if any(state.problem for state in states) else EXIT_OK
