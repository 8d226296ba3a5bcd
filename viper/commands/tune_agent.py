"""``viper learn agent``: tune the agent of a profile on its successful workflows.

`agent` chooses the workflows that ended right, masks their actions into texts, tunes the model
(`tune_and_tell`, shared with `viper learn writer`) and writes model, card and profile in one step.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

import click

from viper.commands import options as cli
from viper.commands.terminal import counter
from viper.errors import UsageError
from viper.strategies.explore.workflow import Workflow
from viper.tuning.agent.flags import labels_by_index, majority, read_labels
from viper.tuning.agent.masking import MaskedWorkflow, masked
from viper.tuning.agent.training import TunedAgent, TuneSettings, losses, read_held_out, split, tune
from viper.tuning.agent.tuned_model import agent_role, model_card, tuned_of, tuned_profile
from viper.tuning.agent.workflows import read_workflows


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
    seed: int = cli.given_by(
        cli.seed_option("Random seed for new matrices and for the order of texts."))
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
    with counter(label, settings.steps) as advance:
        tune(tuned, texts, settings, out, work, _reporter(advance), held_out, too_long.append)
    if too_long:
        click.echo(
            f"{too_long[0]} of {len(texts)} {what} take more than {settings.longest} tokens and "
            "were not learned; --longest sets the bound",
            err=True,
        )
    return sum(too_long)


def _reporter(advance: Callable[[str, int], None]) -> Callable[[int, float], None]:
    reached = 0

    def report(step: int, loss: float) -> None:
        nonlocal reached
        advance(f"loss {loss:.4f}", step - reached)
        reached = step

    return report


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
    out: Path = cli.option("--out", type=cli.OutPath(), required=True, metavar="DIR",
        help="Folder for the model, its card and profile.toml.")
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

    \b
    viper learn agent runs/workflows --out runs/tuned
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
    api = profile.library().api_set(options.api or profile.document.run.api)
    flags = majority(read_labels(options.flag_file)) if options.flag_file else {}
    if flags and not any(labels_by_index(episode, flags) for episode in successes):
        raise UsageError(
            f"{options.flag_file}: flags no action of the {len(successes)} workflows in "
            f"{source}; write their flags with viper learn flags --out"
        )
    learned, kept_out = split(successes, options.held_out, options.seed)

    def texts_of(workflows: Sequence[Workflow], variant: str) -> list[MaskedWorkflow]:
        return [
            text
            for workflow in workflows
            for text in masked(
                workflow,
                api.entries(workflow.query.task),
                style=style,
                variant=variant,
                rest=options.rest,
                seed=options.seed,
                labels=labels_by_index(workflow, flags),
            )
        ]

    texts = texts_of(learned, options.variant)
    settings = options.tune_settings()
    if options.full:
        settings = replace(settings, rank=0)
    work = options.work or out.with_name(f"{out.name}.work")
    click.echo(
        f"{len(texts)} actions of {len(learned)} workflows, {len(kept_out)} more held out", err=True
    )
    part = out.with_name(f"{out.name}.new")
    shutil.rmtree(part, ignore_errors=True)  # an earlier run stopped after its last step
    held_out = texts_of(kept_out, "masking")
    left_out = tune_and_tell(
        "tuning", tuned, texts, settings, part / "model", work, held_out, "actions"
    )
    data = {
        "variant": options.variant,
        "rest": options.rest,
        "actions": len(texts) - left_out,
        "too long": left_out,
        "flagged by": str(options.flag_file) if options.flag_file else "rules",
    }
    card = model_card(
        out.name,
        tuned,
        settings,
        learned,
        data,
        losses(work),
        read_held_out(work),
        cli.command_line(click.get_current_context()),
    )
    (part / "README.md").write_text(card, encoding="utf-8")
    is_adapter = (part / "model" / "adapter_config.json").is_file()
    text = tuned_profile(profile, out.name, out / "model", is_adapter, api=options.api)
    (part / "profile.toml").write_text(text, encoding="utf-8")
    part.replace(out)
    click.echo(f"{out / 'profile.toml'}")
