"""A process that lets both pools grow until it is killed; says each task whose lessons are kept.

``pool_writer.py STATE``: a task adds its plan and its program, counts the outcome of the task
before, and teaches a concept two prompts.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.ace.demonstrated import demonstrated
from tests.tuning.prompt_fakes import learned
from viper.models.vision.prompt_pool import PromptPool
from viper.strategies.demonstration_pool import DemonstrationPool


def main(state: str) -> int:
    demonstrations = DemonstrationPool(Path(state) / "demonstrations")
    prompts = PromptPool(Path(state) / "prompts")
    number = len(demonstrations.items()) // 2
    print("open", flush=True)
    before: list[str] = []
    while True:
        query = f"task {number}"
        before_now = [demonstrated(query=query, part=part) for part in ("plan", "program")]
        demonstrations.record_outcome(before, solved=bool(number % 2))
        before = demonstrations.add(before_now)
        prompts.add("loc", f"thing {number}", [learned(2.0 * number), learned(2.0 * number + 1)])
        print(number, flush=True)
        number += 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
