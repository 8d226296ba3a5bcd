"""``viper learn workflows``, ``flags``, ``label`` and ``agent``: an agent learns from its work.

`workflows` lets the agent answer samples and keeps its episodes, `flags` says which of their
actions were effective, and `label` asks a person the same. `agent` learns from them; its options
and `tune_and_tell` also serve ``viper learn writer``.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

import click

from viper.commands import options as cli
from viper.commands.evaluating import ProfileRecipe
from viper.commands.on_ray import choice_of, opened_engine
from viper.commands.run_options import RayOptions
from viper.commands.terminal import Advance, counter, indented, note, status
from viper.data.registry import training_split
from viper.errors import UsageError
from viper.escape import for_terminal
from viper.evaluate.campaign import Budget
from viper.evaluate.engines.ray_actor import Recipe
from viper.evaluate.engines.sample_runner import Work
from viper.evaluate.evaluation import Evaluation
from viper.prompting.exploring import step_text
from viper.reasoner import Reasoner, RunOptions
from viper.storage.files import write_file
from viper.strategies.explore import ExploreSettings
from viper.strategies.explore.workflow import Workflow, step_of
from viper.strategies.prompts import names_for
from viper.tuning.agent import flags as flagging
from viper.tuning.agent.masking import MaskedWorkflow, masked
from viper.tuning.agent.training import (
    TunedAgent,
    TuneSettings,
    is_first,
    losses,
    read_held_out,
    split,
    tune,
)
from viper.tuning.agent.tuned_model import agent_role, model_card, tuned_of, tuned_profile
from viper.tuning.agent.workflows import (
    WorkflowSettings,
    make_workflows,
    read_workflows,
    utilisation,
    workflow_work,
)

_LABELS = {"e": True, "i": False}


@dataclass(frozen=True, kw_only=True)
class WorkflowOptions(RayOptions, cli.ProfileChoice):
    """Options of ``viper learn workflows``."""

    # fmt: off
    root: Path | None = cli.given_by(cli.root_option)
    split: str | None = cli.option("--split", metavar="NAME",
        help="Split to explore. By default train, or the first whose name begins with train.")
    limit: int = cli.option("--limit", type=click.IntRange(1), default=100,
        help="Number of samples.")
    ids: str | None = cli.option("--ids", metavar="FILE|ID,ID",
        help="Explore these samples instead of drawing --limit samples.")
    seed: int = cli.seed_field()
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
        help="Number of samples to explore at the same time; with --engine ray, in each actor.")
    budget: int | None = cli.option("--budget", type=click.IntRange(1), metavar="LLM_CALLS",
        help="Maximum number of requests to the language model, over all sessions.")
    out: Path = cli.option("--out", type=cli.OutPath(), required=True, metavar="DIR",
        help="Folder for workflows.jsonl; workflows that it holds are not made again.")
    as_json: bool = cli.option("--json", help="Print the data utilisation as JSON.")
    api: str | None = cli.given_by(cli.api_option)
    # fmt: on


@click.command()
@click.argument("name", metavar="SET", type=cli.DATA_SET)
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
    changes = {name: getattr(options, name) for name in ("api", "temperature", "max_turns")}
    run_options = RunOptions(strategy="explore", **changes)
    source = options.split or training_split(name, alike=True)
    evaluation = cli.evaluation_of(name, options, source)
    with status("reading samples"):
        samples = evaluation.samples()
    report: dict[str, Any] = {}
    profile = cli.open_profile(options)
    recipe = ProfileRecipe(choice_of(cli.ProfileChoice, options))
    with Reasoner(profile, preload=False) as reasoner:
        settings = reasoner.components.settings
        most = options.max_turns or settings.of(ExploreSettings).max_turns
        if options.checks_by == "llm":
            most *= 2
        budget = Budget(llm_calls=options.budget, calls_an_item=most)
        for mode in options.modes or ("discrepancy",):
            making = WorkflowSettings(
                name, mode, run_options, options.seed, options.checks_by, budget
            )
            there = partial(_work_there, recipe, evaluation, making, options.workers)
            with counter(mode, len(samples)) as advance:
                tell = partial(_tell, advance, Counter())
                episodes = make_workflows(
                    reasoner,
                    samples,
                    making,
                    options.out,
                    workers=options.workers,
                    on_made=tell,
                    on_kept=tell,
                    opened=partial(opened_engine, there, options, profile.document.threads),
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
                note(
                    f"{len(broken)} of {len(episodes)} samples could not be explored, as "
                    f"{broken[0].id}: {broken[0].error}"
                )
            if len(episodes) < len(samples):
                note(
                    f"the budget of {options.budget} requests is used up after {len(episodes)} of "
                    f"{len(samples)} samples; the same line with a higher --budget goes on"
                )
    if options.as_json:
        click.echo(json.dumps(report))


def _work_there(
    recipe: Recipe, evaluation: Evaluation, making: WorkflowSettings, workers: int
) -> Work:
    """Return what an actor explores."""
    reasoner, _ = recipe()
    return workflow_work(reasoner, evaluation.samples(), making, workers)


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
        answer = for_terminal(str(workflow.answer))
        click.echo(f"\n{place} of {len(episodes)}: {for_terminal(workflow.query.text)}")
        click.echo(f"it answered {answer}, which is {workflow.outcome}\n")
        for turn in workflow.turns:
            if turn.kind != "forced":
                click.echo(f"[{turn.index}]")
                for line in indented(step_text(step_of(turn))):
                    click.echo(line)
        for turn in turns:
            if flagging.action_key(workflow, turn.index) in done:
                continue
            choices = click.Choice([*_LABELS, "q"])
            reply = click.prompt(f"  action {turn.index}, {turn.kind}", type=choices, default="e")
            if reply == "q":
                return
            name, mode, of_seed, index = flagging.action_key(workflow, turn.index)
            judged = flagging.Label(name, index, _LABELS[reply], number, mode, of_seed)
            flagging.add_label(out, judged)
    click.echo(f"pass {number} is over: {out}")


@dataclass(frozen=True, kw_only=True)
class TuningOptions(cli.ProfileChoice):
    """Profile, and how its model is tuned."""

    # fmt: off
    steps: int = cli.option("--steps", type=click.IntRange(1), default=300,
        help="Number of optimiser steps.")
    batch: int = cli.option("--batch", type=click.IntRange(1), default=16,
        help="Number of texts in a forward pass.")
    accumulate: int = cli.option("--accumulate", type=click.IntRange(1), default=1,
        help="Number of forward passes for one optimiser step.")
    learning_rate: float = cli.option("--learning-rate", type=click.FloatRange(0, min_open=True),
        default=5e-4, help="Learning rate of the optimiser.")
    rank: int = cli.option("--rank", type=click.IntRange(1), default=32,
        help="Rank of the matrices of a new adapter; an adapter of the profile keeps its rank.")
    longest: int = cli.option("--longest", type=click.IntRange(16), default=2048, metavar="TOKENS",
        help="Leave out texts with more tokens than this.")
    seed: int = cli.seed_field("Random seed for new matrices and for the order of texts.")
    # fmt: on

    def tune_settings(self) -> TuneSettings:
        """Return the settings of these options."""
        names = {field.name for field in fields(TuneSettings)} & vars(self).keys()
        return TuneSettings(**{name: getattr(self, name) for name in names})


def tune_and_tell(
    label: str,
    tuned: TunedAgent,
    texts: Sequence[MaskedWorkflow],
    settings: TuneSettings,
    out: Path,
    work: Path,
    held_out: Sequence[MaskedWorkflow] = (),
    what: str = "texts",
) -> int:
    """Tune as :func:`viper.tuning.agent.training.tune`, show progress, return the texts left out.

    Args:
        label: what stands before the progress.
        what: the texts, in the line about those that are too long.
    """
    too_long: list[int] = []
    reached = 0
    with counter(label, settings.steps) as advance:

        def report(step: int, loss: float) -> None:
            nonlocal reached
            advance(f"loss {loss:.4f}", step - reached)
            reached = step

        tune(tuned, texts, settings, out, work, report, held_out, too_long.append)
    if too_long:
        note(
            f"{too_long[0]} of {len(texts)} {what} take more than {settings.longest} tokens and "
            "were not learned; --longest sets the bound"
        )
    return sum(too_long)


@dataclass(frozen=True, kw_only=True)
class AgentOptions(TuningOptions):
    """Options of ``viper learn agent``."""

    # fmt: off
    variant: Literal["masking", "sft", "random", "rethink"] = cli.option("--variant",
        default="masking",
        help="Actions to train on: masking takes the effective ones, sft all, random an equal "
             "number at random, rethink the effective ones and the thoughts that reject results.")
    rest: Literal["before", "effective", "all"] = cli.option("--rest", default="before",
        help="Part of the workflow before each action: the turns before it, the effective ones of "
             "these, or all other turns.")
    modes: tuple[Literal["standard", "given", "discrepancy"], ...] = cli.option("--manner",
        help="Use only workflows of this collection mode; repeatable. By default all modes.")
    flag_file: Path | None = cli.option("--flags", type=click.Path(path_type=Path, exists=True),
        metavar="FILE.jsonl",
        help="File that flags effective actions (viper learn flags --out, viper learn label); "
             "rules flag the actions that it lacks.")
    full: bool = cli.option("--full",
        help="Tune all weights instead of an adapter; for small models.")
    held_out: float = cli.option("--held-out", type=click.FloatRange(0, 0.9), default=0.1,
        metavar="SHARE",
        help="Share of workflows to hold out; the model card reports the loss on their effective "
             "actions before and after.")
    out: Path = cli.out_field("DIR", "Folder for the model, its card and profile.toml.")
    work: Path | None = cli.option("--work", type=cli.OutPath(), metavar="DIR",
        help="Folder for checkpoints. By default DIR.work; tuning continues from there.")
    api: str | None = cli.given_by(cli.api_option)
    # fmt: on


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@cli.options_as(AgentOptions)
def agent(options: AgentOptions, source: Path) -> None:
    """Tune the profile's agent on the workflows in SOURCE that ended with the correct answer.

    The agent is the profile's [explorer], or its [llm] if the profile has no explorer. Its backend
    must be transformers. Training continues the adapter of the agent, or starts a new low-rank
    adapter, or changes all weights with --full. After Ctrl-C or a crash, the same command continues
    from the last checkpoint and reaches the same losses.

    Each process of torchrun or accelerate takes --batch texts; the first one writes.

    \b
    viper learn agent runs/workflows --out runs/tuned
    torchrun --nproc-per-node 4 -m viper learn agent runs/workflows --out runs/tuned
    viper run photo.png "…" --strategy explore --profile runs/tuned/profile.toml
    """
    out = options.out
    if out.exists():
        raise UsageError(f"{out}: exists already; name another folder, or delete it")
    episodes = read_workflows(source)
    modes = options.modes or {episode.manner for episode in episodes}
    successes = [each for each in episodes if each.outcome == "right" and each.manner in modes]
    if not successes:
        raise UsageError(
            f"{source}: none of {len(episodes)} workflows ended right in these modes; "
            "there is nothing to learn from"
        )
    profile = cli.open_profile(options)
    tuned, style = tuned_of(profile, agent_role(profile))
    agent = profile.components()
    flags = flagging.majority(flagging.read_labels(options.flag_file)) if options.flag_file else {}
    if flags and not any(flagging.labels_by_index(episode, flags) for episode in successes):
        raise UsageError(
            f"{options.flag_file}: flags no action of the {len(successes)} workflows in "
            f"{source}; write their flags with viper learn flags --out"
        )
    learned, kept_out = split(successes, options.held_out, options.seed)

    def texts_of(workflows: Sequence[Workflow], variant: str) -> list[MaskedWorkflow]:
        return [
            text
            for workflow in workflows
            for names, listing in [names_for(agent, workflow.query, agent.settings)]
            for text in masked(
                workflow,
                names,
                listing=listing,
                style=style,
                variant=variant,
                rest=options.rest,
                seed=options.seed,
                labels=flagging.labels_by_index(workflow, flags),
            )
        ]

    texts, settings = texts_of(learned, options.variant), options.tune_settings()
    if options.full:
        settings = replace(settings, rank=0)
    work = options.work or out.with_name(f"{out.name}.work")
    note(f"{len(texts)} actions of {len(learned)} workflows, {len(kept_out)} more held out")
    part = out.with_name(f"{out.name}.new")
    shutil.rmtree(part, ignore_errors=True)  # an earlier run stopped after its last step
    held_out, model = texts_of(kept_out, "masking"), part / "model"
    left_out = tune_and_tell("tuning", tuned, texts, settings, model, work, held_out, "actions")
    if not is_first():
        return
    data = {
        "variant": options.variant,
        "rest": options.rest,
        "actions": len(texts) - left_out,
        "too long": left_out,
        "flagged by": str(options.flag_file) if options.flag_file else "rules",
    }
    command = cli.command_line(click.get_current_context())
    results = (losses(work), read_held_out(work))
    card = model_card(out.name, tuned, settings, learned, data, *results, command)
    write_file(part / "README.md", card)
    is_adapter = (model / "adapter_config.json").is_file()
    text = tuned_profile(profile, out.name, out / "model", is_adapter, api=options.api)
    write_file(part / "profile.toml", text)
    part.replace(out)
    click.echo(f"{out / 'profile.toml'}")
