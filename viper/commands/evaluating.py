"""Evaluation of a data set by ``viper eval``, on threads or on actors of Ray.

`evaluate_set` reads the samples, opens an engine with its manifest (`_on_threads` or `on_ray`),
begins or resumes the store of the run, answers what it lacks, and writes the report from the store.
With ``--dry-run``, `tell_cost` runs instead.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click

from viper.commands.on_ray import choice_of, opened_pool
from viper.commands.options import ProfileChoice, fetch_models, open_profile
from viper.commands.profile import echo_weights
from viper.commands.report import read_run, write_report_page
from viper.commands.run_options import EvalOptions
from viper.commands.terminal import evaluation_progress, note, status, warn
from viper.data.sample import Sample
from viper.errors import EXIT_FAILED, EXIT_OK
from viper.evaluate.campaign import Budget, Campaign, run
from viper.evaluate.engines.ray import RayEngine, manifest_differences, run_manifest
from viper.evaluate.engines.ray_actor import EvaluationWork
from viper.evaluate.engines.sample_runner import Engine, items
from viper.evaluate.evaluation import Evaluation, default_folder, manifest_of, missing_media
from viper.evaluate.judgements import JudgementSheet, RecordingMetric
from viper.evaluate.metrics import metric
from viper.evaluate.reports.report import report
from viper.evaluate.reports.tables import NamedReport, rendered
from viper.evaluate.runs.manifest import Manifest
from viper.evaluate.runs.store import MANIFEST, RunStore, check_free, read_manifest, same_run
from viper.evaluate.trackers import open_tracker
from viper.profiles import Profile
from viper.reasoner import Reasoner
from viper.schema import to_json


def evaluate_set(evaluation: Evaluation, options: EvalOptions) -> int:
    folder = options.out or default_folder(evaluation, datetime.now(UTC).strftime("%Y%m%d-%H%M%S"))
    if not options.resume:
        check_free(folder)
    tracker = open_tracker(options.track) if options.track else None
    with status("reading samples"):
        samples = evaluation.samples()

    def draw(limit: int | None) -> list[Sample]:
        return replace(evaluation, limit=limit).samples()

    if options.resume and (folder / MANIFEST).is_file():
        # Another run is refused here, as far as that is known without loading a model.
        profile, first = profile_of(options, options.examples), read_manifest(folder)
        document = to_json(profile.document)
        with Reasoner(profile, preload=False) as reasoner:
            known = manifest_of(evaluation, samples, reasoner, document, {}, like=first)
        same_run(folder, known, samples, draw)
        with read_run(folder):  # which indexes it with a bar
            pass
    _first_media(samples)
    opened = on_ray if options.engine == "ray" else _on_threads
    with opened(evaluation, samples, options) as (engine, manifest):
        begin = RunStore.create
        if options.resume:
            begin = partial(RunStore.resume, samples=samples, draw=draw)
        with begin(folder, manifest) as store:
            note(f"run: {folder}")
            if tracker is not None:
                tracker.start(store.manifest)
            todo = items(samples, evaluation.seeds)
            with evaluation_progress(len(todo), len(store.done())) as progress:

                def on_done(row: Any, running: Any) -> None:
                    progress(running)
                    if tracker is not None:
                        tracker.row(row, {"score": running.mean, "failed": running.failed})

                begun, before = time.monotonic(), store.count()
                try:
                    budget = Budget(options.budget_usd)
                    ended = run(engine, todo, store, budget=budget, on_done=on_done)
                except KeyboardInterrupt:
                    note(f"\nstopped; to go on: the same line with --resume --out {store.folder}")
                    raise
                finally:
                    if fresh := store.count() - before:
                        store.add_pace(fresh, time.monotonic() - begun)
            report_data = report(store)
            if tracker is not None:
                tracker.finish(report_data)
            store.write_report(report_data)
            if options.judgements is not None:
                count = JudgementSheet(options.judgements).write(store.rows())
                note(f"viper: {count} edits to judge: {options.judgements}")
            if options.as_json:
                click.echo(json.dumps(report_data, allow_nan=False, ensure_ascii=False))
            else:
                click.echo(rendered([NamedReport(str(store.folder), report_data)], "table"))
            if ended.reason == "budget":
                note(
                    f"viper: the budget of ${options.budget_usd:g} is spent after "
                    f"{ended.running.done} of {ended.running.total} samples; to go on: a larger "
                    f"--budget-usd with --resume --out {store.folder}"
                )
            if options.html:
                samples_by_id = {sample.sample_id: sample for sample in samples}
                write_report_page(store, report_data, samples_by_id, options.sandbox)
            return EXIT_FAILED if ended.reason == "budget" else EXIT_OK


def _first_media(samples: Sequence[Sample]) -> None:
    problems = list(missing_media(samples))
    if problems:
        warn(f"{problems[0]}; see viper data check")


@contextmanager
def _on_threads(
    evaluation: Evaluation, samples: list[Sample], options: EvalOptions
) -> Iterator[tuple[Engine, Manifest]]:
    profile = profile_of(options, options.examples)
    fetch_models(profile)
    with Reasoner(profile, preload=False) as reasoner:
        with status("loading models"):
            document = to_json(profile.document)
            campaign = Campaign.of(evaluation, samples, reasoner, document, options.execution)
        judge = metric(evaluation.metric)
        if options.judgements is not None:
            judge = RecordingMetric(judge, JudgementSheet(options.judgements))
        yield campaign.engine(options.workers, judge), campaign.manifest


def tell_cost(evaluation: Evaluation, options: EvalOptions) -> int:
    """Print the cost of the evaluation without loading a model."""
    samples = evaluation.samples()
    _first_media(samples)
    runs = len(samples) * len(evaluation.seeds)
    click.echo(f"{evaluation.set_name} {evaluation.located().split}: {len(samples)} samples, "
               f"metric {evaluation.metric}")  # fmt: skip
    profile = profile_of(options, options.examples)
    states = echo_weights(profile, options.offline)
    run = evaluation.options.settings(profile.document.run)
    fewest, most = (run.votes + 1) // 2, run.votes * run.trials
    seeds = f"{len(evaluation.seeds)} seed{'s' if len(evaluation.seeds) > 1 else ''}"
    click.echo(f"{runs} runs under {seeds}, {options.workers} at once; "
               f"{runs * fewest} to {runs * most} programs")  # fmt: skip
    return EXIT_FAILED if any(state.problem for state in states) else EXIT_OK


def profile_of(choice: ProfileChoice, examples: bool) -> Profile:
    """Return the profile that the options of ``viper eval`` name, with its examples or without."""
    profile = open_profile(choice)
    return profile if examples else profile.without_examples()


@dataclass(frozen=True)
class ProfileRecipe:
    """Builds the reasoner of these options, see :data:`viper.evaluate.engines.ray_actor.Recipe`."""

    choice: ProfileChoice
    examples: bool = True

    def __call__(self) -> tuple[Reasoner, Mapping[str, Any]]:
        profile = profile_of(self.choice, self.examples)
        return Reasoner(profile, preload=False), to_json(profile.document)


@contextmanager
def on_ray(
    evaluation: Evaluation, samples: list[Sample], options: EvalOptions
) -> Iterator[tuple[RayEngine, Manifest]]:
    """Yield an engine of Ray actors, and the manifest that one of them wrote.

    Raises:
        MissingExtraError: the package ``ray`` is not installed.
        UsageError, ModelError: Ray is not running, has no room, or an actor cannot start.
    """
    profile = profile_of(options, options.examples)  # report a wrong name before Ray starts
    recipe = ProfileRecipe(choice_of(ProfileChoice, options), options.examples)
    work = EvaluationWork(recipe, evaluation, options.workers)
    opened = opened_pool(work, options, profile.document.threads, manifest_differences)
    with opened as (pool, share):
        with status("starting actors"):
            shared = {"cpus_per_actor": share.cpus, "gpus_per_actor": share.gpus}
            execution = {**options.execution, "actors": options.actors, **shared}
            first = Manifest.from_json(pool.facts())
            manifest = run_manifest(first, evaluation, samples, execution)
            pool.expect(manifest.to_json())
        yield RayEngine(pool, options.workers), manifest
