"""The whole of ``viper reproduce dwim``: workflows, tuned agents, answers, then claims."""

from __future__ import annotations

import time
from dataclasses import asdict

from viper.evaluate.evaluation import model_ids
from viper.learning.awareness import perfect_tools
from viper.learning.flags import flag_report
from viper.reasoner import Reasoner
from viper.sandbox import Sandbox
from viper.tuning.agent.workflow import MANNERS
from viper_lab.papers.dwim import (
    answer_gain,
    answer_rows,
    aware,
    awareness_rows,
    tool_rows,
    utilisation_gain,
    utilisation_rows,
)
from viper_lab.papers.dwim_claims import judged
from viper_lab.papers.dwim_study import AGENTS, MASKED, QUICK_AGENTS, UNTUNED, DwimStudy
from viper_lab.papers.result import Reproduction

TITLE = "DWIM (2025)"


def reproduce_dwim(study: DwimStudy, *, quick: bool) -> Reproduction:
    """Makes, tunes and answers everything that is not stored yet, and judges it."""
    began = time.monotonic()
    study.begin()
    agents = QUICK_AGENTS if quick else AGENTS
    manners = ("standard", "discrepancy") if quick else MANNERS
    rows = list(utilisation_rows(study, manners))
    gains = [utilisation_gain(study, one) for one in manners if one != "discrepancy"]
    rows += answer_rows(study, agents)
    gains += [answer_gain(study, one, MASKED) for one in agents if one != MASKED]
    sandbox = Sandbox(
        prelude=study.components.library.prelude(), mode=study.components.sandbox.mode
    )
    with sandbox:
        samples = (one for seed in study.scale.seeds for one in study.answered(seed))
        tools = perfect_tools(samples)
        found = {one.name: aware(study, one, tools, sandbox) for one in agents}
    rows += awareness_rows(found)
    rows += tool_rows(found[UNTUNED.name], found[MASKED.name])
    made = [one for seed in study.scale.seeds for one in study.made(seed, "discrepancy")]
    flags = flag_report(made)
    facts = {
        "models": model_ids(Reasoner(study.components, preload=False)),
        "seeds": list(study.scale.seeds),
        "workflows": study.scale.workflows,
        "samples": study.scale.samples,
        "set": study.asked.set_name,
        "splits": [study.asked.train, study.asked.test],
        "tuning": asdict(study.scale.settings),
        "actions": dict(flags.actions),
        "ineffective": dict(flags.reasons),
        "quick": quick,
        "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip
    return Reproduction(TITLE, rows, gains, judged(study, found), facts)
