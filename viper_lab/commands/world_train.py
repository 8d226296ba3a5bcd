"""``viper world train``: trains an embedded model from nothing by its recipe."""

from __future__ import annotations

from pathlib import Path

import click

from viper.commands.options import OutPath
from viper.errors import UsageError
from viper_lab.recipes import RECIPES, recipe


@click.command()
@click.argument("role", type=click.Choice(tuple(RECIPES)))
@click.option(
    "--out",
    type=OutPath(),
    required=True,
    help="Folder for the weights, as from_pretrained reads it.",
)
@click.option(
    "--work",
    type=OutPath(),
    default=Path(".work"),
    show_default=True,
    help="Folder for checkpoints and rendered data; a training found there goes on.",
)
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1, mps.")
@click.option(
    "--steps", type=click.IntRange(1), default=None, help="Instead of the recipe's own number."
)
@click.option("--seed", type=int, default=0, show_default=True)
def train(role: str, out: Path, work: Path, device: str, steps: int | None, seed: int) -> None:
    """Train ROLE on freshly rendered data, write its weights, print what they reach.

    Progress goes to stderr. Ctrl-C keeps the last checkpoint; the same command goes on.
    """
    from viper_lab.recipes.optim import TrainOptions

    if device != "cpu":
        _check_device(device)
    out.mkdir(parents=True, exist_ok=True)
    reached = recipe(role)(TrainOptions(out, work, device, steps, seed))
    for name, value in reached.items():
        click.echo(f"{name:<28} {value:.4f}")


def _check_device(device: str) -> None:
    import torch

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        line = str(error).splitlines()[0]
        raise UsageError(f"device {device!r} cannot be used ({line}); known here: cpu") from None
