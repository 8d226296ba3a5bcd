"""``viper learn agent``: a profile's agent, tuned on what was of use in its workflows."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

import click

from viper.commands.options import (
    OutPath,
    ProfileChoice,
    api_option,
    command_line,
    given_by,
    open_profile,
    option,
    options_as,
    seed_option,
)
from viper.commands.terminal import counter
from viper.errors import EXIT_OK, UsageError
from viper.learning.flags import majority, read_labels, said_of
from viper.learning.model_card import model_card
from viper.learning.workflows import read_workflows
from viper.profiles.edit import tuned_of, tuned_profile
from viper.tuning.agent.masking import Masked, masked
from viper.tuning.agent.training import TuneSettings, losses, read_held_out, split, tune
from viper.tuning.agent.workflow import Workflow


@dataclass(frozen=True, kw_only=True)
class AgentOptions(ProfileChoice):
    """The options of ``viper learn agent``."""

    # fmt: off
    variant: Literal["masking", "sft", "random", "rethink"] = option("--variant", default="masking",
        help="Which actions have to be produced: the effective ones, all of them, as many at "
             "random, the effective ones with the thoughts that take results back.")
    rest: Literal["before", "all"] = option("--rest", default="before",
        help="What is read of the workflow: what went before, or all but the action.")
    manners: tuple[Literal["standard", "given", "discrepancy"], ...] = option("--manner",
        help="Of the workflows: standard, given, discrepancy; by default all there are.")
    flag_file: Path | None = option("--flags", type=click.Path(path_type=Path, exists=True),
        metavar="FILE.jsonl",
        help="Which actions are effective, by viper learn flags --out or viper learn label; the "
             "rules flag those that it does not speak of.")
    steps: int = option("--steps", type=click.IntRange(1), default=300, help="Of the optimiser.")
    batch: int = option("--batch", type=click.IntRange(1), default=16, help="Rows of a pass.")
    accumulate: int = option("--accumulate", type=click.IntRange(1), default=1,
        help="Passes of a step.")
    learning_rate: float = option("--learning-rate", type=click.FloatRange(0, min_open=True),
        default=5e-4)
    rank: int = option("--rank", type=click.IntRange(1), default=32,
        help="Of a fresh adapter's matrices; an adapter of the profile goes on as it is.")
    full: bool = option("--full", help="Tune all weights; for small models.")
    longest: int = option("--longest", type=click.IntRange(16), default=2048, metavar="TOKENS",
        help="Longer texts are left out.")
    held_out: float = option("--held-out", type=click.FloatRange(0, 0.9), default=0.1,
        metavar="SHARE",
        help="Of the workflows; the card tells the loss of their effective actions before and "
             "after.")
    seed: int = given_by(seed_option("Of fresh matrices and of the order of texts."))
    out: Path = option("--out", type=OutPath(), required=True, metavar="DIR",
        help="Takes the model, its card and profile.toml.")
    work: Path | None = option("--work", type=OutPath(), metavar="DIR",
        help="Checkpoints; by default DIR.work. A tuning found there goes on.")
    api: str | None = given_by(api_option)
    # fmt: on


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@options_as(AgentOptions)
def agent(options: AgentOptions, source: Path) -> int:
    """Tune the profile's agent on the workflows in SOURCE that ended right.

    The agent is the profile's [explorer], else its [llm]; it has to be loaded by transformers. An
    adapter that it is used with is trained on; else fresh low-rank matrices are, or with --full all
    weights. After Ctrl-C or a crash the same line goes on from the last checkpoint, with the losses
    that it would have had.

    \b
    viper learn agent runs/made --out runs/tuned
    viper run photo.png "…" --strategy explore --profile runs/tuned/profile.toml
    """
    out = options.out
    if out.exists():
        raise UsageError(f"{out}: is there already; give another folder, or delete that one")
    episodes = read_workflows(source)
    modes = options.manners or {episode.manner for episode in episodes}
    successes = [
        episode for episode in episodes if episode.outcome == "right" and episode.manner in modes
    ]
    if not successes:
        raise UsageError(
            f"{source}: none of {len(episodes)} workflows ended right in these modes; "
            "there is nothing to learn from"
        )
    profile = open_profile(options)
    tuned, style = tuned_of(profile)
    library = profile.library()
    api = library.api_set(options.api or profile.document.run.api)
    flags = majority(read_labels(options.flag_file)) if options.flag_file else {}
    if flags and not any(said_of(episode, flags) for episode in successes):
        raise UsageError(
            f"{options.flag_file}: speaks of no action of the {len(successes)} workflows that are "
            "learned from; give the flags of these, by viper learn flags --out"
        )
    learned, kept_out = split(successes, options.held_out, options.seed)

    def texts_of(workflows: Sequence[Workflow], variant: str) -> list[Masked]:
        return [
            text
            for one in workflows
            for text in masked(
                one,
                api.entries(one.query.task),
                style=style,
                variant=variant,
                rest=options.rest,
                seed=options.seed,
                said=said_of(one, flags),
            )
        ]

    texts = texts_of(learned, options.variant)
    names = {episode.name for episode in fields(TuneSettings)} & vars(options).keys()
    settings = TuneSettings(**{name: getattr(options, name) for name in names})
    if options.full:
        settings = replace(settings, rank=0)
    work = options.work or out.with_name(f"{out.name}.work")
    click.echo(
        f"{len(texts)} actions of {len(learned)} workflows, {len(kept_out)} more held out", err=True
    )
    part = out.with_name(f"{out.name}.new")
    shutil.rmtree(part, ignore_errors=True)  # cut off after its last step, which a checkpoint holds
    with counter("tuning", settings.steps) as advance:
        reached = 0

        def report(step: int, loss: float) -> None:
            nonlocal reached
            advance(f"loss {loss:.4f}", step - reached)
            reached = step

        held_out = texts_of(kept_out, "masking")
        too_long: list[int] = []
        tune(tuned, texts, settings, part / "model", work, report, held_out, too_long.append)
    if too_long:
        click.echo(
            f"{too_long[0]} of {len(texts)} actions take more than {settings.longest} tokens and "
            "were not learned; --longest sets the bound",
            err=True,
        )
    data = {
        "variant": options.variant,
        "rest": options.rest,
        "actions": len(texts) - sum(too_long),
        "too long": sum(too_long),
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
        command_line(click.get_current_context()),
    )
    (part / "README.md").write_text(card, encoding="utf-8")
    is_adapter = (part / "model" / "adapter_config.json").is_file()
    text = tuned_profile(profile, out.name, out / "model", is_adapter, options.api)
    (part / "profile.toml").write_text(text, encoding="utf-8")
    part.replace(out)
    click.echo(f"{out / 'profile.toml'}")
    return EXIT_OK
