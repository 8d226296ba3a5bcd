"""``viper ace describe``: examples without labels, from a few sentences about a data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from viper.ace.bank import write_bank
from viper.ace.generate import QueryStore, Request, generate, read_query_file, read_sheet
from viper.ace.select import Candidate, Verdict, agreed, best_first, kept
from viper.commands.ace_mine import rows_of
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
    workers_option,
)
from viper.commands.terminal import hint_to_go_on, status
from viper.data.sample import DatasetSpec, Sample
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.evaluate.engines.runner import Ended, bound_arenas
from viper.evaluate.evaluation import manifest_of
from viper.learning.mining import Source, work_folder
from viper.learning.sheet import METRIC, Drawing, drawn, items, tried_on
from viper.profiles.wiring import Profile
from viper.reasoner import Reasoner
from viper.schema import Example, Query, to_json

QUERIES = 50
TASKS = ("ground", "question", "choice")


@dataclass(frozen=True)
class _Plan:
    """What is drawn, on which media, with what.

    Attributes:
        told: the data sheet, or the queries that were given.
    """

    drawing: Drawing
    pool: list[Sample]
    profile: Profile
    told: str | list[Query]
    wanted: SheetOptions

    @property
    def work(self) -> Path:
        out: Path = self.wanted.out
        return self.wanted.work or out.with_name(out.name + ".sheet")


@dataclass(frozen=True, kw_only=True)
class SheetOptions(ProfileChoice):
    """The data sheet and the options of ``viper ace describe``."""

    # fmt: off
    sheet: Path | None = given_by(click.argument("sheet", type=click.Path(path_type=Path),
        required=False, metavar="[SHEET.txt]"))
    task: str = option("--task", type=click.Choice(TASKS), required=True,
        help="What the queries ask for.")
    queries: int | None = option("--queries", type=click.IntRange(1, 10_000), metavar="N",
        help=f"Queries to ask for; by default {QUERIES}, or all of --queries-from.")
    queries_from: Path | None = option("--queries-from", metavar="FILE",
        help="Queries of your own, one a line, options after vertical bars; or JSON lines with "
             "query and options. No query is asked for then: the way for language models that only "
             "write programs, as that of the profile embedded.")
    data: str = option("--data", default="world", metavar="SET",
        help="Whose media are asked about; its labels are not used.")
    split: str | None = option("--split", metavar="NAME", help="By default train.")
    root: Path | None = given_by(root_option)
    media: int = option("--media", type=click.IntRange(1, 100), default=3,
        help="Pictures or clips that each query is tried on, at random.")
    seed: int = given_by(seed_option("Chooses media, and is the first seed of sampling."))
    programs: int = option("--programs", type=click.IntRange(2, 100), default=5,
        help="Programs drawn for each query and medium.")
    temperature: float = option("--temperature", type=click.FloatRange(0, 2, min_open=True),
        default=0.4, help="Of the programs.")
    agree: int = option("--agree", type=click.IntRange(2, 100), default=3,
        help="A program is kept if it is one of so many that gave the same answer.")
    keep: int = option("--keep", type=click.IntRange(1, 10_000), default=16, help="Examples kept.")
    budget: int | None = option("--budget", type=click.IntRange(1), metavar="LLM_CALLS",
        help="Requests to the language model at most, over all sessions.")
    workers: int = given_by(workers_option("Programs on their way at once."))
    out: Path = option("--out", type=OutPath(), required=True, metavar="BANK",
        help="The bank to write.")
    work: Path | None = option("--work", type=OutPath(), metavar="DIR",
        help="Where queries and answers are kept; by default BANK.sheet.")
    api: str | None = given_by(api_option)
    # fmt: on


@click.command()
@options_as(SheetOptions)
def sheet(wanted: SheetOptions) -> int:
    """Make a bank without any label, from what SHEET.txt tells about a data set.

    The profile's language model thinks up queries that would suit the set, and answers each
    several times, zero-shot, about a few of the set's media. Where enough programs give the same
    answer, one of them is kept: agreement takes the place of a label. What the model gets wrong
    again and again it also agrees on, so look at the bank before you trust it.

    Queries and answers are stored at once in BANK.sheet: after Ctrl-C or a crash the same line
    goes on where it stopped, and with another --agree or --keep it chooses anew without asking
    any model. Exit code 1 where nothing was kept.

    \b
    viper ace describe sheet.txt --data gqa --root gqa --task question --out bank.jsonl
    viper ace describe --queries-from queries.txt --data world --task ground --out bank.jsonl
    """
    _check(wanted)

    told, drawing = _told(wanted), _drawing(wanted)
    profile = open_profile(wanted).without_examples()
    with status("reading the set"):
        plan = _Plan(drawing, drawing.pool(), profile, told, wanted)

    with Reasoner(plan.profile, preload=False) as reasoner, hint_to_go_on():
        queries, asked = _queries(plan, reasoner)
        if asked and asked == wanted.budget:  # more queries may come: no run begins with these
            _tell_spent(asked)
            return EXIT_FAILED
        found = _drawn(plan, reasoner, queries, asked)
    return _chosen(wanted, found)


def _check(wanted: SheetOptions) -> None:
    if wanted.sheet is None and wanted.queries_from is None:
        raise UsageError("no data sheet; name its file, or give queries with --queries-from FILE")
    if wanted.agree > wanted.programs:
        raise UsageError(
            f"--agree {wanted.agree} of --programs {wanted.programs}: no query can reach it"
        )


def _drawing(wanted: SheetOptions) -> Drawing:
    where = DatasetSpec(wanted.root, wanted.split, wanted.seed)
    drawn = (wanted.media, wanted.programs, wanted.temperature)
    return Drawing(wanted.data, wanted.task, where, *drawn)


def _told(wanted: SheetOptions) -> str | list[Query]:
    path = wanted.queries_from
    if path is None:
        assert wanted.sheet is not None
        return read_sheet(wanted.sheet)
    queries = read_query_file(path, wanted.task)[: wanted.queries]
    click.echo(f"queries: {len(queries)} of {path}", err=True)
    return queries


def _queries(plan: _Plan, reasoner: Reasoner) -> tuple[list[Query], int]:
    """The queries, and how many requests they took."""
    if not isinstance(plan.told, str):
        return plan.told, 0
    wanted, llm = plan.wanted, reasoner.components.llm
    only_videos = {sample.media for sample in plan.pool} == {"video"}
    request = Request(
        plan.told,
        wanted.task,
        wanted.queries or QUERIES,
        wanted.seed,
        "videos" if only_videos else "pictures",
    )
    with status("asking for queries"):
        store = QueryStore(plan.work, request, llm.model_id)
        found = generate(llm, request, store.load(), most=wanted.budget, on_reply=store.save)
    if not found.queries:
        raise UsageError(
            f"{llm.model_id} wrote no usable query in {found.replies} replies; a model that only "
            "writes programs needs queries of your own: --queries-from FILE"
        )
    count = f"{len(found.queries)} of {request.count} wanted"
    click.echo(f"queries: {count}, in {found.replies} replies", err=True)
    return list(found.queries), found.replies


def _drawn(
    plan: _Plan, reasoner: Reasoner, queries: Sequence[Query], asked: int
) -> list[list[list[Candidate]]]:
    """Draws the programs that the store lacks and gives all that it holds."""
    bound_arenas()
    wanted, components = plan.wanted, reasoner.components
    evaluation = plan.drawing.evaluation()
    tried = tried_on(queries, plan.pool, plan.drawing)
    todo, samples = items(tried, plan.drawing), [one.sample for one in tried]
    api = components.settings.api
    with status("loading models"):
        document, execution = to_json(plan.profile.document), {"workers": wanted.workers}
        manifest = manifest_of(evaluation, samples, reasoner, document, execution)
    budget = None if wanted.budget is None else wanted.budget - asked
    folder = work_folder(wanted.out, api, plan.work)
    judged = replace(manifest, metric=METRIC)
    rows, ended = rows_of(reasoner, evaluation.options, judged, todo, folder, budget)
    _tell_ended(ended, wanted.budget)
    source = Source(evaluation, api, components.library, components.llm.model_id)
    return drawn(rows, tried, source)


def _tell_ended(ended: Ended, budget: int | None) -> None:
    running = ended.running
    answered = running.done - running.failed
    click.echo(f"programs: {running.done} of {running.total}, {answered} gave an answer", err=True)
    if ended.reason == "budget":
        _tell_spent(budget)


def _tell_spent(budget: int | None) -> None:
    click.echo(
        f"viper: the budget of {budget} calls leaves no more; to go on: the same line with a "
        "larger --budget",
        err=True,
    )


def _chosen(wanted: SheetOptions, found: Sequence[Sequence[Sequence[Candidate]]]) -> int:
    """Keeps what programs agree on, and says why the rest was left out."""
    verdicts = [agreed(media, wanted.agree) for media in found]
    examples = [one.example for one in verdicts if one.example is not None]
    bank = kept(best_first(examples), wanted.keep)
    _tell(wanted, verdicts, bank)
    if not bank:
        click.echo("viper: no program to keep; the bank is not written", err=True)
        return EXIT_FAILED
    write_bank(wanted.out, bank)
    click.echo(f"{wanted.out}: {len(bank)} examples")
    return EXIT_OK


def _tell(wanted: SheetOptions, verdicts: Sequence[Verdict], bank: Sequence[Example]) -> None:
    counts = Counter(verdict.why for verdict in verdicts)
    left_out = {
        "no program gave an answer": counts["unanswered"],
        f"fewer than {wanted.agree} agreed": counts["disagreed"],
        "not asked any more": counts["unasked"],
        f"beyond --keep {wanted.keep}": counts["agreed"] - len(bank),
    }
    why = ", ".join(f"{count} {reason}" for reason, count in left_out.items() if count)
    click.echo(f"kept: {len(bank)} of {len(verdicts)} queries" + (f"; {why}" if why else ""),
               err=True)  # fmt: skip
