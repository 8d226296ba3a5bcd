"""What actors are made of in tests; they import it as ``tests.evaluate.ray_backends``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tests.evaluate.fake_backends import Answerer, Writer
from tests.jobs.job_backends import Lamps
from viper.errors import ProfileError
from viper.models.llm.protocol import Completion, Sampling


class DeadlyWriter(Writer):
    """Kills its process at a question; named after a folder that says when.

    ``once-N`` there kills at question N and is gone then; ``always-N`` kills each time.
    """

    concurrent = True

    def __init__(self, name: str) -> None:
        super().__init__("writer")
        self._folder = Path(name)

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        for flag in self._folder.iterdir():
            when, _, number = flag.name.partition("-")
            if f"thing {number}?" in prompts[0]:
                if when == "once":
                    flag.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().generate(prompts, sampling)


class SlowAnswerer(Answerer):
    """Takes 50 ms a batch, as a model on a GPU may; named after a file that kills it once."""

    def __init__(self, name: str) -> None:
        super().__init__("answerer")
        self._flag = Path(name)

    def answer(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[tuple[str, float]]:
        time.sleep(0.05)
        die_once(self._flag)
        return super().answer(encodings, questions)


class DeadlyLamps(Lamps):
    """Named after a file that kills it once, at the twentieth picture or later."""

    def __init__(self, name: str) -> None:
        super().__init__("lamps")
        self._flag, self._seen = Path(name), 0

    def encode(self, images: Sequence[Any]) -> list[Any]:
        self._seen += len(images)
        if self._seen >= 20:
            die_once(self._flag)
        return super().encode(images)


def die_once(flag: Path) -> None:
    """Kill this process if there is a file, which is removed."""
    with suppress(FileNotFoundError):
        flag.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class BrokenRecipe:
    """Cannot make a reasoner: for a reason in words, or by the death of its process."""

    deadly: bool

    def __call__(self) -> NoReturn:
        if self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        raise ProfileError("fake.toml: line 3: no such role")
