"""``viper eval``: answer a data set, judge every answer, keep everything."""

from __future__ import annotations

import click

from viper.commands.options import options_as, quiet_libraries
from viper.commands.run_options import EvalOptions, run_changes
from viper.errors import UsageError
from viper.strategies import strategy


@click.command("eval")
@click.argument("name", metavar="SET")
@options_as(EvalOptions)
def evaluate(wanted: EvalOptions, name: str) -> int:
    """Answer the samples of SET (viper data list; or a FILE.csv, FILE.jsonl of your own).

    Every judged sample is stored at once with its trace; Ctrl-C or a crash loses only what
    was under way, and the same line with --resume goes on. A sample that fails counts 0 and
    stands in the report under its kind of failure. Exit code 0 when all samples are done.

    \b
    viper eval world --limit 60 --out runs/first
    viper eval refcoco --root refer --split testA --profile local --seeds 3 --out runs/testA
    viper eval nlvr --root nlvr --limit 600 --strategy vqa --out runs/vqa
    """
    quiet_libraries(wanted.offline)
    # These cost more than all of --help.
    from viper.commands.evaluating import evaluate_set, tell_cost
    from viper.data.sample import DatasetSpec
    from viper.evaluate.evaluation import Evaluation, read_ids
    from viper.reasoner import RunOptions

    strategy(wanted.strategy)
    changes = run_changes(wanted.settings, wanted.examples_bank, examples=wanted.examples)
    evaluation = Evaluation(
        set_name=name,
        where=DatasetSpec(wanted.root, wanted.split, wanted.seed),
        limit=wanted.limit,
        ids=read_ids(wanted.ids) if wanted.ids else (),
        seeds=tuple(range(wanted.seed, wanted.seed + wanted.seeds)),
        options=RunOptions(strategy=wanted.strategy, **changes),
        deadline_s=wanted.deadline_s,
    )
    if wanted.resume and wanted.out is None:
        raise UsageError("--resume needs --out RUN: which run to go on with")
    if wanted.judgements is not None and wanted.engine == "ray":
        raise UsageError("--judgements keeps pictures here; leave out --engine ray")
    return (tell_cost if wanted.dry_run else evaluate_set)(evaluation, wanted)
