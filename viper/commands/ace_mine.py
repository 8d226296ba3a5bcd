"""``viper ace mine`` and ``viper ace describe``: banks of in-context examples.

`mine` answers labelled samples zero-shot: for each API a `Campaign` answers what the stored run
lacks, and its rows become candidates, of which `select` keeps the best. `describe` needs no labels:
it lets the language model write queries from a description of the data set (`_written`, resumable),
draws media for them, and answers each query on several media in a stored run. The queries whose
programs agree become the bank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from viper.ace import description as describing
from viper.ace.bank import write_bank
from viper.ace.generate import QueryStore, Request, generate, read_description, read_query_file
from viper.ace.mining import ExampleSource, Shots, candidates, work_folder
from viper.ace.select import Selection, agreed, best_first, kept, select
from viper.commands import options as cli
from viper.commands.evaluating import ProfileRecipe
from viper.commands.on_ray import choice_of, opened_engine
from viper.commands.run_options import RayOptions
from viper.commands.terminal import evaluation_progress, hint_to_go_on, note, status
from viper.data.sample import DatasetSpec
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.evaluate.campaign import Budget, Campaign
from viper.evaluate.engines.ray import manifest_differences
from viper.evaluate.engines.ray_actor import EvaluationWork
from viper.evaluate.evaluation import read_ids
from viper.models.llm.protocol import LLM
from viper.reasoner import Reasoner
from viper.schema import DEFAULT_API, Example, Query, to_json

# Enough for the usual kinds of queries of a data set, in two requests (`A_REPLY` each).
QUERIES = 50
TASKS = ("ground", "question", "choice", "statement")


@dataclass(frozen=True, kw_only=True)
class MineOptions(RayOptions, cli.ProfileChoice):
    """Options of ``viper ace mine``."""

    # fmt: off
    data: str = cli.option("--data", default="world", metavar="SET", type=cli.DATA_SET,
        help="Data set (see viper data list), or your FILE.csv or FILE.jsonl.")
    root: Path | None = cli.given_by(cli.root_option)
    split: str | None = cli.split_field("Split of the labelled samples. By default train.")
    shots: int = cli.option("--shots", type=click.IntRange(1, 10_000), default=100,
        help="Number of labelled samples to answer, drawn at random; in the embedded world, for "
             "each family of queries.")
    ids: str | None = cli.option("--ids", metavar="FILE|ID,ID",
        help="Answer these samples instead; a file holds one id on each line.")
    spread: bool = cli.option("--spread",
        help="Draw the kinds of query in turn, so that each has the same share; the kinds are "
             "those of the report of the data set.")
    seed: int = cli.seed_field()
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
    out: Path = cli.out_field("BANK", "Bank to write.")
    apis: tuple[str, ...] = cli.option("--api", default=(DEFAULT_API, "vipergpt"),
        metavar="NAME[+FILE.py]",
        help="API to write programs for; repeatable. The bank holds the examples of all APIs.")
    budget: int | None = cli.option("--budget", type=click.IntRange(1), metavar="N",
        help="Maximum number of requests to the language model, over all APIs and sessions.")
    workers: int = cli.workers_field(
        "Number of samples to answer at the same time; with --engine ray, in each actor.")
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
    viper ace mine --data gqa --root /shared/gqa --engine ray --ray-address auto --out bank.jsonl
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
    examples, llm_calls, evaluation = [], 0, shots.evaluation()
    for api in dict.fromkeys(options.apis):
        budget = Budget(llm_calls=None if options.budget is None else options.budget - llm_calls)
        profile = cli.open_profile(replace(options, api=api)).without_examples()
        folder = work_folder(options.out, api, options.work)
        with Reasoner(profile, preload=False) as reasoner:
            with status(f"{api}: loading models"):
                document, execution = to_json(profile.document), {"workers": options.workers}
                campaign = Campaign.of(evaluation, samples, reasoner, document, execution)
            choice = choice_of(cli.ProfileChoice, replace(options, api=api))
            recipe = ProfileRecipe(choice, examples=False)
            there = EvaluationWork(recipe, evaluation, options.workers, shots.samples)
            here = campaign.work(options.workers)
            threads = profile.document.threads
            opened = opened_engine(there, options, threads, here, manifest_differences)
            with hint_to_go_on(), opened as engine:
                rows, ended = campaign.answer(folder, engine, budget, evaluation_progress)
            library, model_id = reasoner.components.library, reasoner.components.llm.model_id
            source = ExampleSource(evaluation, api, library, model_id)
            candidates_of_api = candidates(rows, samples, source)
        running = ended.running
        llm_calls += running.llm_calls
        programs = f"{running.done} of {running.total} programs"
        note(f"{api}: {programs}, mean score {running.mean:.3f}")
        if ended.reason == "budget":
            tell_spent(options.budget, f" for {api}")
        examples += select(candidates_of_api, selection)
    return write_examples(options.out, examples)


@dataclass(frozen=True, kw_only=True)
class DescribeOptions(cli.ProfileChoice):
    """Argument and options of ``viper ace describe``."""

    # fmt: off
    description: Path | None = cli.given_by(click.argument("description", required=False,
        type=click.Path(path_type=Path), metavar="[SHEET.txt]"))
    task: str = cli.option("--task", type=click.Choice(TASKS), required=True,
        help="Task of the queries.")
    queries: int | None = cli.option("--queries", type=click.IntRange(1, 10_000), metavar="N",
        help=f"Number of queries to write. By default {QUERIES}, or all of --queries-from.")
    queries_from: Path | None = cli.option("--queries-from", metavar="FILE",
        help="File with your own queries, one on each line, options after vertical bars; or JSON "
             "lines with query and options. Use it if the language model only writes programs, as "
             "in profile embedded.")
    data: str = cli.option("--data", default="world", metavar="SET", type=cli.DATA_SET,
        help="Data set that provides the media; its labels are not used.")
    split: str | None = cli.split_field("Split that provides the media. By default train.")
    root: Path | None = cli.given_by(cli.root_option)
    media: int = cli.option("--media", type=click.IntRange(1, 100), default=3,
        help="Number of images or videos to answer each query on, drawn at random.")
    seed: int = cli.seed_field("First random seed; it chooses the media and seeds the sampling.")
    programs: int = cli.option("--programs", type=click.IntRange(2, 100), default=5,
        help="Number of programs for each query and image or video.")
    temperature: float = cli.option("--temperature", type=click.FloatRange(0, 2, min_open=True),
        default=0.4, help="Temperature of the programs.")
    agree: int = cli.option("--agree", type=click.IntRange(2, 100), default=3,
        help="Number of programs that must give the same answer for one of them to be kept.")
    keep: int = cli.option("--keep", type=click.IntRange(1, 10_000), default=16,
        help="Number of examples to keep.")
    budget: int | None = cli.option("--budget", type=click.IntRange(1), metavar="LLM_CALLS",
        help="Maximum number of requests to the language model, over all sessions.")
    workers: int = cli.workers_field("Number of programs to run at the same time.")
    out: Path = cli.out_field("BANK", "Bank to write.")
    work: Path | None = cli.option("--work", type=cli.OutPath(), metavar="DIR",
        help="Folder for queries and answers. By default BANK.sheet.")
    api: str | None = cli.given_by(cli.api_option)
    # fmt: on


@click.command()
@cli.options_as(DescribeOptions)
def describe(options: DescribeOptions) -> int:
    """Make a bank without labels, from the description of a data set in SHEET.txt.

    The language model of the profile writes queries that suit the data set. It answers each query
    several times, zero-shot, on a few images or videos of the set. If enough programs give the same
    answer, one of them is kept: agreement replaces the label. A model also agrees with itself on
    its systematic errors, so look at the bank before you trust it.

    Queries and answers are stored at once in BANK.sheet. After Ctrl-C or a crash, the same command
    continues. With another --agree or --keep it selects again without asking a model. The exit
    code is 1 if no program is kept.

    \b
    viper ace describe sheet.txt --data gqa --root gqa --task question --out bank.jsonl
    viper ace describe --queries-from queries.txt --data world --task ground --out bank.jsonl
    """
    if options.description is None and options.queries_from is None:
        raise UsageError(
            "no SHEET.txt; name a description, or your queries with --queries-from FILE"
        )
    if options.agree > options.programs:
        raise UsageError(
            f"--agree {options.agree} of --programs {options.programs}: no query can reach it"
        )
    text, queries, llm_calls = "", [], 0
    if options.queries_from is not None:
        queries = read_query_file(options.queries_from, options.task)[: options.queries]
        note(f"queries: {len(queries)} of {options.queries_from}")
    elif options.description is not None:
        text = read_description(options.description)
    spec = DatasetSpec(options.root, options.split, options.seed)
    sampling = (options.media, options.programs, options.temperature)
    plan = describing.SamplingPlan(options.data, options.task, spec, *sampling)
    profile = cli.open_profile(options).without_examples()
    with status("reading the set"):
        pool, evaluation = plan.pool(), plan.evaluation()
    work = options.work or options.out.with_name(options.out.name + ".sheet")
    with Reasoner(profile, preload=False) as reasoner, hint_to_go_on():
        components = reasoner.components
        if options.queries_from is None:
            of_videos = {sample.media for sample in pool} == {"video"}
            request = Request(
                text,
                options.task,
                options.queries or QUERIES,
                options.seed,
                "videos" if of_videos else "pictures",
            )
            queries, llm_calls = _written(components.llm, request, work, options.budget)
            if llm_calls == options.budget:  # queries are incomplete: start no run
                tell_spent(llm_calls)
                return EXIT_FAILED
        attempts = describing.media_queries(queries, pool, plan)
        samples = [attempt.sample for attempt in attempts]
        with status("loading models"):
            document, execution = to_json(profile.document), {"workers": options.workers}
            campaign = Campaign.of(evaluation, samples, reasoner, document, execution)
        manifest = replace(campaign.manifest, metric=describing.METRIC)
        todo = describing.work_items(attempts, plan)
        campaign = replace(campaign, manifest=manifest, todo=todo)
        budget = Budget(llm_calls=None if options.budget is None else options.budget - llm_calls)
        folder = work_folder(options.out, components.settings.api, work)
        engine = campaign.engine(options.workers)
        rows, ended = campaign.answer(folder, engine, budget, evaluation_progress)
        answered = ended.running.done - ended.running.failed
        note(f"programs: {ended.running.done} of {ended.running.total}, {answered} gave an answer")
        if ended.reason == "budget":
            tell_spent(options.budget)
        api, model_id = components.settings.api, components.llm.model_id
        source = ExampleSource(evaluation, api, components.library, model_id)
        programs = describing.programs_by_query(rows, attempts, source)
    verdicts = [agreed(media, options.agree) for media in programs]
    examples = [verdict.example for verdict in verdicts if verdict.example is not None]
    bank = kept(best_first(examples), options.keep)
    counts = Counter(verdict.why for verdict in verdicts)
    left_out = {
        "no program gave an answer": counts["unanswered"],
        f"fewer than {options.agree} agreed": counts["disagreed"],
        "not asked any more": counts["unasked"],
        f"beyond --keep {options.keep}": counts["agreed"] - len(bank),
    }
    why = ", ".join(f"{count} {reason}" for reason, count in left_out.items() if count)
    note(f"kept: {len(bank)} of {len(verdicts)} queries" + (f"; {why}" if why else ""))
    return write_examples(options.out, bank)


def _written(llm: LLM, request: Request, work: Path, budget: int | None) -> tuple[list[Query], int]:
    """Return the queries that a model writes, and the number of requests that they took."""
    with status("asking for queries"):
        store = QueryStore(work, request, llm.model_id)
        generated = generate(llm, request, store.load(), most=budget, on_reply=store.save)
    if not generated.queries:
        raise UsageError(
            f"{llm.model_id} wrote no usable query in {generated.replies} replies; a model that "
            "only writes programs needs queries of your own: --queries-from FILE"
        )
    count = f"{len(generated.queries)} of {request.count} requested"
    note(f"queries: {count}, in {generated.replies} replies")
    return list(generated.queries), generated.replies


def tell_spent(budget: int | None, what: str = "") -> None:
    """Print that the budget is spent, and how to continue."""
    note(
        f"viper: the budget of {budget} calls leaves no more{what}; to go on: the same line with a "
        "larger --budget"
    )


def write_examples(out: Path, examples: Sequence[Example]) -> int:
    """Write the bank unless it would be empty, and return the exit code."""
    if not examples:
        note("viper: no program to keep; the bank is not written")
        return EXIT_FAILED
    write_bank(out, examples)
    click.echo(f"{out}: {len(examples)} examples")
    return EXIT_OK
