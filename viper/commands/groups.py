"""The groups ``viper learn`` and ``viper setup``, whose commands stand in modules of their own."""

from __future__ import annotations

import click

from viper.commands.lazy_group import LazyGroup

# fmt: off
_LEARN = {
    "samples": ("viper.commands.learn:learn",
        "Learn from the labelled samples of SET (the default command).", "Learn"),
    "feedback": ("viper.commands.feedback:feedback",
        "Say what the right answer was, or show the feedback of a run.", "Learn"),
    "prompts": ("viper.commands.prompts:prompts",
        "List, show, remove or roll back the soft prompts of tools.", "Learn"),
    "workflows": ("viper.commands.tune:workflows",
        "Let the agent answer labelled samples and keep its workflows.", "Tune an agent"),
    "flags": ("viper.commands.tune:flags", "Show which actions of workflows helped.",
        "Tune an agent"),
    "label": ("viper.commands.tune:label", "Judge actions of workflows by hand.", "Tune an agent"),
    "agent": ("viper.commands.tune_agent:agent",
        "Tune the profile's agent on its successful workflows.", "Tune an agent"),
}

_SETUP = {
    "doctor": ("viper.commands.doctor:doctor", "Check what works on this machine."),
    "profile": ("viper.commands.profile:profile",
        "List, check, show or create profiles: which model plays which role."),
    "routine": ("viper.commands.routine:routine",
        "List, show, create, check or try routines that programs may call."),
    "index": ("viper.commands.index:index", "Index images and texts that programs can look up."),
}
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

    An agent learns from its own workflows. Source: DWIM (2025).

    \b
    viper learn workflows gqa --root gqa --limit 300 --out runs/workflows
    viper learn flags runs/workflows
    viper learn agent runs/workflows --out runs/tuned
    viper run photo.png "…" --strategy explore --profile runs/tuned/profile.toml
    """


@click.group(cls=LazyGroup, paths=_SETUP)
def setup() -> None:
    """Check this machine; manage profiles, routines and indexes.

    \b
    viper setup doctor
    viper setup profile list
    viper setup routine new get_patch_at_corner
    viper setup index images photos/
    """
