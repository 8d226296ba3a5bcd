"""``viper ace mine``: in-context examples from labelled samples, answered zero-shot.

`mine` chooses the samples and calls `_mined` for each API: a `Campaign` answers what the stored run
lacks, and its rows become candidates. `select` keeps the best of all, and `write_examples` writes
the bank. `tell_spent` and `write_examples` also serve ``viper ace describe``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from viper.ace.bank import write_bank
from viper.ace.mining import ExampleSource, Shots, candidates, work_folder
from viper.ace.select import Candidate, Selection, select
from viper.commands import options as cli
from viper.commands.terminal import evaluation_progress, hint_to_go_on, status
from viper.data.sample import DatasetSpec, Sample
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.evaluate.campaign import Budget, Campaign, RunEnd
from viper.evaluate.evaluation import read_ids
from viper.reasoner import Reasoner
from viper.schema import Example, to_json


@dataclass(frozen=True, kw_only=True)
class MineOptions(cli.ProfileChoice):
    """Options of ``viper ace mine``."""

    # fmt: off
    data: str = cli.option("--data", default="world", metavar="SET",
        help="Data set (see viper data list), or your FILE.csv or FILE.jsonl.")
    root: Path | None = cli.given_by(cli.root_option)
    split: str | None = cli.option("--split", metavar="NAME",
        help="Split of the labelled samples. By default train.")
    shots: int = cli.option("--shots", type=click.IntRange(1, 10_000), default=100,
        help="Number of labelled samples to answer, drawn at random; in the embedded world, for "
             "each family of queries.")
    ids: str | None = cli.option("--ids", metavar="FILE|ID,ID",
        help="Answer these samples instead; a file holds one id on each line.")
    spread: bool = cli.option("--spread",
        help="Draw the kinds of query in turn, so that each has the same share; the kinds are "
             "those of the report of the data set.")
    seed: int = cli.given_by(cli.seed_option())
    programs: int = cli.option("--programs", type=click.IntRange(1, 100), default=1,
        help="Number of programs for each sample.")
    temperature: float | None = cli.option("--temperature", type=click.FloatRange(0, 2),
        help="Temperature of the programs. By default 0 for one program, else 0.4.")
    keep: int = cli.option("--keep", type=click.IntRange(1, 10_000), default=16,
        help="Number of examples to keep for each task and API.")
    agree: bool = cli.option("--agree",
        help="Leave out lucky hits: keep a correct program only if a program of the same shape was "
             "correct on another sample of the same kind, or if most programs of the sample gave "
             "its answer.")
    random_keep: bool = cli.option("--random-keep",
        help="Keep random programs that gave an answer, whatever their score. This is the ablation "
             "of the choice of the best.")
    out: Path = cli.option("--out", type=cli.OutPath(), required=True, metavar="BANK",
        help="Bank to write.")
    apis: tuple[str, ...] = cli.option("--api", default=("abstract", "vipergpt"),
        metavar="NAME[+FILE.py]",
        help="API to write programs for; repeatable. The bank holds the examples of all APIs.")
    budget: int | None = cli.option("--budget", type=click.IntRange(1), metavar="N",
        help="Maximum number of requests to the language model, over all APIs and sessions.")
    workers: int = cli.given_by(cli.workers_option())
    work: Path | None = cli.option("--work", type=cli.OutPath(), metavar="DIR",
        help="Folder for the answers. By default BANK.mining.")
    # fmt: on


@click.command()
@cli.options_as(MineOptions)
def mine(options: MineOptions) -> int:
    """Answer labelled samples without examples and keep the best programs as BANK.

    The metric of the data set scores each program; a score of at least .5 counts as correct. Every
    answer is stored at once in BANK.mining. After Ctrl-C or a crash, the same command continues.
    With another --keep, --agree or --random-keep it selects again without asking a model. The
    bank is written in one step at the end. The exit code is 1 if no program is correct.

    \b
    viper ace mine --data world --shots 16 --out bank.jsonl
    viper ace mine --data refcoco --root refer --profile local --keep 16 --out bank.jsonl
    viper ace mine --data nextqa --root nextqa --ids chosen.txt --programs 4 --out bank.jsonl
    """
    if options.agree and options.random_keep:
        raise UsageError("--agree keeps correct programs, --random-keep any program; choose one")
    if options.ids and options.spread:
        raise UsageError("--ids names the samples, --spread draws them; choose one")
    cli.quiet_libraries(options.offline)

    spec = DatasetSpec(options.root, options.split, options.seed)
    ids = read_ids(options.ids) if options.ids else ()
    sampling = (options.programs, options.temperature)
    shots = Shots(options.data, spec, options.shots, ids, *sampling, spread=options.spread)
    with status("reading samples"):
        samples = shots.samples()
    selection = Selection(options.keep, options.agree, options.random_keep, options.seed)
    examples, llm_calls = [], 0
    for api in dict.fromkeys(options.apis):
        candidates_of_api, ended = _mined(options, api, llm_calls, shots, samples)
        llm_calls += ended.running.llm_calls
        running = ended.running
        programs = f"{running.done} of {running.total} programs"
        click.echo(f"{api}: {programs}, mean score {running.mean:.3f}", err=True)
        if ended.reason == "budget":
            tell_spent(options.budget, f" for {api}")
        examples += select(candidates_of_api, selection)
    return write_examples(options.out, examples)


def _mined(
    options: MineOptions, api: str, llm_calls: int, shots: Shots, samples: list[Sample]
) -> tuple[list[Candidate], RunEnd]:
    """Answer what the store of the API lacks, and return all candidates and how the run ended."""
    budget = Budget(llm_calls=None if options.budget is None else options.budget - llm_calls)
    profile = cli.open_profile(replace(options, api=api)).without_examples()
    folder, evaluation = work_folder(options.out, api, options.work), shots.evaluation()
    with Reasoner(profile, preload=False) as reasoner:
        with status(f"{api}: loading models"):
            document, execution = to_json(profile.document), {"workers": options.workers}
            campaign = Campaign.of(evaluation, samples, reasoner, document, execution)
        with hint_to_go_on():
            rows, ended = campaign.answer(folder, options.workers, budget, evaluation_progress)
        components = reasoner.components
        source = ExampleSource(evaluation, api, components.library, components.llm.model_id)
        return candidates(rows, samples, source), ended


def tell_spent(budget: int | None, what: str = "") -> None:
    """Print that the budget is spent, and how to continue."""
    click.echo(
        f"viper: the budget of {budget} calls leaves no more{what}; to go on: the same line with a "
        "larger --budget",
        err=True,
    )


def write_examples(out: Path, examples: Sequence[Example]) -> int:
    """Write the bank unless it would be empty, and return the exit code."""
    if not examples:
        click.echo("viper: no program to keep; the bank is not written", err=True)
        return EXIT_FAILED
    write_bank(out, examples)
    click.echo(f"{out}: {len(examples)} examples")
    return EXIT_OK
