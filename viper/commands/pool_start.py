"""``viper ace pool start``: the first demonstrations, from labelled samples."""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import click

from viper.ace.pool import FOLDER, DemonstrationPool
from viper.commands.options import (
    OutPath,
    ProfileChoice,
    api_option,
    given_by,
    open_profile,
    option,
    options_as,
    root_option,
    seed_option,
)
from viper.commands.terminal import counter, evaluation_progress, hint_to_go_on, status
from viper.data.sample import DatasetSpec
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.evaluate.answered import Drawn, answered
from viper.evaluate.engines.runner import Budget, bound_arenas
from viper.evaluate.evaluation import read_ids
from viper.evaluate.metrics import metric
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.learning.first_demonstrations import (
    First,
    Solved,
    Wish,
    first_demonstrations,
    solved_samples,
)
from viper.learning.mining import Shots, Source, zero_shot
from viper.learning.tryout import Tryout
from viper.profiles.document import state_dir
from viper.profiles.wiring import Profile
from viper.reasoner import RunOptions
from viper.schema import to_json
from viper.strategies.base import Components
from viper.strategies.plan import planner_of
from viper.strategies.writing import REDRAWS
from viper.tuning.plan_edits import COMMON_FAMILIES


@dataclass(frozen=True)
class _Plan:
    """What is asked, with what, and where it is kept."""

    drawn: Drawn
    profile: Profile
    work: Path
    wanted: StartOptions

    @property
    def run(self) -> Path:
        """The folder of the mining run."""
        return self.work / "mined"


@dataclass(frozen=True, kw_only=True)
class StartOptions(ProfileChoice):
    """The set and the options of ``viper ace pool start``."""

    # fmt: off
    set_name: str = given_by(click.argument("set_name", metavar="SET"))
    root: Path | None = given_by(root_option)
    split: str | None = option("--split", metavar="NAME", help="By default train.")
    samples: int = option("--samples", type=click.IntRange(1, 10_000), default=24,
        help="Labelled samples tried, kinds of query in turn; of the embedded world, of each "
             "family.")
    ids: str | None = option("--ids", metavar="FILE|ID,ID",
        help="These samples instead; a file names one a line.")
    seed: int = given_by(seed_option("Chooses samples and faults, and is the seed of sampling."))
    correct: int = option("--correct", type=click.IntRange(1, 1_000), default=8,
        help="For each task: samples that were answered right. Each leaves its plan and its "
             "program.")
    incorrect: int = option("--incorrect", type=click.IntRange(0, 1_000), default=8,
        help="For each task: faults planted into what was right, in plans and in programs by "
             "turns.")
    strategy: Literal["plan", "program"] | None = option("--strategy",
        help="program: no plans. By default plan, where the profile has a model that plans.")
    budget: int | None = option("--budget", type=click.IntRange(1), metavar="N",
        help="Ask language models N times at most, all sessions together.")
    work: Path | None = option("--work", type=OutPath(), metavar="DIR",
        help="Where the answers are kept meanwhile; by default a folder of its own under the "
             "state.")
    api: str | None = given_by(api_option)
    # fmt: on


@click.command()
@options_as(StartOptions)
def start(wanted: StartOptions) -> int:
    """Fill the pool with first demonstrations: solved samples of SET, and planted faults.

    Nobody writes them. The profile's models answer labelled samples without any demonstration; what
    the set's metric finds right, and what is right again when it is shown to its own query, is
    correct. Into right plans and programs a fault is put (a step left out, another word, the other
    direction); those that answer wrong by it are incorrect, with the reason. The most different
    ones are kept, all of them as one version of the pool.

    Every answer is stored at once: after Ctrl-C or a crash the same line goes on where it stopped,
    and asks nothing twice. Exit code 1 where nothing was right.

    \b
    viper ace pool start gqa --root gqa --profile openai
    viper ace pool start world --split train:question --correct 4 --incorrect 4
    viper ace pool start questions.csv --strategy program --budget 200
    """
    if wanted.budget is not None and wanted.budget < 2:
        raise UsageError("--budget 1: a sample that is answered right is asked about again; give 2")
    found = _found(wanted)
    if not any(one.correct for one in found):
        click.echo(
            "viper: nothing that was right is right when it is shown, so the pool stays as it was; "
            "try more --samples, or another --profile",
            err=True,
        )
        return EXIT_FAILED
    pool = DemonstrationPool(state_dir(wanted.state) / FOLDER)
    before = len(pool.items())
    kept = [one for first in found for one in (*first.correct, *first.incorrect)]
    pool.add(kept, f"first demonstrations of {wanted.set_name}")
    for first in found:
        _tell(first, wanted)
    new = len(pool.items()) - before
    click.echo(f"{pool.store.folder}: {new} new demonstrations, version {pool.store.version}")
    return EXIT_OK


def _found(wanted: StartOptions) -> list[First]:
    """Answers, tries and plants; gives what is to be kept."""
    bound_arenas()
    profile = open_profile(wanted).without_examples()
    with closing(profile.components()) as components, hint_to_go_on():
        plan = _plan(wanted, profile, components)
        rows, solved = _mined(plan, components)
        families = components.toolbox.settings.attribute_families or COMMON_FAMILIES
        wish = Wish(wanted.correct, wanted.incorrect, wanted.seed, families)
        tryout = Tryout(
            components,
            metric(plan.drawn.evaluation.metric),
            plan.drawn.evaluation.options.changed(seed=wanted.seed),
            plan.work / "tried.jsonl",
            wanted.budget,
            sum(row.usage.llm_calls for row in rows),
        )
        tasks = {one.example.task for one in solved}
        with counter("demonstrations", len(tasks) * (wish.correct + wish.incorrect)) as advance:
            found = first_demonstrations(solved, wish, tryout, advance)
    if len(rows) < len(plan.drawn.samples) or any(one.stopped for one in found):
        click.echo(
            f"viper: the budget of {wanted.budget} requests ended it; to go on: the same line "
            "with a larger --budget",
            err=True,
        )
    return found


def _plan(wanted: StartOptions, profile: Profile, components: Components) -> _Plan:
    ids = read_ids(wanted.ids) if wanted.ids else ()
    where = DatasetSpec(wanted.root, wanted.split, wanted.seed)
    shots = Shots(wanted.set_name, where, wanted.samples, ids, spread=not ids)
    options = _options(wanted, components)
    with status("reading samples"):
        evaluation = replace(shots.evaluation(), options=options)
        drawn = Drawn(evaluation, shots.samples())
    folder = wanted.work or state_dir(wanted.state) / "demonstrations.start"
    name = (
        *(wanted.set_name, evaluation.where.split or "", components.settings.api),
        *(profile.name, options.strategy, _short(ids) or wanted.samples, wanted.seed),
    )
    readable = "-".join(str(one) for one in name).replace("/", "-")
    kept = "".join(letter if letter.isalnum() or letter in "-_.+" else "-" for letter in readable)
    return _Plan(drawn, profile, folder / kept[-150:].lstrip(".-"), wanted)


def _short(ids: tuple[str, ...]) -> str:
    """A name for a list of ids; empty for none."""
    return hashlib.sha256(repr(ids).encode()).hexdigest()[:8] if ids else ""


def _options(wanted: StartOptions, components: Components) -> RunOptions:
    """One program a sample, nothing shown, nothing corrected; with a plan, if somebody can plan."""
    strategy = wanted.strategy
    if strategy != "program":
        try:
            planner_of(components, components.settings)
            strategy = "plan"
        except UsageError:
            if strategy == "plan":
                raise
            strategy = "program"
            click.echo("the profile's writer does not plan: programs only", err=True)
    return zero_shot().changed(
        strategy=strategy, correct_demonstrations=0, incorrect_demonstrations=0
    )


def _mined(plan: _Plan, components: Components) -> tuple[list[SampleResult], list[Solved]]:
    """Answers what the run's folder lacks."""
    drawn, budget = plan.drawn, plan.wanted.budget
    each = 2 + REDRAWS if drawn.evaluation.options.strategy == "plan" else 1
    document = to_json(plan.profile.document)
    done = 0
    if (plan.run / "run.json").exists():
        with RunStore.read(plan.run) as store:
            done = len(store.done())
    with evaluation_progress(len(drawn.samples), done) as progress:
        rows = answered(components, drawn, plan.run, document, progress, Budget(None, budget, each))
    api, library = components.settings.api, components.library
    source = Source(drawn.evaluation, api, library, components.llm.model_id)
    with RunStore.read(plan.run) as store:
        solved = solved_samples(store, drawn.samples, source)
    click.echo(f"{len(solved)} of {len(rows)} samples were answered right", err=True)
    return rows, solved


def _tell(first: First, wanted: StartOptions) -> None:
    """How many there are of each part; what is missing goes to stderr."""
    told, lacking = [], []
    for name, count, most, its in (
        ("correct", first.samples, wanted.correct, first.correct),
        ("incorrect", len(first.incorrect), wanted.incorrect, first.incorrect),
    ):
        parts = Counter(one.example.part for one in its)
        shown = ", ".join(f"{parts[part]} {part}s" for part in sorted(parts))
        told.append(f"{count} {name} ({shown or 'none'})")
        if count < most:
            lacking.append(f"{count} of {most} {name}")
    click.echo(f"{first.task}: {'; '.join(told)}")
    if lacking and not first.stopped:
        click.echo(f"{first.task}: {', '.join(lacking)}; more --samples may give more", err=True)
