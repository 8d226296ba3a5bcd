"""``viper ace mine``: examples from labelled samples, answered zero-shot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from viper.ace.bank import write_bank
from viper.ace.select import Candidate, Selection, select
from viper.commands.options import (
    OutPath,
    ProfileChoice,
    given_by,
    open_profile,
    option,
    options_as,
    quiet_libraries,
    root_option,
    seed_option,
    workers_option,
)
from viper.commands.terminal import evaluation_progress, hint_to_go_on, status
from viper.data.sample import DatasetSpec, Sample
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.evaluate.engines.local import Bounds, LocalEngine
from viper.evaluate.engines.runner import Budget, Ended, bound_arenas, items, run
from viper.evaluate.engines.sample_runner import Item, SampleRunner
from viper.evaluate.evaluation import manifest_of, read_ids
from viper.evaluate.metrics import metric
from viper.evaluate.runs.manifest import Manifest
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.learning.mining import Shots, Source, candidates, work_folder
from viper.reasoner import Reasoner, RunOptions
from viper.schema import to_json


@dataclass(frozen=True, kw_only=True)
class MineOptions(ProfileChoice):
    """The options of ``viper ace mine``."""

    # fmt: off
    data: str = option("--data", default="world", metavar="SET",
        help="See viper data list; or a FILE.csv, FILE.jsonl of your own.")
    root: Path | None = given_by(root_option)
    split: str | None = option("--split", metavar="NAME", help="By default train.")
    shots: int = option("--shots", type=click.IntRange(1, 10_000), default=100,
        help="Labelled samples tried, at random; of the embedded world, of each family.")
    ids: str | None = option("--ids", metavar="FILE|ID,ID",
        help="These samples instead; a file names one a line.")
    spread: bool = option("--spread",
        help="Take each kind of query in turn instead of whatever chance brings; kinds are those "
             "of the set's report.")
    seed: int = given_by(seed_option())
    programs: int = option("--programs", type=click.IntRange(1, 100), default=1,
        help="Programs drawn for each sample.")
    temperature: float | None = option("--temperature", type=click.FloatRange(0, 2),
        help="By default 0 for one program, else 0.4.")
    keep: int = option("--keep", type=click.IntRange(1, 10_000), default=16,
        help="Examples kept for each task and API.")
    agree: bool = option("--agree",
        help="Leave out what may be luck: keep a right program only if one of the same shape was "
             "right on another sample of the same type, or if most programs drawn for the sample "
             "gave its answer.")
    random_keep: bool = option("--random-keep",
        help="Keep any programs that gave an answer, whatever they scored: the ablation of "
             "choosing the best.")
    out: Path = option("--out", type=OutPath(), required=True, metavar="BANK",
        help="The bank to write.")
    apis: tuple[str, ...] = option("--api", default=("abstract", "vipergpt"),
        metavar="NAME[+FILE.py]",
        help="Give it again for several; the bank holds the examples of all.")
    budget: int | None = option("--budget", type=click.IntRange(1), metavar="N",
        help="Ask for N programs at most, for all APIs and sessions together.")
    workers: int = given_by(workers_option())
    work: Path | None = option("--work", type=OutPath(), metavar="DIR",
        help="Where the answers are kept; by default BANK.mining.")
    # fmt: on


@click.command()
@options_as(MineOptions)
def mine(wanted: MineOptions) -> int:
    """Answer a few labelled samples without examples and keep the best programs as BANK.

    Each program is judged by the set's own metric; above 0.5 it is right. Every answer is stored
    at once in BANK.mining: after Ctrl-C or a crash the same line goes on where it stopped, and
    with another --keep, --agree or --random-keep it chooses anew without asking any model. The
    bank is written in one step at the end. Exit code 1 where no program was right.

    \b
    viper ace mine --data world --shots 16 --out bank.jsonl
    viper ace mine --data refcoco --root refer --profile local --keep 16 --out bank.jsonl
    viper ace mine --data nextqa --root nextqa --ids chosen.txt --programs 4 --out bank.jsonl
    """
    if wanted.agree and wanted.random_keep:
        raise UsageError("--agree keeps what is right, --random-keep anything; choose one")
    if wanted.ids and wanted.spread:
        raise UsageError("--ids names the samples, --spread draws them; choose one")
    quiet_libraries(wanted.offline)

    where = DatasetSpec(wanted.root, wanted.split, wanted.seed)
    ids = read_ids(wanted.ids) if wanted.ids else ()
    drawn = (wanted.programs, wanted.temperature)
    shots = Shots(wanted.data, where, wanted.shots, ids, *drawn, spread=wanted.spread)
    with status("reading samples"):
        samples = shots.samples()
    selection = Selection(wanted.keep, wanted.agree, wanted.random_keep, wanted.seed)
    kept, asked = [], 0
    for api in dict.fromkeys(wanted.apis):
        found, ended = _mined(wanted, api, asked, shots, samples)
        asked += ended.running.llm_calls
        _tell(wanted.budget, api, ended)
        kept += select(found, selection)
    if not kept:
        click.echo("viper: no program to keep; the bank is not written", err=True)
        return EXIT_FAILED
    write_bank(wanted.out, kept)
    click.echo(f"{wanted.out}: {len(kept)} examples")
    return EXIT_OK


def _mined(
    wanted: MineOptions, api: str, asked: int, shots: Shots, samples: list[Sample]
) -> tuple[list[Candidate], Ended]:
    """Answers what the API's store lacks and gives all that it holds."""
    bound_arenas()
    evaluation = shots.evaluation()
    budget = None if wanted.budget is None else wanted.budget - asked
    todo = items(samples, evaluation.seeds)
    profile = open_profile(replace(wanted, api=api)).without_examples()
    folder = work_folder(wanted.out, api, wanted.work)
    with Reasoner(profile, preload=False) as reasoner:
        with status(f"{api}: loading models"):
            document, execution = to_json(profile.document), {"workers": wanted.workers}
            manifest = manifest_of(evaluation, samples, reasoner, document, execution)
        with hint_to_go_on():
            rows, ended = rows_of(reasoner, evaluation.options, manifest, todo, folder, budget)
        components = reasoner.components
        source = Source(evaluation, api, components.library, components.llm.model_id)
        return candidates(rows, samples, source), ended


def rows_of(
    reasoner: Reasoner,
    options: RunOptions,
    manifest: Manifest,
    todo: Sequence[Item],
    folder: Path,
    budget: int | None,
) -> tuple[list[SampleResult], Ended]:
    """Answer what the folder's store lacks of ``todo``, and return all the rows that it holds.

    Args:
        manifest: of the run; names the metric that judges, and the workers.
        budget: requests to the language model at most, over all sessions.
    """
    workers = manifest.execution["workers"]
    answering = SampleRunner.with_cache(reasoner, metric(manifest.metric), options, workers + 8)
    engine = LocalEngine(answering, Bounds(workers))
    with RunStore.resume(folder, manifest) as store:
        with evaluation_progress(len(todo), len(store.done())) as progress:
            ended = run(engine, todo, store, budget=Budget(llm_calls=budget),
                        on_done=lambda _, so_far: progress(so_far))  # fmt: skip
        return list(store.rows()), ended


def _tell(budget: int | None, api: str, ended: Ended) -> None:
    running = ended.running
    programs = f"{running.done} of {running.total} programs"
    click.echo(f"{api}: {programs}, mean score {running.mean:.3f}", err=True)
    if ended.reason == "budget":
        click.echo(
            f"viper: the budget of {budget} calls leaves no more for {api}; to go "
            "on: the same line with a larger --budget",
            err=True,
        )
