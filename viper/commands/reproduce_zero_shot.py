"""``viper reproduce zero-shot``: the ablation of Stanić et al. 2024."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.option_groups import root_option
from viper.commands.options import open_profile, profile_options
from viper.commands.repeating import command_line
from viper.errors import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from viper.reproduce.lab import Lab
    from viper.reproduce.parts import Part
    from viper.reproduce.result import Reproduction
    from viper.strategies.base import Components

QUICK_SAMPLES, SAMPLES = 50, 120
LOCKS = "locks"  # in the folder


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
@click.option("--out", type=click.Path(path_type=Path), default=None, metavar="DIR",
              help="Runs, banks and reports; by default reproduce/zero-shot.")  # fmt: skip
@click.option("--data", "set_name", default="world", show_default=True, metavar="SET",
              help="See viper data list; world stands for its three sets with habits.")  # fmt: skip
@root_option
@click.option("--split", metavar="NAME", help="What is answered; by default val, or the first.")
@click.option("--shots-split", default="train", show_default=True, metavar="NAME",
              help="What examples are mined from.")  # fmt: skip
@click.option("--second", metavar="NAME|FILE.toml",
              help="Profile whose LLM repeats the steps; by default NAME-small.")  # fmt: skip
@click.option("--processes", type=click.IntRange(1, 64), metavar="N",
              help="At work side by side, each with models of its own; 2 where all models come "
                   "with the package and there are two cores, else 1.")  # fmt: skip
@click.option("--member", is_flag=True, hidden=True)
@click.option("--json", "as_json", is_flag=True, help="Print rows, gains and claims as JSON.")
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
    from viper.commands.reproduce_members import members
    from viper.commands.reproduce_progress import watching
    from viper.reproduce.crew import Claims, groups_of, share
    from viper.reproduce.run import reproduce_zero_shot, study_of
    from viper.reproduce.write import as_text, write_reports

    folder = given["out"] or Path("reproduce", "zero-shot-quick" if given["quick"] else "zero-shot")
    if given["member"]:
        return _member(folder, given)
    processes = _processes(given)
    with _lab(folder, given, processes) as (lab, parts):
        with status("drawing samples, counting stored answers"):
            study = study_of(lab, parts, quick=given["quick"])
            plan = study.plan(lab)
        with watching(plan) as lab.watcher:
            groups = groups_of(lab, study.cells())
            others = min(processes, len(groups)) - 1 if plan.missing else 0
            claims = Claims(folder / LOCKS)
            with members(others, _same_again(), lab.watcher) as beside, closing(claims):
                share(lab, groups, claims)
                beside.wait()
            found = reproduce_zero_shot(lab, study)
    write_reports(found, folder)
    if given["as_json"]:
        click.echo(json.dumps(found.to_json(), allow_nan=False))
    else:
        click.echo(as_text(found))
    click.echo(f"{folder / 'report.html'}", err=True)
    return EXIT_FAILED if _fails(found) else EXIT_OK


def _member(folder: Path, given: dict[str, Any]) -> int:
    """Answers what no other process answers, and tells who started it."""
    from viper.commands.reproduce_members import Told, end_with_starter
    from viper.reproduce.crew import Claims, groups_of, share
    from viper.reproduce.run import study_of

    end_with_starter()
    with _lab(folder, given, _processes(given)) as (lab, parts):
        study = study_of(lab, parts, quick=given["quick"])
        lab.watcher = Told(sys.stdout)
        with closing(Claims(folder / LOCKS)) as claims:
            share(lab, groups_of(lab, study.cells()), claims)
    return EXIT_OK


def _processes(given: Mapping[str, Any]) -> int:
    """How many shall work side by side."""
    from viper.commands.reproduce_members import cores

    if given["processes"] is not None:
        return int(given["processes"])
    models = [choice.model or "" for _, choice in open_profile(given).choices()]
    small = all(model.startswith("embedded:") for model in models if model)
    return min(2, cores()) if small else 1


def _same_again() -> list[str]:
    """The running command line without the program's name."""
    line = command_line(click.get_current_context(), leave_out=("member", "as_json"))
    return shlex.split(line)[1:]


def _fails(found: Reproduction) -> bool:
    return any(claim.holds is False for claim in found.claims)


@contextmanager
def _lab(folder: Path, given: dict[str, Any], processes: int) -> Iterator[tuple[Lab, list[Part]]]:
    from viper.commands.reproduce_members import cores
    from viper.evaluate.engines.allocator import bound_arenas
    from viper.reproduce.lab import Lab, Scale
    from viper.reproduce.parts import set_parts, world_parts
    from viper.schema import to_json

    bound_arenas()
    if processes > 1:  # read when torch is imported
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // processes)))
    if given["set_name"] == "world":
        parts = world_parts(given["split"] or "val")
    else:
        parts = set_parts(given["set_name"], given["root"], given["split"], given["shots_split"])
    writers = _writers(given)
    count = given["samples"] or (QUICK_SAMPLES if given["quick"] else SAMPLES)
    scale = Scale(count, tuple(range(given["seeds"])), given["pool"])
    document = to_json(open_profile(given).document)
    lab = Lab(writers, document, folder, scale)
    try:
        yield lab, parts
    except KeyboardInterrupt:
        if not given["member"]:
            click.echo("\nstopped; to go on: the same line again", err=True)
        raise
    finally:
        lab.close()
        for components in writers.values():
            components.close()


def _writers(given: Mapping[str, Any]) -> dict[str, Components]:
    """Language models by name, over one set of vision models."""
    from viper.profiles.document import known_profiles
    from viper.reproduce.renamed_api import RENAMINGS

    main = open_profile(given).without_examples().components()
    writers = {"main": main}
    for renaming in RENAMINGS:
        renamed = open_profile({**given, "api": renaming.api}).without_examples().components()
        writers[renaming.writer] = replace(renamed, llm=main.llm, hub=main.hub)
    second = given["second"]
    beside = f"{given['profile']}-small"
    if second is None and beside in known_profiles():
        second = beside
    if second is not None:
        other = open_profile({**given, "profile": second}).without_examples().components()
        writers["second"] = replace(other, hub=main.hub)
    return writers
