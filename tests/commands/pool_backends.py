"""A writer that plans, takes notes, may be misled and may hang: for starting a pool.

``tests.commands.pool_backends:PlanningWriter``; its model's name is the file of its notes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from tests.evaluate.fake_backends import Writer
from viper.models.llm.protocol import Completion, Sampling

PLAN = "1. Ask the picture about the first thing.\n2. Say what step 1 found."
PROGRAM = """def execute_command(image, question):
    answers = [ImagePatch(image).simple_query(question), 'pink']
    return answers[{place}]
"""
SHOWN = re.compile(r"^## (Plans|Programs|Solved)", re.MULTILINE)


class PlanningWriter(Writer):
    """Carries its plans out to the letter.

    Thing 4 is guessed as soon as a demonstration is shown. It hangs at thing 5, once a
    demonstration is shown, beside a file ``hang``.
    """

    concurrent = True

    def __init__(self, name: str) -> None:
        super().__init__("planning")
        self._notes = Path(name)

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        return [[self._one(prompt)] for prompt in prompts]

    def _one(self, prompt: str) -> Completion:
        plans = prompt.endswith("## Plan")
        thing = re.findall(r"what color is thing (\d+)\?", prompt)[-1]  # the query comes last
        shown = SHOWN.search(prompt) is not None
        with self._notes.open("a") as notes:
            notes.write(
                f"{'plan' if plans else 'program'} {thing} {'shown' if shown else 'bare'}\n"
            )
        while thing == "5" and shown and self._notes.with_name("hang").exists():
            time.sleep(0.01)
        if plans:
            text = "1. Guess." if thing == "4" and shown else PLAN
        else:
            text = self._program(prompt.rpartition("## Plan")[2])
        return Completion(text, len(prompt.split()), 9)

    def _program(self, plan: str) -> str:
        if "Guess" in plan:
            return PROGRAM.format(place=1)
        if "Ask" not in plan or "Say" not in plan:
            return "def execute_command(image):\n    return undefined\n"
        return PROGRAM.format(place=1 if "last" in plan else 0)
