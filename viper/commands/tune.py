"""``viper learn workflows``, ``flags`` and ``label``: training data for an agent.

`workflows` lets the agent answer samples and keeps its episodes, `flags` says which of their
actions were effective, and `label` asks a person the same. `viper learn agent` learns from them.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

import click

from viper.commands import options as cli
from viper.commands.terminal import Advance, counter, indented, status
from viper.data.registry import training_split
from viper.data.sample import DatasetSpec
from viper.errors import UsageError
from viper.escape import for_terminal
from viper.evaluate.campaign import Budget
from viper.evaluate.evaluation import Evaluation, read_ids
from viper.prompting.exploring import step_text
from viper.reasoner import Reasoner, RunOptions
from viper.strategies.explore import ExploreSettings
from viper.strategies.explore.workflow import Workflow, step_of
from viper.tuning.agent import flags as flagging
from viper.tuning.agent.workflows import (
    WorkflowSettings,
    make_workflows,
    read_workflows,
    utilisation,
)

_LABELS = {"e": True, "i": False}


@dataclass(frozen=True, kw_only=True)
class WorkflowOptions(cli.ProfileChoice):
    """Options of ``viper learn workflows``."""

    # fmt: off
    root: Path | None = cli.given_by(cli.root_option)
    split: str | None = cli.option("--split", metavar="NAME",
        help="Split to explore. By default train, or the first whose name begins with train.")
    limit: int = cli.option("--limit", type=click.IntRange(1), default=100,
        help="Number of samples.")
    ids: str | None = cli.option("--ids", metavar="FILE|ID,ID",
        help="Explore these samples instead of drawing --limit samples.")
    seed: int = cli.given_by(cli.seed_option())
    modes: tuple[Literal["standard", "given", "discrepancy"], ...] = cli.option("--manner",
        help="Collection mode: standard; given puts the label into the prompt; discrepancy lets a "
             "verifier that knows the label question results. Repeatable, by default discrepancy.")
    checks_by: Literal["rules", "llm"] = cli.option("--checks-by", default="rules",
        help="Verifier that compares results with the label.")
    temperature: float | None = cli.option("--temperature", type=click.FloatRange(0, 2),
        help="Temperature of the agent.")
    max_turns: int | None = cli.option("--max-turns", type=click.IntRange(1, 1_000), metavar="N",
        help="Maximum number of turns for one sample.")
    workers: int = cli.option("--workers", type=click.IntRange(1, 256), default=4,
        help="Number of samples to explore at the same time.")
    budget: int | None = cli.option("--budget", type=click.IntRange(1), metavar="LLM_CALLS",
        help="Maximum number of requests to the language model, over all sessions.")
    out: Path = cli.option("--out", type=cli.OutPath(), required=True, metavar="DIR",
        help="Folder for workflows.jsonl; workflows that it holds are not made again.")
    as_json: bool = cli.option("--json", help="Print the data utilisation as JSON.")
    api: str | None = cli.given_by(cli.api_option)
    # fmt: on


@click.command()
@click.argument("name", metavar="SET")
@cli.options_as(WorkflowOptions)
def workflows(options: WorkflowOptions, name: str) -> None:
    """Let the agent answer labelled samples of SET, and keep workflows to learn from.

    The command prints the data utilisation of each mode: the share of samples whose workflow
    reaches the correct answer by its own results. Workflows that copy the label from the prompt
    are counted, but not learned from. After Ctrl-C or a crash, the same command continues.

    \b
    viper learn workflows world --split train:question --limit 300 --out runs/workflows
    viper learn workflows gqa --root gqa --profile openai --checks-by llm --out runs/gqa \\
        --manner standard --manner given --manner discrepancy
    """
    cli.quiet_libraries(options.offline)

    split = options.split or training_split(name, alike=True)
    run_options = RunOptions(
        strategy="explore",
        api=options.api,
        temperature=options.temperature,
        max_turns=options.max_turns,
    )
    evaluation = Evaluation(
        name,
        DatasetSpec(options.root, split, options.seed),
        options.limit,
        ids=read_ids(options.ids) if options.ids else (),
    )
    with status("reading samples"):
        samples = evaluation.samples()
    cancel = threading.Event()
    report: dict[str, Any] = {}
    with Reasoner(cli.open_profile(options), preload=False) as reasoner:
        settings = reasoner.components.settings
        most = options.max_turns or settings.of(ExploreSettings).max_turns
        if options.checks_by == "llm":
            most *= 2
        budget = Budget(llm_calls=options.budget, calls_an_item=most)
        for mode in options.modes or ("discrepancy",):
            making = WorkflowSettings(
                name, mode, run_options, options.seed, options.checks_by, budget
            )
            with counter(mode, len(samples)) as advance:
                tell = partial(_tell, advance, Counter())
                episodes = make_workflows(
                    reasoner,
                    samples,
                    making,
                    options.out,
                    workers=options.workers,
                    cancel=cancel,
                    on_made=tell,
                    on_kept=tell,
                )
            share, copied = utilisation(episodes)
            report[mode] = {
                "samples": len(episodes),
                "utilisation": round(share.value, 4),
                "low": round(share.low, 4),
                "high": round(share.high, 4),
                "copied": round(copied, 4),
                "outcomes": dict(Counter(episode.outcome for episode in episodes)),
            }
            if not options.as_json:
                click.echo(
                    f"{mode}: {100 * share.value:.1f} % of {len(episodes)} can be learned "
                    f"from [{100 * share.low:.1f}, {100 * share.high:.1f}], "
                    f"{100 * copied:.1f} % copied"
                )
            broken = [episode for episode in episodes if episode.error]
            if broken:
                click.echo(
                    f"{len(broken)} of {len(episodes)} samples could not be explored, as "
                    f"{broken[0].id}: {broken[0].error}",
                    err=True,
                )
            if len(episodes) < len(samples):
                click.echo(
                    f"the budget of {options.budget} requests is used up after {len(episodes)} of "
                    f"{len(samples)} samples; the same line with a higher --budget goes on",
                    err=True,
                )
    if options.as_json:
        click.echo(json.dumps(report))


def _tell(advance: Advance, outcomes: Counter[str], workflow: Workflow) -> None:
    outcomes[workflow.outcome] += 1
    advance(", ".join(f"{count} {name}" for name, count in outcomes.most_common()))


@dataclass(frozen=True, kw_only=True)
class FlagOptions(cli.ProfileChoice):
    """Options of ``viper learn flags``."""

    # fmt: off
    labels: Path | None = cli.option("--labels", type=click.Path(path_type=Path, exists=True),
        metavar="FILE.jsonl",
        help="Labels by people (viper learn label); prints precision and recall by kind of action.")
    by: Literal["rules", "llm"] = cli.option("--by", default="rules",
        help="Method that flags: rules, or the language model of the profile.")
    out: Path | None = cli.option("--out", type=cli.OutPath(), metavar="FILE.jsonl",
        help="Write the flags to this file, for viper learn agent --flags.")
    as_json: bool = cli.option("--json", help="Print one JSON object.")
    # fmt: on


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@cli.options_as(FlagOptions)
def flags(options: FlagOptions, source: Path) -> None:
    """Show which actions of the workflows in SOURCE were effective, and why others were not.

    \b
    viper learn flags runs/workflows
    viper learn flags runs/workflows --by llm --profile openai --out flags.jsonl
    viper learn agent runs/workflows --flags flags.jsonl --out runs/tuned
    """
    out = options.out
    if out is not None and out.exists():
        raise UsageError(f"{out}: exists already; name another file, or delete it")
    episodes = read_workflows(source)
    llm = cli.open_profile(options).components().llm if options.by == "llm" else None
    report = flagging.flag_report(episodes, llm, options.labels)
    if out is not None:
        flagging.write_labels(out, report.labels)
    click.echo(json.dumps(report.to_json()) if options.as_json else report.text())


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Options of ``viper learn label``."""

    # fmt: off
    out: Path = cli.option("--out", type=cli.OutPath(), required=True, metavar="FILE.jsonl",
        help="File for the labels; actions that it holds are skipped.")
    number: int = cli.option("--pass", type=click.IntRange(1, 99), default=1,
        help="Number of the pass; the majority of several passes counts.")
    limit: int | None = cli.option("--limit", type=click.IntRange(1), metavar="N",
        help="Maximum number of workflows.")
    seed: int = cli.option("--seed", type=cli.SEED, default=0,
        help="Random seed for the choice of workflows; each pass shows them in another order.")
    # fmt: on


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@cli.options_as(LabelOptions)
def label(options: LabelOptions, source: Path) -> None:
    """Label each action of the workflows in SOURCE: e for effective, i for ineffective.

    An effective action ran, gave a reliable result and led to the answer. An ineffective action
    failed, was taken back, was not used, or repeats another action. Enter takes the answer in
    brackets, and q stops; the same command continues. The flags of the rules are not shown.

    \b
    viper learn label runs/workflows --limit 100 --out labels.jsonl --pass 1
    viper learn flags runs/workflows --labels labels.jsonl
    """
    out, number, seed = options.out, options.number, options.seed
    episodes = read_workflows(source)
    Random(seed).shuffle(episodes)
    episodes = episodes[: options.limit]
    Random(f"{seed} {number}").shuffle(episodes)
    done = {entry.action for entry in flagging.read_labels(out) if entry.number == number}
    for place, workflow in enumerate(episodes, start=1):
        turns = [turn for turn in workflow.turns if turn.kind in flagging.KINDS]
        if all(flagging.action_key(workflow, turn.index) in done for turn in turns):
            continue
        click.echo(f"\n{place} of {len(episodes)}: {for_terminal(workflow.query.text)}")
        click.echo(
            f"it answered {for_terminal(str(workflow.answer))}, which is {workflow.outcome}\n"
        )
        for turn in workflow.turns:
            if turn.kind != "forced":
                click.echo(f"[{turn.index}]")
                for line in indented(step_text(step_of(turn))):
                    click.echo(line)
        for turn in turns:
            if flagging.action_key(workflow, turn.index) in done:
                continue
            reply = click.prompt(
                f"  action {turn.index}, {turn.kind}",
                type=click.Choice([*_LABELS, "q"]),
                default="e",
                show_choices=True,
            )
            if reply == "q":
                return
            name, mode, of_seed, index = flagging.action_key(workflow, turn.index)
            flagging.add_label(
                out, flagging.Label(name, index, _LABELS[reply], number, mode, of_seed)
            )
    click.echo(f"pass {number} is over: {out}")
