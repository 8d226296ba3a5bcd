"""The groups ``viper learn`` and ``viper setup``, whose commands stand in modules of their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from viper.commands.lazy_group import LazyGroup
from viper.commands.options import PROFILE, given_by, option, options_as, state_option
from viper.errors import EXIT_OK

# fmt: off
_LEARN = {
    "samples": ("viper.commands.learn:learn",
        "Learn from the labelled samples of SET (the default command).", "Learn"),
    "feedback": ("viper.commands.feedback:feedback",
        "Say what the right answer was, or show the feedback of a run.", "Learn"),
    "prompts": ("viper.commands.prompts:prompts",
        "List, show, remove or roll back the soft prompts of tools.", "Learn"),
    "writer": ("viper.commands.learn_writer:writer",
        "Let the program writer learn its own correct programs.", "Learn"),
    "confidence": ("viper.commands.learn_confidence:confidence",
        "Calibrate the confidence of answers, for --abstain.", "Learn"),
    "workflows": ("viper.commands.tune:workflows",
        "Let the agent answer labelled samples and keep its workflows.", "Tune an agent"),
    "flags": ("viper.commands.tune:flags", "Show which actions of workflows helped.",
        "Tune an agent"),
    "label": ("viper.commands.tune:label", "Judge actions of workflows by hand.", "Tune an agent"),
    "agent": ("viper.commands.tune:agent",
        "Tune the profile's agent on its successful workflows.", "Tune an agent"),
}

_SETUP = {
    "doctor": ("viper.commands.doctor:doctor", "Check what works on this machine."),
    "profile": ("viper.commands.profile:profile",
        "List, check, show or create profiles: which model plays which role."),
    "model": ("viper.commands.setup_model:model",
        "Make a detector in an ONNX file that of the profile photo-lite."),
    "routine": ("viper.commands.routine:routine",
        "List, show, create, check or try routines that programs may call."),
    "index": ("viper.commands.index:index", "Index images and texts that programs can look up."),
}


@dataclass(frozen=True)
class SetupOptions:
    """Options of ``viper setup`` without a command."""

    profile: str | None = option("--profile", metavar="NAME|FILE.toml", type=PROFILE,
        help="Set up this profile instead of the proposed one.")
    check: bool = option("--check", default=False,
        help="Only look: fit, missing keys and downloads. The exit code is 1 if the profile "
             "cannot run here as it is.")
    yes: bool = option("--yes", "-y", default=False, help="Download without asking.")
    state: Path | None = given_by(state_option)
# fmt: on


@click.group(cls=LazyGroup, paths=_LEARN, default="samples")
def learn() -> None:
    """Learn from labelled samples and from feedback.

    `viper learn SET` answers labelled samples and learns from each one. It is short for
    `viper learn samples SET`, which lists the options (viper learn samples --help).

    \b
    viper learn gqa --root gqa --limit 60 --out runs/learn
    viper learn feedback runs/first SAMPLE --answer "blue"
    viper learn --from runs/first
    viper learn prompts list

    The program writer learns its own programs that turned out correct.

    \b
    viper learn writer gqa --root gqa --limit 300 --out runs/writer

    Answers get a calibrated confidence, and `--abstain RISK` leaves out doubtful ones.

    \b
    viper learn confidence gqa --root gqa --split train --out calibrated.toml

    An agent learns from its own workflows. Source: DWIM (2025).

    \b
    viper learn workflows gqa --root gqa --limit 300 --out runs/workflows
    viper learn flags runs/workflows
    viper learn agent runs/workflows --out runs/tuned
    viper run photo.png "…" --strategy explore --profile runs/tuned/profile.toml
    """


@click.group(cls=LazyGroup, paths=_SETUP, invoke_without_command=True)
@options_as(SetupOptions)
@click.pass_context
def setup(ctx: click.Context, chosen: SetupOptions) -> int:
    """Choose models that fit this machine and download them; manage profiles and routines.

    Without a command, it looks at GPU, memory, disk, keys and model hub, proposes a profile,
    downloads its models, asks one question and makes the profile the default. A download that
    stopped continues with the same line.

    \b
    viper setup
    viper setup --check
    viper setup --profile gpu-24gb --yes
    viper setup doctor
    viper setup profile list
    viper setup routine new get_patch_at_corner
    viper setup index images photos/
    """
    if ctx.invoked_subcommand is not None:
        return EXIT_OK
    from viper.commands.setup import set_up

    return set_up(chosen.profile, check=chosen.check, yes=chosen.yes, state=chosen.state)
