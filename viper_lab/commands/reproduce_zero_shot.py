"""``viper reproduce zero-shot``: the ablation of Stanić et al. 2024."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.option_groups import root_option
from viper.commands.options import open_profile, profile_options
from viper.commands.out_path import OutPath
from viper_lab.commands.reproduce_shared import (
    AS_JSON,
    MEMBER,
    PROCESSES,
    answer_as_member,
    answer_together,
    opened_lab,
    processes_of,
    shown,
)

if TYPE_CHECKING:
    from viper.strategies.base import Components
    from viper_lab.papers.lab import Scale
    from viper_lab.papers.parts import Part

QUICK_SAMPLES, SAMPLES = 50, 120


@click.command("zero-shot")
@click.option("--quick", is_flag=True,
              help="Only what judges the main claims, on fewer samples.")  # fmt: skip
@click.option("--seeds", type=click.IntRange(1, 20), default=3, show_default=True,
              help="Each with its own samples, shots and sampling.")  # fmt: skip
@click.option("--samples", type=click.IntRange(2), metavar="N",
              help=f"Of each part under each seed; {SAMPLES}, quick {QUICK_SAMPLES}.")  # fmt: skip
@click.option("--pool", type=click.IntRange(2), default=100, show_default=True, metavar="N",
              help="Labelled samples of each part and seed that banks may be mined from."
              )  # fmt: skip
@click.option("--out", type=OutPath(), default=None, metavar="DIR",
              help="Runs, banks and reports; by default reproduce/zero-shot.")  # fmt: skip
@click.option("--data", "set_name", default="world", show_default=True, metavar="SET",
              help="See viper data list; world stands for its three sets with habits.")  # fmt: skip
@root_option
@click.option("--split", metavar="NAME", help="What is answered; by default val, or the first.")
@click.option("--shots-split", default="train", show_default=True, metavar="NAME",
              help="What examples are mined from.")  # fmt: skip
@click.option("--second", metavar="NAME|FILE.toml",
              help="Profile whose LLM repeats the steps; by default NAME-small.")  # fmt: skip
@PROCESSES
@MEMBER
@AS_JSON
@profile_options
def zero_shot(**given: Any) -> int:
    """Tables 1 to 6 and figures 2 to 4 of Stanić et al. 2024, and what must hold of them.

    With the embedded world, every seed asks a data set with habits of its own: half of its
    queries are vague, and only examples show how they are meant. The same weights answer in
    all rows; their hashes are printed. Every answer is stored at once, so that after Ctrl-C the
    same line goes on. Exit code 1 where a claim does not hold.

    \b
    viper reproduce zero-shot --quick
    viper reproduce zero-shot --out figures --json > figures.json
    viper reproduce zero-shot --data refcoco --root refer --profile local --samples 500
    """
    from viper.commands.progress import status
    from viper_lab.commands.reproduce_progress import watching
    from viper_lab.papers.zero_shot_run import reproduce_zero_shot, study_of

    folder = given["out"] or Path("reproduce", "zero-shot-quick" if given["quick"] else "zero-shot")
    processes = processes_of(given)
    with opened_lab(folder, given, _writers, _scale(given), processes) as lab:
        if given["member"]:
            return answer_as_member(lab, study_of(lab, _parts(given), quick=given["quick"]).cells())
        with status("drawing samples, counting stored answers"):
            study = study_of(lab, _parts(given), quick=given["quick"])
            plan = study.plan(lab)
        with watching(plan) as watcher:
            answer_together(lab, watcher, plan, study.cells(), processes)
            found = reproduce_zero_shot(lab, study)
    return shown(found, folder, as_json=given["as_json"])


def _parts(given: Mapping[str, Any]) -> list[Part]:
    from viper_lab.papers.parts import set_parts, world_parts

    if given["set_name"] == "world":
        return world_parts(given["split"] or "val")
    return set_parts(given["set_name"], given["root"], given["split"], given["shots_split"])


def _scale(given: Mapping[str, Any]) -> Scale:
    from viper_lab.papers.lab import Scale

    count = given["samples"] or (QUICK_SAMPLES if given["quick"] else SAMPLES)
    return Scale(count, tuple(range(given["seeds"])), given["pool"])


def _writers(given: Mapping[str, Any]) -> dict[str, Components]:
    """Language models by name, over one set of vision models."""
    from viper.profiles.document import known_profiles
    from viper_lab.papers.renamed_api import RENAMINGS

    main = open_profile(given).without_examples().components()
    writers = {"main": main}
    for renaming in RENAMINGS:
        renamed = open_profile({**given, "api": renaming.api}).without_examples().components()
        writers[renaming.writer] = replace(renamed.with_models(llm=main.llm), hub=main.hub)
    second = given["second"]
    beside = f"{given['profile']}-small"
    if second is None and beside in known_profiles(given.get("state")):
        second = beside
    if second is not None:
        other = open_profile({**given, "profile": second}).without_examples().components()
        writers["second"] = replace(other, hub=main.hub)
    return writers
