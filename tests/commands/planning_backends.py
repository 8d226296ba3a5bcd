"""A planner that a profile can name, ``tests.commands.planning_backends:Planner``."""

from __future__ import annotations

from collections.abc import Sequence

from tests.evaluate.fake_backends import Writer
from viper.models.llm.protocol import Completion, Sampling


class Planner(Writer):
    """Plans the same for every query."""

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        plan = "Sure!\n\n1. Ask the picture.\n2. Say what step 1 found."
        return [[Completion(plan, len(prompt.split()), 9)] for prompt in prompts]
