"""The whole of ``viper reproduce zero-shot``: tables, then claims."""

from __future__ import annotations

import time
from collections.abc import Sequence

from viper.evaluate.evaluation import model_ids
from viper.reasoner import Reasoner
from viper.reproduce import zero_shot as ablations
from viper.reproduce.lab import Lab
from viper.reproduce.parts import Part
from viper.reproduce.renamed_api import renamed_api
from viper.reproduce.result import Entry, Gain, Reproduction
from viper.reproduce.zero_shot import Table, entries, gains
from viper.reproduce.zero_shot_claims import judged

TITLE = "Zero-shot programmers (Stanić et al. 2024)"

BASELINES = {
    "ground": ("detector",),
    "question": ("vqa", "llm"),
    "choice": ("captions", "llm"),
}
"""End-to-end strategies for each task."""

THRESHOLD = "detector.threshold"


def tables(lab: Lab, parts: Sequence[Part], *, quick: bool) -> list[Table]:
    """What is measured, what judges the main claims first."""
    found = [ablations.ablation(), ablations.mined_against_random()]
    grounding = [part.name for part in parts if "ground" in tasks_of(lab, part)]
    if grounding:
        found.append(ablations.self_tuning(grounding))
    if quick:
        return found
    found += [
        ablations.baselines({p.name: _baselines(lab, p) for p in parts}),
        ablations.api_by_examples(),
        ablations.number_of_examples(),
        ablations.trials(),
        ablations.shots(),
        ablations.temperatures(),
        ablations.voting(),
    ]
    known = lab.writers["main"].hub.settings.sensitivities.get(THRESHOLD)
    if grounding and known is not None:
        middle = known.start if known.fixed is None else known.fixed
        values = [round(middle * factor, 3) for factor in (0.5, 0.75, 1.0, 1.5, 2.0)]
        found.append(ablations.thresholds(THRESHOLD, values, grounding))
    if "second" in lab.writers:
        found.append(ablations.second_writer())
    return found


def tasks_of(lab: Lab, part: Part) -> set[str]:
    """The tasks of a part's samples."""
    asked = part.asked(lab.scale.seeds[0], lab.scale.samples)
    return {sample.task for sample in asked.samples()}


def _baselines(lab: Lab, part: Part) -> list[str]:
    return [name for task in sorted(tasks_of(lab, part)) for name in BASELINES.get(task, ())]


def reproduce_zero_shot(lab: Lab, parts: Sequence[Part], *, quick: bool) -> Reproduction:
    """Answers everything that is not stored yet, and judges it."""
    began = time.monotonic()
    measured = tables(lab, parts, quick=quick)
    rows: list[Entry] = []
    steps: list[Gain] = []
    for table in measured:
        rows += entries(lab, table, parts)
        steps += gains(lab, table, parts)
    renamed = None
    grounding = [part for part in parts if "ground" in tasks_of(lab, part)]
    if not quick and grounding:
        renamed = renamed_api(lab, grounding[0])
        steps.append(renamed.gain)
    facts = {
        "models": {
            name: model_ids(Reasoner(parts_, preload=False)) for name, parts_ in lab.writers.items()
        },
        "seeds": list(lab.scale.seeds),
        "samples": lab.scale.samples,
        "quick": quick,
        "seconds": round(time.monotonic() - began, 1),
    }
    return Reproduction(TITLE, rows, steps, judged(lab, parts, measured, renamed), facts)
