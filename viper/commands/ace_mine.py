"""``viper ace mine``: examples from labelled samples, answered zero-shot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from viper.commands.option_groups import options, root_option, seed_option, workers_option
from viper.commands.options import open_profile, profile_options, quiet_libraries
from viper.commands.out_path import OutPath
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError

if TYPE_CHECKING:
    from viper.ace.select import Candidate
    from viper.data.sample import Sample
    from viper.evaluate.engines.runner import Ended
    from viper.learning.mining import Shots


_of_the_shots = options(
    click.option("--data", default="world", show_default=True, metavar="SET",
                 help="See viper data list; or a FILE.csv, FILE.jsonl of your own."),
    root_option,
    click.option("--split", metavar="NAME", help="By default train."),
    click.option("--shots", type=click.IntRange(1, 10_000), default=100, show_default=True,
                 help="Labelled samples tried, at random; of the embedded world, of each "
                      "family."),
    click.option("--ids", metavar="FILE|ID,ID", help="These samples instead; a file names one "
                 "a line."),
    click.option("--spread", is_flag=True,
                 help="Take each kind of query in turn instead of whatever chance brings; kinds "
                      "are those of the set's report."),
    seed_option(),
    click.option("--programs", type=click.IntRange(1, 100), default=1, show_default=True,
                 help="Programs drawn for each sample."),
    click.option("--temperature", type=click.FloatRange(0, 2),
                 help="By default 0 for one program, else 0.4."),
)  # fmt: skip


_of_the_bank = options(
    click.option("--keep", type=click.IntRange(1, 10_000), default=16, show_default=True,
                 help="Examples kept for each task and API."),
    click.option("--agree", is_flag=True,
                 help="Leave out what may be luck: keep a right program only if one of the "
                      "same shape was right on another sample of the same type, or if most "
                      "programs drawn for the sample gave its answer."),
    click.option("--random-keep", is_flag=True,
                 help="Keep any programs that gave an answer, whatever they scored: the "
                      "ablation of choosing the best."),
    click.option("--out", type=OutPath(), required=True, metavar="BANK",
                 help="The bank to write."),
)  # fmt: skip


_of_the_work = options(
    click.option("--api", "apis", multiple=True, default=("abstract", "vipergpt"),
                 show_default=True, metavar="NAME[+FILE.py]",
                 help="Give it again for several; the bank holds the examples of all."),
    click.option("--budget", type=click.IntRange(1), metavar="N",
                 help="Ask for N programs at most, for all APIs and sessions together."),
    workers_option(),
    click.option("--work", type=OutPath(), metavar="DIR",
                 help="Where the answers are kept; by default BANK.mining."),
)  # fmt: skip


@dataclass(frozen=True)
class _Plan:
    """What is mined, for all APIs."""

    shots: Shots
    samples: list[Sample]
    given: dict[str, Any]


@click.command()
@_of_the_shots
@_of_the_bank
@_of_the_work
@profile_options
def mine(**given: Any) -> int:
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
    if given["agree"] and given["random_keep"]:
        raise UsageError("--agree keeps what is right, --random-keep anything; choose one")
    if given["ids"] and given["spread"]:
        raise UsageError("--ids names the samples, --spread draws them; choose one")
    quiet_libraries(given["offline"])
    from viper.ace.bank import write_bank
    from viper.ace.select import Selection, select
    from viper.commands.progress import status
    from viper.evaluate.evaluation import read_ids

    shots = _shots(given, read_ids(given["ids"]) if given["ids"] else ())
    with status("reading samples"):
        plan = _Plan(shots, shots.samples(), given)
    selection = Selection(given["keep"], given["agree"], given["random_keep"], given["seed"])
    kept, asked = [], 0
    for api in dict.fromkeys(given["apis"]):
        found, ended = _mined(plan, api, asked)
        asked += ended.running.llm_calls
        _tell(plan, api, ended)
        kept += select(found, selection)
    if not kept:
        click.echo("viper: no program to keep; the bank is not written", err=True)
        return EXIT_FAILED
    write_bank(given["out"], kept)
    click.echo(f"{given['out']}: {len(kept)} examples")
    return EXIT_OK


def _shots(given: dict[str, Any], ids: tuple[str, ...]) -> Shots:
    from viper.data.sample import Where
    from viper.learning.mining import Shots

    where = Where(given["root"], given["split"], given["seed"])
    drawn = (given["programs"], given["temperature"])
    return Shots(given["data"], where, given["shots"], ids, *drawn, spread=given["spread"])


def _mined(plan: _Plan, api: str, asked: int) -> tuple[list[Candidate], Ended]:
    """Answers what the API's store lacks and gives all that it holds."""
    from viper.commands.eval_progress import shown
    from viper.commands.progress import status
    from viper.evaluate.engines.answering import Answering
    from viper.evaluate.engines.local import Bounds, LocalEngine
    from viper.evaluate.engines.runner import Budget, bound_arenas, items, run
    from viper.evaluate.evaluation import manifest_of
    from viper.evaluate.metrics import metric
    from viper.evaluate.runs.store import RunStore
    from viper.learning.mining import Source, candidates, work_folder
    from viper.reasoner import Reasoner
    from viper.schema import to_json

    bound_arenas()
    given, evaluation = plan.given, plan.shots.evaluation()
    budget = None if given["budget"] is None else given["budget"] - asked
    todo = items(plan.samples, evaluation.seeds)
    profile = open_profile({**given, "api": api}).without_examples()
    folder = work_folder(given["out"], api, given["work"])
    with Reasoner(profile, preload=False) as reasoner:
        with status(f"{api}: loading models"):
            document, execution = to_json(profile.document), {"workers": given["workers"]}
            manifest = manifest_of(evaluation, plan.samples, reasoner, document, execution)
        judge = metric(evaluation.metric)
        options = evaluation.options
        answering = Answering.with_cache(reasoner, judge, options, given["workers"] + 8)
        engine = LocalEngine(answering, Bounds(given["workers"]))
        with RunStore.resume(folder, manifest) as store:
            try:
                with shown(len(todo), len(store.done())) as progress:
                    ended = run(engine, todo, store, budget=Budget(llm_calls=budget),
                                on_done=lambda _, so_far: progress(so_far))  # fmt: skip
            except KeyboardInterrupt:
                click.echo("\nstopped; to go on: the same line again", err=True)
                raise
            components = reasoner.components
            source = Source(
                evaluation,
                api,
                components.library,
                components.llm.model_id,
            )
            return candidates(store.rows(), plan.samples, source), ended


def _tell(plan: _Plan, api: str, ended: Ended) -> None:
    running = ended.running
    programs = f"{running.done} of {running.total} programs"
    click.echo(f"{api}: {programs}, mean score {running.mean:.3f}", err=True)
    if ended.reason == "budget":
        click.echo(
            f"viper: the budget of {plan.given['budget']} calls leaves no more for {api}; to go "
            "on: the same line with a larger --budget",
            err=True,
        )
