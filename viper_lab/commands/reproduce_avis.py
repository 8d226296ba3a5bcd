"""``viper reproduce avis``: what seeking step by step is worth, as in Hu et al. 2023."""

from __future__ import annotations

from collections.abc import Mapping
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

SAMPLES, QUICK_SAMPLES = 120, 40
SEEDS, QUICK_SEEDS = 3, 1


@click.command("avis")
@click.option("--quick", is_flag=True,
              help="Only what judges the main claims, on fewer samples.")  # fmt: skip
@click.option("--seeds", type=click.IntRange(1, 20), metavar="N",
              help=f"Each with a catalogue of its own; {SEEDS}, quick {QUICK_SEEDS}.")  # fmt: skip
@click.option("--samples", type=click.IntRange(2), metavar="N",
              help=f"Questions under each seed; {SAMPLES}, quick {QUICK_SAMPLES}.")  # fmt: skip
@click.option("--out", type=OutPath(), default=None, metavar="DIR",
              help="Catalogues, indexes, runs and reports; by default reproduce/avis."
              )  # fmt: skip
@click.option("--data", "set_name", default="world", show_default=True, metavar="SET",
              help="world stands for its catalogues; okvqa, infoseek and others are looked up in "
                   "what the profile searches.")  # fmt: skip
@root_option
@click.option("--split", metavar="NAME", help="What is answered; by default val, or the first.")
@PROCESSES
@MEMBER
@AS_JSON
@profile_options
def avis(**given: Any) -> int:
    """Tables 1, 2, 3 and 5 of AVIS, and what must hold of them.

    Seeking beside the language model alone, beside what the matcher retrieves, beside fixed
    sequences of the same tools, beside itself without the graph and without each group of tools.
    With the embedded world, every seed asks about a catalogue that no model has seen, over a
    gallery and texts that are written and indexed below --out. Every answer is stored at once, so
    that after Ctrl-C the same line goes on. Exit code 1 where a claim does not hold.

    \b
    viper reproduce avis --quick
    viper reproduce avis --out figures --json > figures.json
    viper reproduce avis --data infoseek --root infoseek --profile openai --samples 200
    """
    from viper.commands.progress import status
    from viper_lab.commands.reproduce_progress import watching
    from viper_lab.papers.avis import Study
    from viper_lab.papers.avis_run import reproduce_avis
    from viper_lab.papers.plan import plan_of

    folder = given["out"] or Path("reproduce", "avis-quick" if given["quick"] else "avis")
    processes = processes_of(given)
    study = Study.of(_parts(folder, given), quick=given["quick"])
    with opened_lab(folder, given, _writers, _scale(given), processes) as lab:
        if given["member"]:
            return answer_as_member(lab, study.cells())
        with status("drawing samples, counting stored answers"):
            plan = plan_of(lab, study.cells())
        with watching(plan) as watcher:
            answer_together(lab, watcher, plan, study.cells(), processes)
            found = reproduce_avis(lab, study)
    return shown(found, folder, as_json=given["as_json"])


def _parts(folder: Path, given: Mapping[str, Any]) -> list[Part]:
    from viper_lab.papers.knowledge_part import KnowledgePart
    from viper_lab.papers.parts import set_parts

    if given["set_name"] == "world":
        return [KnowledgePart(folder, _samples(given), given["split"] or "val")]
    return set_parts(given["set_name"], given["root"], given["split"], "train")


def _samples(given: Mapping[str, Any]) -> int:
    return given["samples"] or (QUICK_SAMPLES if given["quick"] else SAMPLES)


def _scale(given: Mapping[str, Any]) -> Scale:
    from viper_lab.papers.lab import Scale

    seeds = given["seeds"] or (QUICK_SEEDS if given["quick"] else SEEDS)
    return Scale(_samples(given), tuple(range(seeds)))


def _writers(given: Mapping[str, Any]) -> dict[str, Components]:
    return {"main": open_profile(dict(given)).without_examples().components()}
