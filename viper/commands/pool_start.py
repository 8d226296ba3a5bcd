"""``viper ace pool start``: first demonstrations from labelled samples.

`start` calls `_make`, which plans the run (`_plan`), answers the samples and lets
`viper.tuning.first_demonstrations` test and injure what was right. The pool then gets all of it as
one version.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import click

from viper.ace.mining import ExampleSource, Shots, zero_shot
from viper.commands import options as cli
from viper.commands.terminal import counter, evaluation_progress, hint_to_go_on, note, status
from viper.data.sample import DatasetSpec
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.evaluate.campaign import Budget, SampledEvaluation, answer_all, bound_arenas
from viper.evaluate.evaluation import read_ids
from viper.evaluate.metrics import metric
from viper.evaluate.runs.store import RunStore
from viper.profiles.files import state_dir
from viper.profiles.wiring import Profile
from viper.schema import to_json
from viper.strategies.base import Components
from viper.strategies.demonstration_pool import FOLDER, DemonstrationPool
from viper.strategies.plan import planner_of
from viper.strategies.program import MAX_RESAMPLES
from viper.tuning import first_demonstrations as finding
from viper.tuning.plan_edits import COMMON_FAMILIES
from viper.tuning.validation import ValidationRun


@dataclass(frozen=True, kw_only=True)
class StartOptions(cli.ProfileChoice):
    """Argument and options of ``viper ace pool start``."""

    # fmt: off
    set_name: str = cli.given_by(click.argument("set_name", metavar="SET", type=cli.DATA_SET))
    root: Path | None = cli.given_by(cli.root_option)
    split: str | None = cli.split_field("Split of the labelled samples. By default train.")
    samples: int = cli.option("--samples", type=click.IntRange(1, 10_000), default=24,
        help="Number of labelled samples to answer, kinds of query in turn; in the embedded "
             "world, for each family of queries.")
    ids: str | None = cli.option("--ids", metavar="FILE|ID,ID",
        help="Answer these samples instead; a file holds one id on each line.")
    seed: int = cli.seed_field(
        "Random seed for the choice of samples and faults, and for sampling.")
    correct: int = cli.option("--correct", type=click.IntRange(1, 1_000), default=8,
        help="Number of correct samples for each task; each gives its plan and its program.")
    incorrect: int = cli.option("--incorrect", type=click.IntRange(0, 1_000), default=8,
        help="Number of injected faults for each task, in correct plans and programs in turn.")
    strategy: Literal["plan", "program"] | None = cli.option("--strategy",
        help="Strategy that answers. By default plan if the profile has a planner, else program.")
    budget: int | None = cli.option("--budget", type=click.IntRange(1), metavar="N",
        help="Maximum number of requests to language models, over all sessions.")
    work: Path | None = cli.option("--work", type=cli.OutPath(), metavar="DIR",
        help="Folder for the answers. By default a folder below the state folder.")
    api: str | None = cli.given_by(cli.api_option)
    # fmt: on


@click.command()
@cli.options_as(StartOptions)
def start(options: StartOptions) -> int:
    """Fill the pool with demonstrations from the labelled samples of SET.

    The models of the profile answer labelled samples without demonstrations. A plan or program is a
    correct demonstration if its answer is correct, and stays correct with the demonstration in the
    prompt. Then a fault is injected into correct ones: a missing step, another word, the opposite
    direction. If the answer becomes wrong, the result is an incorrect demonstration with the fault
    as critique. The most diverse demonstrations become one version of the pool.

    Every answer is stored at once. After Ctrl-C or a crash, the same command continues and repeats
    no request. The exit code is 1 if no answer is correct.

    \b
    viper ace pool start gqa --root gqa --profile openai
    viper ace pool start world --split train:question --correct 4 --incorrect 4
    viper ace pool start questions.csv --strategy program --budget 200
    """
    if options.budget is not None and options.budget < 2:
        raise UsageError("--budget 1: a correct answer needs a second request; give 2 or more")
    demonstrations = _make(options)
    if not any(first.correct for first in demonstrations):
        note(
            "viper: no demonstration led to a correct answer, so the pool did not change; "
            "try more --samples, or another --profile"
        )
        return EXIT_FAILED
    pool = DemonstrationPool(state_dir(options.state) / FOLDER)
    before = len(pool.items())
    items = [item for first in demonstrations for item in (*first.correct, *first.incorrect)]
    pool.add(items, f"first demonstrations of {options.set_name}")
    for first in demonstrations:
        counts, lacking = [], []
        for name, count, most, found in (
            ("correct", first.samples, options.correct, first.correct),
            ("incorrect", len(first.incorrect), options.incorrect, first.incorrect),
        ):
            parts = Counter(item.example.part for item in found)
            parts_text = ", ".join(f"{parts[part]} {part}s" for part in sorted(parts))
            counts.append(f"{count} {name} ({parts_text or 'none'})")
            if count < most:
                lacking.append(f"{count} of {most} {name}")
        click.echo(f"{first.task}: {'; '.join(counts)}")
        if lacking and not first.stopped:
            note(f"{first.task}: {', '.join(lacking)}; more --samples may give more")
    new = len(pool.items()) - before
    click.echo(f"{pool.store.folder}: {new} new demonstrations, version {pool.store.version}")
    return EXIT_OK


def _make(options: StartOptions) -> list[finding.TaskExamples]:
    """Answer samples, test the results and inject faults; return the demonstrations by task."""
    bound_arenas()
    profile = cli.open_profile(options).without_examples()
    with closing(profile.components()) as components, hint_to_go_on():
        sampled, work = _plan(options, profile, components)
        run = work / "mined"
        budget = options.budget
        if budget is not None:
            # A third is left for trying solved samples as examples: with none left, a small budget
            # would end without a demonstration.
            budget -= max(1, budget // 3)
        calls = 2 + MAX_RESAMPLES if sampled.evaluation.options.strategy == "plan" else 1
        document = to_json(profile.document)
        done = 0
        if (run / "run.json").exists():
            with RunStore.read(run) as store:
                done = len(store.done())
        with evaluation_progress(len(sampled.samples), done) as progress:
            limit = Budget(None, budget, calls)
            rows = answer_all(components, sampled, run, document, progress, limit)
        api, model_id = components.settings.api, components.llm.model_id
        source = ExampleSource(sampled.evaluation, api, components.library, model_id)
        with RunStore.read(run) as store:
            solved = finding.solved_samples(store, sampled.samples, source)
        note(f"{len(solved)} of {len(rows)} samples were answered right")
        families = components.toolbox.settings.attribute_families or COMMON_FAMILIES
        targets = finding.Targets(options.correct, options.incorrect, options.seed, families)
        validation = ValidationRun(
            components,
            metric(sampled.evaluation.metric),
            sampled.evaluation.options.changed(seed=options.seed),
            work / "tried.jsonl",
            options.budget,
            sum(row.usage.llm_calls for row in rows),
        )
        tasks = {sample.example.task for sample in solved}
        total = len(tasks) * (targets.correct + targets.incorrect)
        with counter("demonstrations", total) as advance:
            demonstrations = finding.first_demonstrations(solved, targets, validation, advance)
    if len(rows) < len(sampled.samples) or any(first.stopped for first in demonstrations):
        note(
            f"viper: the budget of {options.budget} requests ended it; to go on: the same line "
            "with a larger --budget"
        )
    return demonstrations


def _plan(
    options: StartOptions, profile: Profile, components: Components
) -> tuple[SampledEvaluation, Path]:
    """Return the samples to answer, without examples or corrections, and the folder of the work."""
    strategy = options.strategy
    if strategy != "program":
        try:
            planner_of(components, components.settings)
            strategy = "plan"
        except UsageError:
            if strategy == "plan":
                raise
            strategy = "program"
            note("the profile's writer does not plan: programs only")
    ids = read_ids(options.ids) if options.ids else ()
    spec = DatasetSpec(options.root, options.split, options.seed)
    shots = Shots(options.set_name, spec, options.samples, ids, spread=not ids)
    run_options = zero_shot().changed(
        strategy=strategy, correct_demonstrations=0, incorrect_demonstrations=0
    )
    with status("reading samples"):
        evaluation = replace(shots.evaluation(), options=run_options)
        sampled = SampledEvaluation(evaluation, shots.samples())
    folder = options.work or state_dir(options.state) / "demonstrations.start"
    which = hashlib.sha256(repr(ids).encode()).hexdigest()[:8] if ids else options.samples
    about = (options.set_name, evaluation.spec.split or "", components.settings.api)
    name = "-".join(map(str, (*about, profile.name, strategy, which, options.seed)))
    safe = re.sub(r"[^\w.+-]", "-", name)
    return sampled, folder / safe[-150:].lstrip(".-")
