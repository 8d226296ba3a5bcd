"""The whole of ``viper reproduce zero-shot``: tables, then claims."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from viper.evaluate.evaluation import model_ids
from viper.reasoner import Reasoner
from viper_lab.papers import zero_shot as ablations
from viper_lab.papers.lab import Cell, Lab
from viper_lab.papers.parts import Part
from viper_lab.papers.plan import Plan, plan_of
from viper_lab.papers.renamed_api import RENAMINGS, renamed_api
from viper_lab.papers.result import Entry, Gain, Reproduction
from viper_lab.papers.zero_shot import Table, entries, gains
from viper_lab.papers.zero_shot_claims import Measured, judged

TITLE = "Zero-shot programmers (Stanić et al. 2024)"

BASELINES = {
    "ground": ("detector",),
    "question": ("vqa", "llm"),
    "choice": ("captions", "llm"),
}
"""End-to-end strategies for each task."""

THRESHOLD = "detector.threshold"


@dataclass(frozen=True)
class Study:
    """What is measured.

    Attributes:
        parts: of the data.
        grounding: those among them whose samples ask for a place in the picture.
        tables: what judges the main claims first.
        quick: the rest was left out.
    """

    parts: Sequence[Part]
    grounding: Sequence[Part]
    tables: Sequence[Table]
    quick: bool

    @property
    def renamed(self) -> Part | None:
        """The part on which the API's routines are renamed; None leaves that out."""
        return self.grounding[0] if self.grounding and not self.quick else None

    def cells(self) -> list[tuple[Cell, Part]]:
        """Every cell with each part it is asked about, once."""
        cells = list(ablations.cells_asked(self.tables, self.parts))
        if self.renamed is not None:
            cells += [(renaming.cell, self.renamed) for renaming in RENAMINGS]
        return cells

    def plan(self, lab: Lab) -> Plan:
        """Everything that will be answered, each run once."""
        return plan_of(lab, self.cells())


def study_of(lab: Lab, parts: Sequence[Part], *, quick: bool) -> Study:
    """The tables for these parts of the data; draws samples to see their tasks."""
    tasks = {part.name: tasks_of(lab, part) for part in parts}
    grounding = [part for part in parts if "ground" in tasks[part.name]]
    found = [ablations.ablation(), ablations.mined_against_random()]
    if grounding:
        found.append(ablations.self_tuning([part.name for part in grounding]))
    if not quick:
        found += _more_tables(lab, tasks, [part.name for part in grounding])
    return Study(parts, grounding, found, quick)


def _more_tables(
    lab: Lab, tasks: Mapping[str, set[str]], grounding: Sequence[str]
) -> Iterator[Table]:
    yield ablations.baselines({name: _baselines(found) for name, found in tasks.items()})
    yield ablations.api_by_examples()
    yield ablations.number_of_examples()
    yield ablations.ways_of_mining()
    yield ablations.trials()
    yield ablations.shots()
    yield ablations.temperatures()
    yield ablations.voting()
    known = lab.writers["main"].hub.settings.sensitivities.get(THRESHOLD)
    if grounding and known is not None:
        middle = known.start if known.fixed is None else known.fixed
        values = [round(middle * factor, 3) for factor in (0.5, 0.75, 1.0, 1.5, 2.0)]
        yield ablations.thresholds(THRESHOLD, values, grounding)
    if "second" in lab.writers:
        yield ablations.second_writer()


def tasks_of(lab: Lab, part: Part) -> set[str]:
    """The tasks of a part's samples."""
    return {sample.task for sample in lab.asked(part, lab.scale.seeds[0]).samples}


def _baselines(tasks: set[str]) -> list[str]:
    return [name for task in sorted(tasks) for name in BASELINES.get(task, ())]


def reproduce_zero_shot(lab: Lab, study: Study) -> Reproduction:
    """Answers everything that is not stored yet, and judges it."""
    began = time.monotonic()
    rows: list[Entry] = []
    steps: list[Gain] = []
    for table in study.tables:
        rows += entries(lab, table, study.parts)
        steps += gains(lab, table, study.parts)
    renamed = None
    if study.renamed is not None:
        renamed = renamed_api(lab, study.renamed)
        steps += renamed.gains.values()
    facts = {
        "models": {
            name: model_ids(Reasoner(parts, preload=False)) for name, parts in lab.writers.items()
        },
        "seeds": list(lab.scale.seeds),
        "samples": lab.scale.samples,
        "pool": lab.scale.pool,
        "quick": study.quick,
        "seconds": round(time.monotonic() - began, 1),
    }
    measured = Measured(
        study.parts,
        study.grounding,
        frozenset(table.name for table in study.tables),
        renamed,
        study.quick,
    )
    return Reproduction(TITLE, rows, steps, judged(lab, measured), facts)
