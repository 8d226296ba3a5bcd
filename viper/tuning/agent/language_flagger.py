"""Flags by a language model that reads the whole workflow.

Source: DWIM (2025), supplement, sec. 9, which names it as what should follow the rules; the words
are ours.
"""

from __future__ import annotations

import re
from importlib import resources
from string import Template

from viper.llm.protocol import LLM, Sampling
from viper.prompting.compact import one_line
from viper.prompting.exploring import step_text
from viper.tuning.agent.flagging import Flag, flagged
from viper.tuning.agent.workflow import Workflow, step_of

TOKENS_AN_ACTION = 8

SAID = "said"
"""The reason of a flag that a language model set."""


def flagged_by(llm: LLM, workflow: Workflow) -> list[Flag]:
    """A flag for every turn; what the reply does not speak of is flagged by the rules."""
    actions = [one for one in workflow.turns if one.kind in ("code", "thought", "done")]
    numbers = {turn.index: number for number, turn in enumerate(actions, start=1)}
    lines = [
        f"Action {numbers[turn.index]}:\n{step_text(step_of(turn))}"
        if turn.index in numbers
        else step_text(step_of(turn))
        for turn in workflow.turns
        if turn.kind != "forced"
    ]
    file = resources.files("viper.prompting") / "templates" / "explore_flag.md"
    prompt = Template(file.read_text(encoding="utf-8")).substitute(
        query=one_line(workflow.query.text),
        answer=one_line(str(workflow.answer)),
        outcome="right" if workflow.outcome in ("right", "copied") else "wrong",
        workflow="".join(lines),
        count=len(actions),
    )
    sampling = Sampling(max_tokens=TOKENS_AN_ACTION * len(actions) + 16)
    reply = llm.generate([prompt], sampling)[0][0].text
    said = {
        int(found[1]): found[2].lower() == "effective"
        for found in re.finditer(r"(\d+)\W+(ineffective|effective)\b", reply, re.IGNORECASE)
    }
    flags = []
    for flag in flagged(workflow.turns):
        number = numbers.get(flag.index)
        if number in said:
            flag = Flag(flag.index, "" if said[number] else SAID, "llm")
        flags.append(flag)
    return flags
