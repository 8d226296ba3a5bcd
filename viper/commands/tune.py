"""``viper tune``: workflows of an agent, what was of use in them, an agent tuned on that."""

from __future__ import annotations

import click

from viper.commands.tune_agent import agent
from viper.commands.tune_label import label
from viper.commands.tune_workflows import flags, workflows


@click.group()
def tune() -> None:
    """An agent that learns from its own workflows which tools to trust.

    \b
    viper tune workflows world --split train:question --limit 300 --out runs/made
    viper tune flags runs/made                  what was of use in them
    viper tune agent runs/made --out runs/tuned
    viper run photo.png "…" --strategy explore --profile runs/tuned/profile.toml

    Source: DWIM (2025).
    """


for _one in (workflows, flags, label, agent):
    tune.add_command(_one)
