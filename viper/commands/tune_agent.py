"""``viper tune agent``: a profile's agent, tuned on what was of use in its workflows."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.option_groups import options, seed_option
from viper.commands.options import api_option, open_profile, profile_options, quiet_libraries
from viper.commands.out_path import OutPath
from viper.commands.repeating import command_line
from viper.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from viper.tuning.agent.masking import Masked
    from viper.tuning.agent.workflow import Workflow

_of_the_texts = options(
    click.option("--variant", type=click.Choice(["masking", "sft", "random", "rethink"]),
                 default="masking", show_default=True,
                 help="Which actions have to be produced: the effective ones, all of them, as many "
                      "at random, the effective ones with the thoughts that take results back."),
    click.option("--rest", type=click.Choice(["before", "all"]), default="before",
                 show_default=True,
                 help="What is read of the workflow: what went before, or all but the action."),
    click.option("--manner", "manners", multiple=True,
                 type=click.Choice(["standard", "given", "discrepancy"]),
                 help="Of the workflows: standard, given, discrepancy; by default all there are."),
    click.option("--flags", "flag_file", type=click.Path(path_type=Path, exists=True),
                 metavar="FILE.jsonl",
                 help="Which actions are effective, by viper tune flags --out or viper tune label; "
                      "the rules flag those that it does not speak of."),
)  # fmt: skip

_of_the_tuning = options(
    click.option("--steps", type=click.IntRange(1), default=300, show_default=True,
                 help="Of the optimiser."),
    click.option("--batch", type=click.IntRange(1), default=16, show_default=True,
                 help="Rows of a pass."),
    click.option("--accumulate", type=click.IntRange(1), default=1, show_default=True,
                 help="Passes of a step."),
    click.option("--learning-rate", type=click.FloatRange(0, min_open=True), default=5e-4,
                 show_default=True),
    click.option("--rank", type=click.IntRange(1), default=32, show_default=True,
                 help="Of a fresh adapter's matrices; an adapter of the profile goes on as it is."),
    click.option("--full", is_flag=True, help="Tune all weights; for small models."),
    click.option("--longest", type=click.IntRange(16), default=2048, show_default=True,
                 metavar="TOKENS", help="Longer texts are left out."),
    click.option("--held-out", type=click.FloatRange(0, 0.9), default=0.1, show_default=True,
                 metavar="SHARE", help="Of the workflows; the card tells the loss of their "
                                       "effective actions before and after."),
    seed_option("Of fresh matrices and of the order of texts."),
    click.option("--out", type=OutPath(), required=True, metavar="DIR",
                 help="Takes the model, its card and profile.toml."),
    click.option("--work", type=OutPath(), metavar="DIR",
                 help="Checkpoints; by default DIR.work. A tuning found there goes on."),
)  # fmt: skip


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@_of_the_texts
@_of_the_tuning
@api_option
@profile_options
@click.pass_context
def agent(context: click.Context, source: Path, **given: Any) -> int:
    """Tune the profile's agent on the workflows in SOURCE that ended right.

    The agent is the profile's [explorer], else its [llm]; it has to be loaded by transformers. An
    adapter that it is used with is trained on; else fresh low-rank matrices are, or with --full all
    weights. After Ctrl-C or a crash the same line goes on from the last checkpoint, with the losses
    that it would have had.

    \b
    viper tune agent runs/made --out runs/tuned
    viper run photo.png "…" --strategy explore --profile runs/tuned/profile.toml
    """
    quiet_libraries(given["offline"])
    from viper.commands.progress import counter
    from viper.learning.flags import majority, read_labels, said_of
    from viper.learning.model_card import model_card
    from viper.learning.workflows import read_workflows
    from viper.profiles.edit import tuned_of, tuned_profile
    from viper.tuning.agent.masking import masked
    from viper.tuning.agent.training import TuneSettings, losses, read_held_out, split, tune

    out: Path = given["out"]
    if out.exists():
        raise UsageError(f"{out}: is there already; give another folder, or delete that one")
    found = read_workflows(source)
    wanted = given["manners"] or {one.manner for one in found}
    right = [one for one in found if one.outcome == "right" and one.manner in wanted]
    if not right:
        raise UsageError(
            f"{source}: none of {len(found)} workflows ended right in the manner that is wanted; "
            "there is nothing to learn from"
        )
    profile = open_profile(given)
    tuned, style = tuned_of(profile)
    library = profile.library()
    api = library.api_set(given["api"] or profile.document.run.api)
    said = majority(read_labels(given["flag_file"])) if given["flag_file"] else {}
    if said and not any(said_of(one, said) for one in right):
        raise UsageError(
            f"{given['flag_file']}: speaks of no action of the {len(right)} workflows that are "
            "learned from; give the flags of these, by viper tune flags --out"
        )
    learned, kept_out = split(right, given["held_out"], given["seed"])

    def texts_of(workflows: Sequence[Workflow], variant: str) -> list[Masked]:
        return [
            text
            for one in workflows
            for text in masked(
                one,
                api.entries(one.query.task),
                style=style,
                variant=variant,
                rest=given["rest"],
                seed=given["seed"],
                said=said_of(one, said),
            )
        ]

    texts = texts_of(learned, given["variant"])
    settings = TuneSettings(
        steps=given["steps"],
        batch=given["batch"],
        accumulate=given["accumulate"],
        learning_rate=given["learning_rate"],
        rank=0 if given["full"] else given["rank"],
        longest=given["longest"],
        seed=given["seed"],
    )
    work = given["work"] or out.with_name(f"{out.name}.work")
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
        "variant": given["variant"],
        "rest": given["rest"],
        "actions": len(texts) - sum(too_long),
        "too long": sum(too_long),
        "flagged by": str(given["flag_file"]) if given["flag_file"] else "rules",
    }
    card = model_card(
        out.name,
        tuned,
        settings,
        learned,
        data,
        losses(work),
        read_held_out(work),
        command_line(context),
    )
    (part / "README.md").write_text(card, encoding="utf-8")
    is_adapter = (part / "model" / "adapter_config.json").is_file()
    text = tuned_profile(profile, out.name, out / "model", is_adapter, given["api"])
    (part / "profile.toml").write_text(text, encoding="utf-8")
    part.replace(out)
    click.echo(f"{out / 'profile.toml'}")
    return EXIT_OK
