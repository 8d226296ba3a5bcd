"""A fake writer that notes what it was asked for, and may hang: for killing a mining run."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from tests.evaluate.fake_backends import Writer
from viper.models.llm.protocol import Completion, Sampling


class NotingWriter(Writer):
    """Notes each query in the file it is named after; hangs at thing 5 beside a file ``hang``."""

    concurrent = True

    def __init__(self, name: str) -> None:
        super().__init__("noting")
        self._notes = Path(name)

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        for prompt in prompts:
            query = re.findall(r"# query: (.*)", prompt)[-1]
            with self._notes.open("a") as notes:
                notes.write(f"{query} {sampling.temperature} {len(prompt)}\n")
            while "thing 5?" in query and self._notes.with_name("hang").exists():
                time.sleep(0.01)
        return super().generate(prompts, sampling)
