"""The whole of ``viper reproduce avis``: tables, then claims."""

from __future__ import annotations

import time

from viper.evaluate.evaluation import model_ids
from viper.reasoner import Reasoner
from viper_lab.papers.avis import Study, entries, gains
from viper_lab.papers.avis_claims import judged
from viper_lab.papers.lab import Lab
from viper_lab.papers.result import Entry, Gain, Reproduction

TITLE = "AVIS (Hu et al. 2023)"


def reproduce_avis(lab: Lab, study: Study) -> Reproduction:
    """Answers everything that is not stored yet, and judges it."""
    began = time.monotonic()
    rows: list[Entry] = []
    steps: list[Gain] = []
    for table in study.tables:
        rows += entries(lab, table, study.parts)
        steps += gains(lab, table, study.parts)
    main = study.parts[0].equipped(lab.writers["main"], lab.scale.seeds[0])
    facts = {
        "models": model_ids(Reasoner(main, preload=False)),
        "seeds": list(lab.scale.seeds),
        "samples": lab.scale.samples,
        "quick": study.quick,
        "seconds": round(time.monotonic() - began, 1),
    }
    return Reproduction(TITLE, rows, steps, judged(lab, study), facts)
