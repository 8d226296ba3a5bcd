"""``viper learn feedback``: say what the right answer was."""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from pathlib import Path

import click

from viper.commands.options import option, options_as, seed_field
from viper.commands.terminal import echo_json, echo_table, note
from viper.errors import UsageError
from viper.evaluate.runs import feedback as comments
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult


@dataclass(frozen=True, kw_only=True)
class FeedbackOptions:
    """Options of ``viper learn feedback``."""

    # fmt: off
    seed: int = seed_field("Seed of the answer to comment on.")
    answer: str | None = option("--answer", metavar="TEXT",
        help="Right answer: words, the number of an option from 0, a box as x0,y0,x1,y1 in "
             "pixels from the top-left corner, or whether an edit or tags were right: yes, no.")
    comment: str | None = option("--comment", metavar="TEXT", help="Comment on what was wrong.")
    as_json: bool = option("--json", help="Print the stored feedback as JSON lines.")
    # fmt: on


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("sample", required=False)
@options_as(FeedbackOptions)
def feedback(options: FeedbackOptions, run: Path, sample: str | None) -> None:
    """Store the right answer for SAMPLE of RUN, or show the feedback without --answer, --comment.

    viper learn --from RUN learns from right answers and the comments beside them, from a comment
    alone or a no only with --reflector llm. The folder of the run holds the feedback in
    feedback.jsonl. Scores and reports of the run do not change; they use the labels of the set.

    \b
    viper learn feedback runs/first SAMPLE --answer "blue"
    viper learn feedback runs/first SAMPLE --comment "it took the shadow for the ball"
    viper learn feedback runs/first
    """
    with RunStore.read(run) as store:
        if options.answer is None and options.comment is None:
            remarks = comments.read_feedback(run)
            if sample is not None:
                row = _row(store, sample, options.seed)
                key = (row.sample_id, row.seed)
                remarks = [each for each in remarks if (each.sample_id, each.seed) == key]
            if options.as_json:
                for remark in remarks:
                    echo_json(dataclasses.asdict(remark))
            elif not remarks:
                note("no feedback yet")
            else:
                rows = []
                for each in remarks:
                    right = "-" if each.answer is None else each.answer
                    rows.append((each.given, each.sample_id, each.seed, right, each.comment or "-"))
                echo_table(("given", "sample", "seed", "right is", "comment"), rows)
            return
        if sample is None:
            raise UsageError("which sample? give its id after RUN; viper view shows the ids")
        row = _row(store, sample, options.seed)
    answer = (
        None
        if options.answer is None
        else comments.answer_from(options.answer, row.task, row.options)
    )
    remark = comments.Feedback(row.sample_id, row.seed, answer, options.comment or "")
    comments.add_feedback(run, remark)
    note(f"noted for {row.sample_id}")
    if answer is None:
        note(comments.COMMENT_ALONE)


def _row(store: RunStore, sample: str, seed: int) -> SampleResult:
    row = store.row(sample, seed)
    if row is None:
        sample_ids = [name for name, under in store.done() if under == seed]
        near = difflib.get_close_matches(sample, sample_ids, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"{store.folder}: no sample {sample!r} under seed {seed}{hint}")
    return row
