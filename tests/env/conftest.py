"""A reasoner whose models are never asked, and a task that has a known right program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from viper.env.tasks import EnvTask, Tasks
from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper_lab.world.everyday.programs import program_of


@pytest.fixture(scope="session")
def reasoner() -> Iterator[Reasoner]:
    with Reasoner(load_profile("embedded"), preload=False) as reasoner:
        yield reasoner


@pytest.fixture(scope="session")
def tasks() -> Tasks:
    return Tasks("world-everyday", split="val", seed=5)


@pytest.fixture(scope="session")
def yes(tasks: Tasks) -> EnvTask:
    """A question whose answer is yes and not always so."""
    return next(
        task
        for task in map(tasks.__getitem__, range(100))
        if task.sample.target == "yes" and len(task.scenes.cases(8)) == 8
    )


def right(task: EnvTask) -> str:
    """Return the canonical program of a task."""
    return program_of(task.sample.load.ask)
