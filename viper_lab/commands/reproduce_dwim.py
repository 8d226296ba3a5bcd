"""``viper reproduce dwim``: what it is worth to know which tool to trust, as in DWIM (2025)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.option_groups import root_option
from viper.commands.options import open_profile, profile_options
from viper.commands.out_path import OutPath
from viper.errors import UsageError
from viper_lab.commands.reproduce_shared import AS_JSON, hint_to_go_on, shown

if TYPE_CHECKING:
    from viper_lab.papers.dwim_study import DwimStudy

WORKFLOWS, SAMPLES, STEPS, SEEDS = 150, 100, 100, 3
QUICK_WORKFLOWS, QUICK_SAMPLES, QUICK_STEPS, QUICK_SEEDS = 60, 40, 80, 1
_LINE_EVERY_S = 20.0


@click.command("dwim")
@click.option("--quick", is_flag=True,
              help="Only what judges the main claims, on fewer samples.")  # fmt: skip
@click.option("--seeds", type=click.IntRange(1, 20), metavar="N",
              help=f"Each with its own samples and tunings; {SEEDS}, quick {QUICK_SEEDS}.",
              )  # fmt: skip
@click.option("--workflows", type=click.IntRange(4), metavar="N",
              help="Training samples of each seed and manner; "
                   f"{WORKFLOWS}, quick {QUICK_WORKFLOWS}.")  # fmt: skip
@click.option("--samples", type=click.IntRange(2), metavar="N",
              help=f"Answered by each agent under each seed; {SAMPLES}, quick {QUICK_SAMPLES}.",
              )  # fmt: skip
@click.option("--steps", type=click.IntRange(1), metavar="N",
              help=f"Of each tuning; {STEPS}, quick {QUICK_STEPS}.")  # fmt: skip
@click.option("--learning-rate", type=click.FloatRange(0, min_open=True), default=5e-4,
              show_default=True, help="Of each tuning.")  # fmt: skip
@click.option("--batch", type=click.IntRange(1), default=16, show_default=True,
              help="Rows of a pass.")  # fmt: skip
@click.option("--accumulate", type=click.IntRange(1), default=1, show_default=True,
              help="Passes of a step.")  # fmt: skip
@click.option("--longest", type=click.IntRange(16), default=2048, show_default=True,
              metavar="TOKENS", help="Longer texts are not learned; a prompt that lists a whole "
                                     "API takes some 4,000.")  # fmt: skip
@click.option("--out", type=OutPath(), default=None, metavar="DIR",
              help="Workflows, agents, answers and reports; by default reproduce/dwim."
              )  # fmt: skip
@click.option("--data", "set_name", default="world", show_default=True, metavar="SET",
              help="A set of questions; see viper data list.")  # fmt: skip
@root_option
@click.option("--train-split", metavar="NAME", help="By default train:question of the world, "
              "train or what begins so of others.")  # fmt: skip
@click.option("--split", metavar="NAME", help="What is answered; by default val:question of the "
              "world, val or what begins so of others. test:question holds wordings and "
              "combinations that no training has: look at it last.")  # fmt: skip
@AS_JSON
@profile_options
def dwim(**given: Any) -> int:
    """Table 10 of DWIM with sections 9, 11 and 14, and what must hold of them.

    Under each seed the profile's agent explores training samples in three manners, is tuned on what
    was of use in them in as many ways as the table has rows, and every agent answers samples that
    it has not met. Everything is stored as it comes; after Ctrl-C the same line goes on. Exit code
    1 where a claim does not hold.

    \b
    viper reproduce dwim --quick
    viper reproduce dwim --split test:question --out figures --json > figures.json
    viper reproduce dwim --data gqa --root gqa --profile local --longest 6144 --batch 2 \\
        --accumulate 8
    """
    from viper_lab.papers.dwim_run import reproduce_dwim

    folder = given["out"] or Path("reproduce", "dwim-quick" if given["quick"] else "dwim")
    study = _study(folder, given)
    try:
        with hint_to_go_on():
            found = reproduce_dwim(study, quick=given["quick"])
    finally:
        study.components.close()
    return shown(found, folder, as_json=given["as_json"])


def _study(folder: Path, given: Mapping[str, Any]) -> DwimStudy:
    from viper.data.registry import data_set, named_like
    from viper.evaluate.engines.allocator import bound_arenas
    from viper.profiles.tuned import tuned_of
    from viper.tuning.agent.training import TuneSettings
    from viper_lab.papers.dwim_study import Asked, DwimStudy, Scale

    bound_arenas()
    splits = data_set(given["set_name"]).splits
    is_world = given["set_name"] == "world"
    train = given["train_split"] or ("train:question" if is_world else named_like(splits, "train"))
    test = given["split"] or ("val:question" if is_world else named_like(splits, "val"))
    if train is None or test is None:
        raise UsageError(
            f"{given['set_name']} has no split train or val; say --train-split and --split, of "
            f"{', '.join(splits) or 'none'}"
        )
    if train == test:
        raise UsageError(
            f"{given['set_name']} would be judged on {test}, which it learns from; choose another "
            "--split or --train-split"
        )
    profile = open_profile(dict(given)).without_examples()
    tuned, style = tuned_of(profile)
    quick = given["quick"]
    seeds = given["seeds"] or (QUICK_SEEDS if quick else SEEDS)
    scale = Scale(
        given["workflows"] or (QUICK_WORKFLOWS if quick else WORKFLOWS),
        given["samples"] or (QUICK_SAMPLES if quick else SAMPLES),
        tuple(range(seeds)),
        TuneSettings(
            steps=given["steps"] or (QUICK_STEPS if quick else STEPS),
            batch=given["batch"],
            accumulate=given["accumulate"],
            learning_rate=given["learning_rate"],
            longest=given["longest"],
        ),
    )
    asked = Asked(given["set_name"], given["root"], train, test)
    return DwimStudy(profile.components(), tuned, style, folder, asked, scale, say=_teller())


def _teller() -> Callable[[str], None]:
    """Says something now and then, as much as a reader wants."""
    last = -_LINE_EVERY_S
    lock = threading.Lock()

    def say(text: str) -> None:
        nonlocal last
        with lock:
            if time.monotonic() - last >= _LINE_EVERY_S:
                last = time.monotonic()
                click.echo(text, err=True)

    return say
