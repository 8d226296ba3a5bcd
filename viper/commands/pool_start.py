"""``viper pool start``: the first demonstrations, from labelled samples."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.kept_versions import pool_folder
from viper.commands.option_groups import options, root_option, seed_option
from viper.commands.options import api_option, open_profile, profile_options, quiet_libraries
from viper.commands.out_path import OutPath
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError

if TYPE_CHECKING:
    from viper.evaluate.answered import Drawn
    from viper.evaluate.row import Row
    from viper.learning.first_demonstrations import First, Solved
    from viper.profiles.wiring import Profile
    from viper.reasoner import RunOptions
    from viper.strategies.base import Components

_of_the_samples = options(
    root_option,
    click.option("--split", metavar="NAME", help="By default train."),
    click.option("--samples", type=click.IntRange(1, 10_000), default=24, show_default=True,
                 help="Labelled samples tried, kinds of query in turn; of the embedded world, of "
                      "each family."),
    click.option("--ids", metavar="FILE|ID,ID", help="These samples instead; a file names one "
                 "a line."),
    seed_option("Chooses samples and faults, and is the seed of sampling."),
)  # fmt: skip

_of_the_pool = options(
    click.option("--correct", type=click.IntRange(1, 1_000), default=8, show_default=True,
                 help="For each task: samples that were answered right. Each leaves its plan and "
                      "its program."),
    click.option("--incorrect", type=click.IntRange(0, 1_000), default=8, show_default=True,
                 help="For each task: faults planted into what was right, in plans and in programs "
                      "by turns."),
    click.option("--strategy", type=click.Choice(["plan", "program"]),
                 help="program: no plans. By default plan, where the profile has a model that "
                      "plans."),
)  # fmt: skip

_of_the_work = options(
    click.option("--budget", type=click.IntRange(1), metavar="N",
                 help="Ask language models N times at most, all sessions together."),
    click.option("--work", type=OutPath(), metavar="DIR",
                 help="Where the answers are kept meanwhile; by default a folder of its own under "
                      "the state."),
)  # fmt: skip


@dataclass(frozen=True)
class _Plan:
    """What is asked, with what, and where it is kept."""

    drawn: Drawn
    profile: Profile
    work: Path
    given: dict[str, Any]

    @property
    def run(self) -> Path:
        """The folder of the mining run."""
        return self.work / "mined"


@click.command()
@click.argument("set_name", metavar="SET")
@_of_the_samples
@_of_the_pool
@_of_the_work
@api_option
@profile_options
def start(set_name: str, **given: Any) -> int:
    """Fill the pool with first demonstrations: solved samples of SET, and planted faults.

    Nobody writes them. The profile's models answer labelled samples without any demonstration; what
    the set's metric finds right, and what is right again when it is shown to its own query, is
    correct. Into right plans and programs a fault is put (a step left out, another word, the other
    direction); those that answer wrong by it are incorrect, with the reason. The most different
    ones are kept, all of them as one version of the pool.

    Every answer is stored at once: after Ctrl-C or a crash the same line goes on where it stopped,
    and asks nothing twice. Exit code 1 where nothing was right.

    \b
    viper pool start gqa --root gqa --profile openai
    viper pool start world --split train:question --correct 4 --incorrect 4
    viper pool start questions.csv --strategy program --budget 200
    """
    from viper.ace.pool import FOLDER, DemonstrationPool

    quiet_libraries(given["offline"])
    if given["budget"] is not None and given["budget"] < 2:
        raise UsageError("--budget 1: a sample that is answered right is asked about again; give 2")
    found = _found({**given, "set_name": set_name})
    if not any(one.correct for one in found):
        click.echo(
            "viper: nothing that was right is right when it is shown, so the pool stays as it was; "
            "try more --samples, or another --profile",
            err=True,
        )
        return EXIT_FAILED
    pool = DemonstrationPool(pool_folder(given["state"], FOLDER))
    before = len(pool.items())
    kept = [one for first in found for one in (*first.correct, *first.incorrect)]
    pool.add(kept, f"first demonstrations of {set_name}")
    for first in found:
        _tell(first, given)
    new = len(pool.items()) - before
    click.echo(f"{pool.ledger.folder}: {new} new demonstrations, version {pool.ledger.version}")
    return EXIT_OK


def _found(given: dict[str, Any]) -> list[First]:
    """Answers, tries and plants; gives what is to be kept."""
    from viper.commands.progress import counter
    from viper.evaluate.engines.runner import bound_arenas
    from viper.evaluate.metrics import metric
    from viper.learning.first_demonstrations import Wish, first_demonstrations
    from viper.learning.tryout import Tryout
    from viper.tuning.plan_edits import COMMON_FAMILIES

    bound_arenas()
    profile = open_profile(given).without_examples()
    components = profile.components()
    try:
        plan = _plan(given, profile, components)
        rows, solved = _mined(plan, components)
        families = components.hub.settings.attribute_families or COMMON_FAMILIES
        wish = Wish(given["correct"], given["incorrect"], given["seed"], families)
        tryout = Tryout(
            components,
            metric(plan.drawn.evaluation.metric),
            plan.drawn.evaluation.options.changed(seed=given["seed"]),
            plan.work / "tried.jsonl",
            given["budget"],
            sum(row.usage.llm_calls for row in rows),
        )
        tasks = {one.example.task for one in solved}
        with counter("demonstrations", len(tasks) * (wish.correct + wish.incorrect)) as advance:
            found = first_demonstrations(solved, wish, tryout, advance)
    except KeyboardInterrupt:
        click.echo("\nstopped; to go on: the same line again", err=True)
        raise
    finally:
        components.close()
    if len(rows) < len(plan.drawn.samples) or any(one.stopped for one in found):
        click.echo(
            f"viper: the budget of {given['budget']} requests ended it; to go on: the same line "
            "with a larger --budget",
            err=True,
        )
    return found


def _plan(given: dict[str, Any], profile: Profile, components: Components) -> _Plan:
    from viper.commands.progress import status
    from viper.data.sample import Where
    from viper.evaluate.answered import Drawn
    from viper.evaluate.evaluation import read_ids
    from viper.learning.mining import Shots

    ids = read_ids(given["ids"]) if given["ids"] else ()
    where = Where(given["root"], given["split"], given["seed"])
    shots = Shots(given["set_name"], where, given["samples"], ids, spread=not ids)
    options = _options(given, components)
    with status("reading samples"):
        evaluation = replace(shots.evaluation(), options=options)
        drawn = Drawn(evaluation, shots.samples())
    folder = given["work"] or pool_folder(given["state"], "demonstrations.start")
    name = [given["set_name"], evaluation.where.split or "", components.settings.api]
    name += [profile.name, options.strategy, _short(ids) or given["samples"], given["seed"]]
    readable = "-".join(str(one) for one in name).replace("/", "-")
    kept = "".join(letter if letter.isalnum() or letter in "-_.+" else "-" for letter in readable)
    return _Plan(drawn, profile, folder / kept[-150:].lstrip(".-"), given)


def _short(ids: tuple[str, ...]) -> str:
    """A name for a list of ids; empty for none."""
    return hashlib.sha256(repr(ids).encode()).hexdigest()[:8] if ids else ""


def _options(given: dict[str, Any], components: Components) -> RunOptions:
    """One program a sample, nothing shown, nothing corrected; with a plan, if somebody can plan."""
    from viper.learning.mining import zero_shot
    from viper.strategies.plan import planner_of

    strategy = given["strategy"]
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


def _mined(plan: _Plan, components: Components) -> tuple[list[Row], list[Solved]]:
    """Answers what the run's folder lacks."""
    from viper.commands.eval_progress import shown
    from viper.evaluate.answered import answered
    from viper.evaluate.engines.runner import Budget
    from viper.evaluate.runs.store import RunStore
    from viper.learning.first_demonstrations import solved_samples
    from viper.learning.mining import Source
    from viper.schema import to_json
    from viper.strategies.writing import REDRAWS

    drawn, budget = plan.drawn, plan.given["budget"]
    each = 2 + REDRAWS if drawn.evaluation.options.strategy == "plan" else 1
    document = to_json(plan.profile.document)
    done = 0
    if (plan.run / "run.json").exists():
        with RunStore.read(plan.run) as store:
            done = len(store.done())
    with shown(len(drawn.samples), done) as progress:
        rows = answered(components, drawn, plan.run, document, progress, Budget(None, budget, each))
    source = Source(
        drawn.evaluation,
        components.settings.api,
        components.library,
        components.llm.model_id,
    )
    with RunStore.read(plan.run) as store:
        solved = solved_samples(store, drawn.samples, source)
    click.echo(f"{len(solved)} of {len(rows)} samples were answered right", err=True)
    return rows, solved


def _tell(first: First, given: dict[str, Any]) -> None:
    """How many there are of each part; what is missing goes to stderr."""
    told, lacking = [], []
    for name, count, its in (
        ("correct", first.samples, first.correct),
        ("incorrect", len(first.incorrect), first.incorrect),
    ):
        parts = Counter(one.example.part for one in its)
        shown = ", ".join(f"{parts[part]} {part}s" for part in sorted(parts))
        told.append(f"{count} {name} ({shown or 'none'})")
        if count < given[name]:
            lacking.append(f"{count} of {given[name]} {name}")
    click.echo(f"{first.task}: {'; '.join(told)}")
    if lacking and not first.stopped:
        click.echo(f"{first.task}: {', '.join(lacking)}; more --samples may give more", err=True)
