"""``viper ace describe``: examples without labels, from a description of a data set.

`describe` draws media (`_Plan`), lets the language model write queries for them (`_queries`,
resumable), and answers each query on several media in a stored run (`_sampled`). `_chosen` keeps
the queries whose programs agree and writes the bank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from viper.ace import description as describing
from viper.ace.generate import QueryStore, Request, generate, read_description, read_query_file
from viper.ace.mining import ExampleSource, work_folder
from viper.ace.select import AgreementResult, Candidate, agreed, best_first, kept
from viper.commands import options as cli
from viper.commands.ace_mine import tell_spent, write_examples
from viper.commands.terminal import evaluation_progress, hint_to_go_on, status
from viper.data.sample import DatasetSpec, Sample
from viper.errors import EXIT_FAILED, UsageError
from viper.evaluate.campaign import Budget, Campaign
from viper.profiles.wiring import Profile
from viper.reasoner import Reasoner
from viper.schema import Example, Query, to_json

# Enough for the usual kinds of queries of a data set, in two requests (`A_REPLY` each).
QUERIES = 50
TASKS = ("ground", "question", "choice", "statement")


@dataclass(frozen=True)
class _Plan:
    """The queries to answer, the media and the profile.

    Attributes:
        source: text of the data set description, or the queries of ``--queries-from``.
    """

    drawing: describing.SamplingPlan
    pool: list[Sample]
    profile: Profile
    source: str | list[Query]
    options: DescribeOptions

    @property
    def work(self) -> Path:
        out: Path = self.options.out
        return self.options.work or out.with_name(out.name + ".sheet")


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
    data: str = cli.option("--data", default="world", metavar="SET",
        help="Data set that provides the media; its labels are not used.")
    split: str | None = cli.option("--split", metavar="NAME",
        help="Split that provides the media. By default train.")
    root: Path | None = cli.given_by(cli.root_option)
    media: int = cli.option("--media", type=click.IntRange(1, 100), default=3,
        help="Number of images or videos to answer each query on, drawn at random.")
    seed: int = cli.given_by(cli.seed_option(
        "First random seed; it chooses the media and seeds the sampling."))
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
    workers: int = cli.given_by(cli.workers_option("Number of programs to run at the same time."))
    out: Path = cli.option("--out", type=cli.OutPath(), required=True, metavar="BANK",
        help="Bank to write.")
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
    _check(options)

    source, drawing = _source(options), _drawing(options)
    profile = cli.open_profile(options).without_examples()
    with status("reading the set"):
        plan = _Plan(drawing, drawing.pool(), profile, source, options)

    with Reasoner(plan.profile, preload=False) as reasoner, hint_to_go_on():
        queries, llm_calls = _queries(plan, reasoner)
        if llm_calls and llm_calls == options.budget:  # queries are incomplete: start no run
            tell_spent(llm_calls)
            return EXIT_FAILED
        programs = _sampled(plan, reasoner, queries, llm_calls)
    return _chosen(options, programs)


def _check(options: DescribeOptions) -> None:
    if options.description is None and options.queries_from is None:
        raise UsageError(
            "no SHEET.txt; name a description, or your queries with --queries-from FILE"
        )
    if options.agree > options.programs:
        raise UsageError(
            f"--agree {options.agree} of --programs {options.programs}: no query can reach it"
        )


def _drawing(options: DescribeOptions) -> describing.SamplingPlan:
    spec = DatasetSpec(options.root, options.split, options.seed)
    sampling = (options.media, options.programs, options.temperature)
    return describing.SamplingPlan(options.data, options.task, spec, *sampling)


def _source(options: DescribeOptions) -> str | list[Query]:
    path = options.queries_from
    if path is None:
        assert options.description is not None
        return read_description(options.description)
    queries = read_query_file(path, options.task)[: options.queries]
    click.echo(f"queries: {len(queries)} of {path}", err=True)
    return queries


def _queries(plan: _Plan, reasoner: Reasoner) -> tuple[list[Query], int]:
    """Return the queries and the number of requests that they took."""
    if not isinstance(plan.source, str):
        return plan.source, 0
    options, llm = plan.options, reasoner.components.llm
    only_videos = {sample.media for sample in plan.pool} == {"video"}
    request = Request(
        plan.source,
        options.task,
        options.queries or QUERIES,
        options.seed,
        "videos" if only_videos else "pictures",
    )
    with status("asking for queries"):
        store = QueryStore(plan.work, request, llm.model_id)
        generated = generate(llm, request, store.load(), most=options.budget, on_reply=store.save)
    if not generated.queries:
        raise UsageError(
            f"{llm.model_id} wrote no usable query in {generated.replies} replies; a model that "
            "only writes programs needs queries of your own: --queries-from FILE"
        )
    count = f"{len(generated.queries)} of {request.count} requested"
    click.echo(f"queries: {count}, in {generated.replies} replies", err=True)
    return list(generated.queries), generated.replies


def _sampled(
    plan: _Plan, reasoner: Reasoner, queries: Sequence[Query], llm_calls: int
) -> list[list[list[Candidate]]]:
    """Answer what the store lacks, and return all programs by query and medium."""
    options, components = plan.options, reasoner.components
    evaluation = plan.drawing.evaluation()
    attempts = describing.media_queries(queries, plan.pool, plan.drawing)
    todo = describing.work_items(attempts, plan.drawing)
    samples = [attempt.sample for attempt in attempts]
    api = components.settings.api
    with status("loading models"):
        document, execution = to_json(plan.profile.document), {"workers": options.workers}
        campaign = Campaign.of(evaluation, samples, reasoner, document, execution)
    manifest = replace(campaign.manifest, metric=describing.METRIC)
    campaign = replace(campaign, manifest=manifest, todo=todo)
    budget = Budget(llm_calls=None if options.budget is None else options.budget - llm_calls)
    folder = work_folder(options.out, api, plan.work)
    rows, ended = campaign.answer(folder, options.workers, budget, evaluation_progress)
    running = ended.running
    answered = running.done - running.failed
    click.echo(f"programs: {running.done} of {running.total}, {answered} gave an answer", err=True)
    if ended.reason == "budget":
        tell_spent(options.budget)
    source = ExampleSource(evaluation, api, components.library, components.llm.model_id)
    return describing.programs_by_query(rows, attempts, source)


def _chosen(options: DescribeOptions, programs: Sequence[Sequence[Sequence[Candidate]]]) -> int:
    """Write the programs that agree to the bank, and print why the others are left out."""
    verdicts = [agreed(media, options.agree) for media in programs]
    examples = [verdict.example for verdict in verdicts if verdict.example is not None]
    bank = kept(best_first(examples), options.keep)
    _tell(options, verdicts, bank)
    return write_examples(options.out, bank)


def _tell(
    options: DescribeOptions, verdicts: Sequence[AgreementResult], bank: Sequence[Example]
) -> None:
    counts = Counter(verdict.why for verdict in verdicts)
    left_out = {
        "no program gave an answer": counts["unanswered"],
        f"fewer than {options.agree} agreed": counts["disagreed"],
        "not asked any more": counts["unasked"],
        f"beyond --keep {options.keep}": counts["agreed"] - len(bank),
    }
    why = ", ".join(f"{count} {reason}" for reason, count in left_out.items() if count)
    click.echo(f"kept: {len(bank)} of {len(verdicts)} queries" + (f"; {why}" if why else ""),
               err=True)  # fmt: skip
