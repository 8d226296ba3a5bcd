"""A fake writer that thinks up queries and answers them, notes what it was asked, and may hang."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from viper.models.llm.protocol import Completion, Sampling

HEAD = "def execute_command(image, question):\n    "
ASKING = f"{HEAD}# say: simple_query\n    return ImagePatch(image).simple_query(question)"

REPLY = """Sure, here they are:

1. "what color is thing 1?"
2. what color is thing 5?
3. which thing is odd?
3. Which thing is odd
4. what breaks?
5. which thing is mostly agreed on?
"""


class SheetWriter:
    """Notes each request in the file it is named after; hangs at thing 5 beside a file ``hang``.

    Asked for queries it gives the file ``reply`` beside its notes, else ``REPLY``. Programs for an
    odd query answer differently under each seed, every fifth one for what is mostly agreed on.
    """

    max_context = 100_000
    can_score = False
    concurrent = True

    def __init__(self, name: str) -> None:
        self.model_id, self._notes = "fake-sheet", Path(name)

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        return [[Completion(self._said(prompt, sampling), 9, 9)] for prompt in prompts]

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        raise AssertionError("a sheet is drawn from, never scored")

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def _said(self, prompt: str, sampling: Sampling) -> str:
        if "## Data sheet" in prompt:
            self._note(f"queries {sampling.seed}")
            reply = self._notes.with_name("reply")
            return reply.read_text() if reply.exists() else REPLY
        query, draw = re.findall(r"# query: (.*)", prompt)[-1], sampling.seed // 1_000
        self._note(f"program {draw} {sampling.temperature} {query}")
        while "thing 5?" in query and self._notes.with_name("hang").exists():
            time.sleep(0.01)
        if "breaks" in query:
            return f"{HEAD}return [][0]"
        if "odd" in query or ("mostly" in query and draw % 5 == 0):
            return f"{HEAD}return 'number {draw}'"
        return ASKING

    def _note(self, line: str) -> None:
        with self._notes.open("a") as notes:
            notes.write(f"{line}\n")
