"""A whole reasoner on fake models, a scripted language model and the real sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from viper.api.library import Library
from viper.models.llm.protocol import Completion, Payer
from viper.models.llm.scripted import ScriptedLLM
from viper.reasoner import Reasoner
from viper.sandbox import Limits, Sandbox
from viper.strategies.base import Components
from viper.strategies.settings import RunSettings
from viper.testing.fakes import (
    FakeAnswerer,
    FakeDepth,
    FakeDetector,
    FakeLanguage,
    FakeMatcher,
    FakeVideoModel,
)
from viper.tools.models import ModelSet
from viper.tools.settings import ThresholdSchedule, ToolSettings
from viper.tools.toolbox import Toolbox

HEIGHT, WIDTH = 60, 100


def picture() -> np.ndarray:
    return np.full((HEIGHT, WIDTH, 3), 128, np.uint8)


class Purse(Payer):
    """Keeps the completions that it paid for."""

    def __init__(self) -> None:
        self.paid: list[Completion] = []

    def pay(self, completion: Completion) -> None:
        self.paid.append(completion)


class Clock:
    """A clock that stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


class Slow(ScriptedLLM):
    """Takes sixty seconds for each reply."""

    def __init__(self, replies: list[str], clock: Clock) -> None:
        super().__init__(replies)
        self.clock = clock

    def generate(self, *arguments: Any) -> Any:
        self.clock.now += 60
        return super().generate(*arguments)


class Bench:
    """``Bench(programs)``: a Reasoner whose language model answers with these in turn.

    ``parts`` are further ones of its Components.
    """

    def __init__(
        self,
        programs: list[str],
        library: Library | None = None,
        parts: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        **settings: object,
    ) -> None:
        library = library or Library()
        self.detector = FakeDetector(
            {
                "cube": [((10, 40, 20, 50), 0.9), ((70, 5, 90, 25), 0.5)],
                "ring": [((10, 40, 20, 50), 0.9), ((40, 5, 50, 15), 0.25)],
                "faint ball": [((1, 1, 9, 9), 0.15)],
            }
        )
        self.video = FakeVideoModel({"the cube stops": (2, 4, 0.9), "the ball falls": (5, 7, 0.9)})
        self.llm = ScriptedLLM(programs)
        models = ModelSet(
            {
                "detector": lambda: self.detector,
                "matcher": FakeMatcher,
                "depth": FakeDepth,
                "vqa": lambda: FakeAnswerer({"what color is this?": "red"}),
                "video": lambda: self.video,
                "text": FakeLanguage,
            }
        )
        tools = ToolSettings(
            sensitivities={
                "detector.threshold": ThresholdSchedule(0.4, 0.1, 0.1),
                "video.threshold": ThresholdSchedule(0.3, 0.1, 0.1),
            }
        )
        self.sandbox = Sandbox(limits=limits or Limits(time_s=5.0), prelude=library.prelude())
        more = dict(parts or {})
        self.reasoner = Reasoner(
            Components(
                models={"llm": self.llm, **more.pop("models", {})},
                toolbox=Toolbox(models, tools, library.tool_routines),
                sandbox=self.sandbox,
                settings=RunSettings().changed(**{"prompt_style": "compact", **settings}),
                profile_name="bench",
                library=library,
                **more,
            )
        )

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.reasoner.close()
