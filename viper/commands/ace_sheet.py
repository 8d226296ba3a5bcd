"""``viper ace sheet``: examples without labels, from a few sentences about a data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.option_groups import options, root_option, seed_option, workers_option
from viper.commands.options import api_option, open_profile, profile_options, quiet_libraries
from viper.commands.out_path import OutPath
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError

if TYPE_CHECKING:
    from viper.ace.select import Candidate, Verdict
    from viper.data.sample import Sample
    from viper.evaluate.engines.runner import Ended
    from viper.learning.sheet import Drawing
    from viper.profiles.wiring import Profile
    from viper.reasoner import Reasoner
    from viper.schema import Example, Query

QUERIES = 50
TASKS = ("ground", "question", "choice")


_of_the_queries = options(
    click.option("--task", type=click.Choice(TASKS), required=True,
                 help="What the queries ask for."),
    click.option("--queries", type=click.IntRange(1, 10_000), metavar="N",
                 help=f"Queries to ask for; by default {QUERIES}, or all of --queries-from."),
    click.option("--queries-from", type=click.Path(path_type=Path), metavar="FILE",
                 help="Queries of your own, one a line, options after vertical bars; or JSON "
                      "lines with query and options. No query is asked for then: the way for "
                      "language models that only write programs, as that of the profile "
                      "embedded."),
)  # fmt: skip


_of_the_media = options(
    click.option("--data", default="world", show_default=True, metavar="SET",
                 help="Whose media are asked about; its labels are not used."),
    click.option("--split", metavar="NAME", help="By default train."),
    root_option,
    click.option("--media", type=click.IntRange(1, 100), default=3, show_default=True,
                 help="Pictures or clips that each query is tried on, at random."),
    seed_option("Chooses media, and is the first seed of sampling."),
)  # fmt: skip


_of_the_programs = options(
    click.option("--programs", type=click.IntRange(2, 100), default=5, show_default=True,
                 help="Programs drawn for each query and medium."),
    click.option("--temperature", type=click.FloatRange(0, 2, min_open=True), default=0.4,
                 show_default=True, help="Of the programs."),
    click.option("--agree", type=click.IntRange(2, 100), default=3, show_default=True,
                 help="A program is kept if it is one of so many that gave the same answer."),
    click.option("--keep", type=click.IntRange(1, 10_000), default=16, show_default=True,
                 help="Examples kept."),
    click.option("--budget", type=click.IntRange(1), metavar="LLM_CALLS",
                 help="Requests to the language model at most, over all sessions."),
    workers_option("Programs on their way at once."),
    click.option("--out", type=OutPath(), required=True, metavar="BANK",
                 help="The bank to write."),
    click.option("--work", type=OutPath(), metavar="DIR",
                 help="Where queries and answers are kept; by default BANK.sheet."),
)  # fmt: skip


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
    given: dict[str, Any]

    @property
    def work(self) -> Path:
        out: Path = self.given["out"]
        return self.given["work"] or out.with_name(out.name + ".sheet")


@click.command()
@click.argument("sheet", type=click.Path(path_type=Path), required=False, metavar="[SHEET.txt]")
@_of_the_queries
@_of_the_media
@_of_the_programs
@api_option
@profile_options
def sheet(**given: Any) -> int:
    """Make a bank without any label, from what SHEET.txt tells about a data set.

    The profile's language model thinks up queries that would suit the set, and answers each
    several times, zero-shot, about a few of the set's media. Where enough programs give the same
    answer, one of them is kept: agreement takes the place of a label. What the model gets wrong
    again and again it also agrees on, so look at the bank before you trust it.

    Queries and answers are stored at once in BANK.sheet: after Ctrl-C or a crash the same line
    goes on where it stopped, and with another --agree or --keep it chooses anew without asking
    any model. Exit code 1 where nothing was kept.

    \b
    viper ace sheet sheet.txt --data gqa --root gqa --task question --profile local --out bank.jsonl
    viper ace sheet --queries-from queries.txt --data world --task ground --out bank.jsonl
    """
    _check(given)
    quiet_libraries(given["offline"])
    from viper.commands.progress import status

    told, drawing = _told(given), _drawing(given)
    profile = open_profile(given).without_examples()
    with status("reading the set"):
        plan = _Plan(drawing, drawing.pool(), profile, told, given)
    from viper.reasoner import Reasoner

    with Reasoner(plan.profile, preload=False) as reasoner, _going_on():
        queries, asked = _queries(plan, reasoner)
        if asked and asked == given["budget"]:  # more queries may come: no run begins with these
            _tell_spent(asked)
            return EXIT_FAILED
        found = _drawn(plan, reasoner, queries, asked)
    return _chosen(given, found)


def _check(given: dict[str, Any]) -> None:
    if given["sheet"] is None and given["queries_from"] is None:
        raise UsageError("no data sheet; name its file, or give queries with --queries-from FILE")
    if given["agree"] > given["programs"]:
        raise UsageError(
            f"--agree {given['agree']} of --programs {given['programs']}: no query can reach it"
        )


@contextmanager
def _going_on() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        click.echo("\nstopped; to go on: the same line again", err=True)
        raise


def _drawing(given: dict[str, Any]) -> Drawing:
    from viper.data.sample import Where
    from viper.learning.sheet import Drawing

    where = Where(given["root"], given["split"], given["seed"])
    drawn = (given["media"], given["programs"], given["temperature"])
    return Drawing(given["data"], given["task"], where, *drawn)


def _told(given: dict[str, Any]) -> str | list[Query]:
    from viper.ace.generate import read_query_file, read_sheet

    path = given["queries_from"]
    if path is None:
        return read_sheet(given["sheet"])
    queries = read_query_file(path, given["task"])[: given["queries"]]
    click.echo(f"queries: {len(queries)} of {path}", err=True)
    return queries


def _queries(plan: _Plan, reasoner: Reasoner) -> tuple[list[Query], int]:
    """The queries, and how many requests they took."""
    from viper.ace.generate import QueryStore, Request, generate
    from viper.commands.progress import status

    if not isinstance(plan.told, str):
        return plan.told, 0
    given, llm = plan.given, reasoner.components.llm
    only_videos = {sample.media for sample in plan.pool} == {"video"}
    request = Request(
        plan.told,
        given["task"],
        given["queries"] or QUERIES,
        given["seed"],
        "videos" if only_videos else "pictures",
    )
    with status("asking for queries"):
        store = QueryStore(plan.work, request, llm.model_id)
        found = generate(llm, request, store.load(), most=given["budget"], on_reply=store.save)
    if not found.queries:
        raise UsageError(
            f"{llm.model_id} wrote no usable query in {found.replies} replies; a model that only "
            "writes programs needs queries of your own: --queries-from FILE"
        )
    wanted = f"{len(found.queries)} of {request.count} wanted"
    click.echo(f"queries: {wanted}, in {found.replies} replies", err=True)
    return list(found.queries), found.replies


def _drawn(
    plan: _Plan, reasoner: Reasoner, queries: Sequence[Query], asked: int
) -> list[list[list[Candidate]]]:
    """Draws the programs that the store lacks and gives all that it holds."""
    from viper.commands.eval_progress import shown
    from viper.commands.progress import status
    from viper.evaluate.engines.answering import Answering
    from viper.evaluate.engines.local import Bounds, LocalEngine
    from viper.evaluate.engines.runner import Budget, bound_arenas, run
    from viper.evaluate.evaluation import manifest_of
    from viper.evaluate.metrics import metric
    from viper.evaluate.runs.store import RunStore
    from viper.learning.mining import Source, work_folder
    from viper.learning.sheet import METRIC, drawn, items, tried_on
    from viper.schema import to_json

    bound_arenas()
    given, components = plan.given, reasoner.components
    evaluation, workers = plan.drawing.evaluation(), given["workers"]
    tried = tried_on(queries, plan.pool, plan.drawing)
    todo, samples = items(tried, plan.drawing), [one.sample for one in tried]
    api = components.settings.api
    with status("loading models"):
        document = to_json(plan.profile.document)
        manifest = manifest_of(evaluation, samples, reasoner, document, {"workers": workers})
    answering = Answering.with_cache(reasoner, metric(METRIC), evaluation.options, workers + 8)
    engine = LocalEngine(answering, Bounds(workers))
    budget = Budget(llm_calls=None if given["budget"] is None else given["budget"] - asked)
    folder = work_folder(given["out"], api, plan.work)
    with RunStore.resume(folder, replace(manifest, metric=METRIC)) as store:
        with shown(len(todo), len(store.done())) as progress:
            ended = run(engine, todo, store, budget=budget,
                        on_done=lambda _, so_far: progress(so_far))  # fmt: skip
        source = Source(evaluation, api, components.library, components.llm.model_id)
        found = drawn(store.rows(), tried, source)
    _tell_ended(ended, given["budget"])
    return found


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


def _chosen(given: dict[str, Any], found: Sequence[Sequence[Sequence[Candidate]]]) -> int:
    """Keeps what programs agree on, and says why the rest was left out."""
    from viper.ace.bank import write_bank
    from viper.ace.select import agreed, best_first, kept

    verdicts = [agreed(media, given["agree"]) for media in found]
    examples = [one.example for one in verdicts if one.example is not None]
    bank = kept(best_first(examples), given["keep"])
    _tell(given, verdicts, bank)
    if not bank:
        click.echo("viper: no program to keep; the bank is not written", err=True)
        return EXIT_FAILED
    write_bank(given["out"], bank)
    click.echo(f"{given['out']}: {len(bank)} examples")
    return EXIT_OK


def _tell(given: dict[str, Any], verdicts: Sequence[Verdict], bank: Sequence[Example]) -> None:
    counts = Counter(verdict.why for verdict in verdicts)
    left_out = {
        "no program gave an answer": counts["unanswered"],
        f"fewer than {given['agree']} agreed": counts["disagreed"],
        "not asked any more": counts["unasked"],
        f"beyond --keep {given['keep']}": counts["agreed"] - len(bank),
    }
    why = ", ".join(f"{count} {reason}" for reason, count in left_out.items() if count)
    click.echo(f"kept: {len(bank)} of {len(verdicts)} queries" + (f"; {why}" if why else ""),
               err=True)  # fmt: skip
