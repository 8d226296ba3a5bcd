"""Both pools under SIGKILL, and a pool that is read by others while it grows."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.tuning.prompt_fakes import MODEL
from viper.models.vision.prompt_pool import PromptPool
from viper.schema import Query
from viper.strategies.demonstration_pool import DemonstrationPool
from viper.strategies.examples import ExampleRequest

ROOT = Path(__file__).parents[2]


def writer(state: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.tuning.pool_writer", str(state)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None and process.stdout.readline() == "open\n"
    return process


def assert_whole(state: Path) -> tuple[int, int]:
    """Tasks in the one pool and in the other; each left all or nothing."""
    items = DemonstrationPool(state / "demonstrations").items()
    parts = Counter(one.example.query for one in items)
    assert set(parts.values()) <= {2} and len({one.id for one in items}) == len(items)
    assert all(one.helped + one.misled <= 1 for one in items)
    prompts = PromptPool(state / "prompts")
    kept = Counter(one.concept for one in prompts.kept())
    assert set(kept.values()) <= {2}
    for concept in kept:
        number = int(concept.split()[1])
        found = prompts.candidates("loc", concept, MODEL)
        assert [one.vectors[0, 0] for one in found] == [2 * number, 2 * number + 1]
    return len(parts), len(kept)


@pytest.mark.timeout(150)
def test_kills_leave_whole_tasks_and_learning_goes_on(tmp_path: Path) -> None:
    choice, told = random.Random(5), -1
    for _ in range(5):
        process = writer(tmp_path)
        assert process.stdout is not None
        for _ in range(choice.randrange(1, 9)):
            told = max(told, int(process.stdout.readline()))
        process.send_signal(signal.SIGKILL)
        rest = process.communicate()[0].split("\n")[:-1]
        told = max([told, *map(int, rest)])
        tasks, concepts = assert_whole(tmp_path)
        assert tasks >= told + 1 and concepts >= told
    assert told >= 5


@pytest.mark.timeout(150)
def test_others_answer_with_whole_versions_while_one_learns(tmp_path: Path) -> None:
    process = writer(tmp_path)
    wanted = ExampleRequest("ground", "abstract", 4, 4, "plan", "bm25")
    pool, prompts = DemonstrationPool(tmp_path / "demonstrations"), PromptPool(tmp_path / "prompts")
    seen, versions = [0], [0]
    try:
        while seen[-1] < 12:
            shown = pool.select(Query("a task", "ground"), wanted).correct
            assert len(shown) <= 4 and all(one.example.part == "plan" for one in shown)
            seen.append(len(pool.items()))
            versions.append(prompts.store.version)
            mixture = prompts.ensemble("loc", "thing 3", np.ones(8, np.float32), model_id=MODEL)
            assert mixture is None or 6 <= mixture[0, 0] <= 7
    finally:
        process.kill()
        process.communicate()
    assert all(count % 2 == 0 for count in seen)
    assert seen == sorted(seen) and versions == sorted(versions)
