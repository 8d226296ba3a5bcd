"""The whole of ``viper reproduce clova``: tables, tools, then claims."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from viper.evaluate.evaluation import model_ids
from viper.reasoner import Reasoner
from viper.strategies.base import Components
from viper_lab.papers import clova
from viper_lab.papers.clova import NOISE, Study, Table, entries, gains, stream
from viper_lab.papers.clova_claims import Tools, judged
from viper_lab.papers.clova_tools import Outcome, ToolCourse, known_tools, tool_outcome, tool_rows
from viper_lab.papers.fine_tuning import figure
from viper_lab.papers.result import Entry, Gain, Reproduction
from viper_lab.papers.school import School

TITLE = "CLOVA (Gao et al. 2024)"


def tables_for(components: Components, *, has_second: bool, quick: bool) -> list[Table]:
    """The tables that these parts can be measured by."""
    found = [clova.main_table()]
    if quick:
        return found
    follows = components.settings.prompt_style != "compact"
    found += [clova.reflections(follows, follows), clova.cases(), clova.validations()]
    if follows or "planner" in components.models:
        found.append(clova.planning())
    if has_second:
        found.append(clova.second_writer())
    return found


def reproduce_clova(school: School, study: Study, say: Callable[[str], None]) -> Reproduction:
    """Learns and answers everything that is not stored yet, and judges it."""
    began = time.monotonic()
    rows: list[Entry] = []
    steps: list[Gain] = []
    tools = _tools(school, study, say) if study.tools else None
    if tools is not None:
        rows += tools.entries
        steps += tools.gains
    for table in study.tables:
        rows += entries(school, table, study.subjects)
        steps += gains(school, table, study.subjects)
    if not study.quick:
        for pair in stream(school, study.subjects):
            rows += pair
        if study.tools:
            hub, folder = school.writers["main"].hub, school.folder / "tools"
            rows += figure(hub, study.tools, school.terms.seeds[:1], folder, say)
    writers = school.writers.items()
    facts = {
        "models": {name: model_ids(Reasoner(parts, preload=False)) for name, parts in writers},
        "seeds": list(school.terms.seeds),
        "stream": school.terms.stream,
        "samples": school.terms.samples,
        "questions about each concept": study.tools,
        "quick": study.quick,
        "seconds": round(time.monotonic() - began, 1),
    }
    claims = judged(school, study.subjects, tools, quick=study.quick)
    return Reproduction(TITLE, rows, steps, claims, facts)


def _tools(school: School, study: Study, say: Callable[[str], None]) -> Tools:
    """Every tool under every seed, the matcher with wrong pictures beside."""
    hub, folder = school.writers["main"].hub, school.folder / "tools"
    seeds = school.terms.seeds[:1] if study.quick else school.terms.seeds

    def outcomes(course: ToolCourse, name: str) -> list[Outcome]:
        return [
            tool_outcome(hub, replace(course, seed=seed), folder, partial(_named, say, name))
            for seed in seeds
        ]

    found = {tool: outcomes(ToolCourse(tool, 0, study.tools), "tools") for tool in known_tools()}
    noisy = None
    if not study.quick:
        course = ToolCourse("match", 0, study.tools, wrong=NOISE)
        noisy = (
            outcomes(course, "wrong pictures"),
            outcomes(replace(course, validate=False), "wrong pictures, not validated"),
        )
    rows, steps = tool_rows(list(found.values()))
    if noisy is not None:
        for name, one in zip(("validated", "not validated"), noisy, strict=True):
            more, more_steps = tool_rows([one], f"30 % of pictures wrong, {name}")
            rows += more
            steps += more_steps
    return Tools(found, noisy, rows, steps)


def _named(say: Callable[[str], None], name: str, text: str) -> None:
    say(f"{name}: {text}")
