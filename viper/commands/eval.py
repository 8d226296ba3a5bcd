"""``viper eval``: answer a data set, score the answers and keep every result."""

from __future__ import annotations

import click

from viper.commands import options as cli
from viper.commands.run_options import EvalOptions, run_changes
from viper.errors import UsageError
from viper.plugins import need_packages
from viper.strategies import strategy


@click.command(
    "eval",
    cls=cli.SectionedCommand,
    first="root split limit strategy profile out resume seeds as_json dry_run",
)
@click.argument("name", metavar="SET", type=cli.DATA_SET)
@cli.options_as(EvalOptions)
def evaluate(options: EvalOptions, name: str) -> int:
    """Answer the samples of SET: a data set (viper data list) or your FILE.csv or FILE.jsonl.

    Every scored sample is stored at once with its trace. After Ctrl-C or a crash, the same
    command with --resume continues the run. A failed sample scores 0, and the report counts it
    under its kind of failure. The exit code is 0 when all samples are done.

    \b
    viper eval world --limit 60 --out runs/first
    viper eval refcoco --root refer --split testA --profile local --seeds 3 --out runs/testA
    viper eval nlvr --root nlvr --limit 600 --strategy vqa --out runs/vqa
    """
    plots = ("matplotlib",) if options.html else ()
    need_packages(("scipy", *plots), "viper eval")
    if options.engine == "ray":
        need_packages(("ray",), "--engine ray")
        if options.programs is not None:
            raise UsageError("--programs goes with --engine local")
    cli.quiet_libraries(options.offline)
    # Importing these takes longer than all of --help.
    from viper.commands.evaluating import evaluate_set, tell_cost
    from viper.reasoner import RunOptions

    if options.strategy is not None:
        strategy(options.strategy)
    changes = run_changes(options.settings, options.examples_bank, examples=options.examples)
    evaluation = cli.evaluation_of(
        name,
        options,
        seeds=tuple(range(options.seed, options.seed + options.seeds)),
        options=RunOptions(strategy=options.strategy, **changes),
        deadline_s=options.deadline_s,
    )
    if options.resume and options.out is None:
        raise UsageError("--resume needs --out RUN, the run to continue")
    if options.judgements is not None and options.engine == "ray":
        raise UsageError("--judgements keeps pictures here; leave out --engine ray")
    return (tell_cost if options.dry_run else evaluate_set)(evaluation, options)
