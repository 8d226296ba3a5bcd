"""``viper reproduce clova``: what learning is worth, as in Gao et al. 2024."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.option_groups import root_option
from viper.commands.options import open_profile, profile_options
from viper.commands.out_path import OutPath
from viper.errors import UsageError
from viper_lab.commands.reproduce_shared import AS_JSON, hint_to_go_on, shown

if TYPE_CHECKING:
    from viper.strategies.base import Components
    from viper_lab.papers.clova import Study
    from viper_lab.papers.school import School

STREAM, SAMPLES, QUESTIONS = 90, 120, 30
QUICK_STREAM, QUICK_SAMPLES, QUICK_QUESTIONS = 36, 48, 10
QUICK_SEEDS = 1
_LINE_EVERY_S = 30.0


@click.command("clova")
@click.option("--quick", is_flag=True,
              help="Only what judges the main claims, on fewer samples.")  # fmt: skip
@click.option("--seeds", type=click.IntRange(1, 20), metavar="N",
              help=f"Each with its own samples and pools; 3, quick {QUICK_SEEDS}.")  # fmt: skip
@click.option("--stream", type=click.IntRange(1), metavar="N",
              help=f"Samples learned from, for each seed; {STREAM}, quick {QUICK_STREAM}.",
              )  # fmt: skip
@click.option("--samples", type=click.IntRange(1), metavar="N",
              help=f"Answered afterwards, of each part; {SAMPLES}, quick {QUICK_SAMPLES}.",
              )  # fmt: skip
@click.option("--questions", type=click.IntRange(0), metavar="N",
              help="To each tool about each reserved concept; 0 leaves the tools alone out; "
                   f"{QUESTIONS}, quick {QUICK_QUESTIONS}.")  # fmt: skip
@click.option("--out", type=OutPath(), default=None, metavar="DIR",
              help="Runs, pools and reports; by default reproduce/clova.")  # fmt: skip
@click.option("--data", "set_name", default="world", show_default=True, metavar="SET",
              help="See viper data list; world stands for its reserved concepts.")  # fmt: skip
@root_option
@click.option("--split", metavar="NAME", help="What is answered; by default val, or the first.")
@click.option("--stream-split", default="train", show_default=True, metavar="NAME",
              help="What is learned from, of other sets than the world.")  # fmt: skip
@click.option("--second", metavar="NAME|FILE.toml",
              help="Profile whose LLM repeats the steps; by default NAME-small.")  # fmt: skip
@AS_JSON
@profile_options
def clova(**given: Any) -> int:
    """Tables 3 to 7 and figure 22 of CLOVA, and what must hold of them.

    Every course begins with empty pools, learns from a stream about reserved concepts, which no
    shipped model has seen, and then answers samples that it has not met. Weights never change;
    their hashes are printed. Everything is stored as it comes, so that after Ctrl-C the same line
    goes on. Exit code 1 where a claim does not hold.

    \b
    viper reproduce clova --quick
    viper reproduce clova --out figures --json > figures.json
    """
    from viper_lab.papers.clova_run import reproduce_clova

    folder = given["out"] or Path("reproduce", "clova-quick" if given["quick"] else "clova")
    school, study = _school(folder, given)
    try:
        with hint_to_go_on():
            found = reproduce_clova(school, study, school.say)
    finally:
        school.close()
        for components in school.writers.values():
            components.close()
    return shown(found, folder, as_json=given["as_json"])


def _school(folder: Path, given: dict[str, Any]) -> tuple[School, Study]:
    from viper.commands.progress import status
    from viper.evaluate.engines.allocator import bound_arenas
    from viper.schema import to_json
    from viper_lab.papers.clova import Study, set_subjects, world_subjects
    from viper_lab.papers.clova_run import tables_for
    from viper_lab.papers.school import School, Terms

    bound_arenas()
    quick = given["quick"]
    is_world = given["set_name"] == "world"
    if is_world:
        subjects = world_subjects(given["split"] or "val")
    else:
        subjects = set_subjects(
            given["set_name"], given["root"], _split(given), given["stream_split"]
        )
    with status("opening the profile"):
        writers = _writers(given)
    seeds = given["seeds"] or (QUICK_SEEDS if quick else 3)
    terms = Terms(
        given["stream"] or (QUICK_STREAM if quick else STREAM),
        given["samples"] or (QUICK_SAMPLES if quick else SAMPLES),
        tuple(range(seeds)),
    )
    questions = given["questions"]
    if questions is None:
        questions = QUICK_QUESTIONS if quick else QUESTIONS
    tables = tables_for(writers["main"], has_second="second" in writers, quick=quick)
    study = Study(subjects, tables, quick, questions if is_world else 0)
    document = to_json(open_profile(given).document)
    return School(writers, document, folder, terms, _teller()), study


def _split(given: dict[str, Any]) -> str:
    from viper.data.registry import data_set

    split = given["split"] or data_set(given["set_name"]).splits[0]
    if split == given["stream_split"]:
        raise UsageError(
            f"{given['set_name']} would be judged on {split}, which it learns from; choose another "
            "--split or --stream-split"
        )
    return str(split)


def _writers(given: dict[str, Any]) -> dict[str, Components]:
    """Language models by name, over one set of vision models."""
    from dataclasses import replace

    from viper.profiles.document import known_profiles

    main = open_profile(given).without_examples().components()
    writers = {"main": main}
    second = given["second"]
    beside = f"{given['profile']}-small"
    if second is None and beside in known_profiles(given.get("state")):
        second = beside
    if second is not None and not given["quick"]:
        other = open_profile({**given, "profile": second}).without_examples().components()
        writers["second"] = replace(other, hub=main.hub)
    return writers


def _teller() -> Callable[[str], None]:
    """Says what is being done: all of it on a terminal, elsewhere something every half minute."""
    told, when = "", -_LINE_EVERY_S

    def say(text: str) -> None:
        nonlocal told, when
        now = time.monotonic()
        if text == told or (not sys.stderr.isatty() and now - when < _LINE_EVERY_S):
            return
        told, when = text, now
        click.echo(text, err=True)

    return say
