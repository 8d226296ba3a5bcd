"""A tuner that needs no model to train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.models.vision.adapter_fakes import prompt
from viper.errors import ModelError
from viper.models.vision.prompt_pool import Evidence
from viper.tuning.soft_prompts.base import TrainedPrompt


@dataclass
class FakeTuner:
    """Trains at once: one prompt that helps and one that does not."""

    role: str
    tool: str
    value: float = 0.9
    lessons: int = 0
    fails: bool = False
    before: float = 0.0
    feature: Sequence[float] = (1.0, 0.0)

    def __call__(self, using: Any, lesson: Any, options: Any, on_progress: Any = None) -> FakeTuner:
        self._asked = (using, lesson, on_progress)
        return self

    def trained(self) -> list[TrainedPrompt]:
        using, lesson, on_progress = self._asked
        self.lessons += 1
        if on_progress is not None:
            on_progress(1, 1)
        if self.fails:
            raise ModelError("the model takes no soft prompts")
        with using() as backend:
            evidence = Evidence(backend.model_id, ("a",), ("b",), self.before, 1.0, "annotated")
        if self.tool == "vqa":
            right = lesson[0].right_already
            return [TrainedPrompt(prompt(0.0 if right else 1.0), evidence)]
        return [
            TrainedPrompt(prompt(self.value, self.feature), evidence),
            TrainedPrompt(
                prompt(0.2, self.feature), evidence, "held-out pictures were not found with it"
            ),
        ]
