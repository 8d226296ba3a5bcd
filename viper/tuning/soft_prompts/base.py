"""Training-validation prompt tuning: what every tool's tuner takes and gives, and which there are.

A tuner trains one soft prompt for each training instance, and judges each on data that it was not
trained on; a prompt that does not help there, or harms what the tool knew, is discarded. The
tool's weights never change.

Source: CLOVA (Gao et al. 2024), sec. 3.4.1; the numbers: its supplement, sec. 8.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from viper.errors import UnknownNameError
from viper.models.vision.roles import Pixels
from viper.models.vision.soft_prompts import SoftPrompt
from viper.tuning.stored_prompts import Evidence

LessonT = TypeVar("LessonT", contravariant=True)

Using = Callable[[], AbstractContextManager[Any]]
"""Gives the backend for this thread alone; see :meth:`viper.tools.models.ModelSet.using`."""

Progress = Callable[[int, int], None]
"""Told after each step of training: how many were done, how many there will be in all."""


@dataclass
class Steps:
    """Counts steps for who follows the training; call it after each."""

    on_progress: Progress | None
    total: int
    done: int = 0

    def __call__(self, count: int = 1) -> None:
        self.done += count
        if self.on_progress is not None:
            self.on_progress(self.done, self.total)


@dataclass(frozen=True, eq=False)
class TrainedPrompt:
    """One soft prompt with what is known of it.

    Attributes:
        why: why it was discarded, in words; empty: it is kept.
    """

    prompt: SoftPrompt
    evidence: Evidence
    why: str = ""

    @property
    def kept(self) -> bool:
        return not self.why


@dataclass(frozen=True, eq=False)
class AnsweredQuestion:
    """A question about a picture with the answer that it should have; the lesson of VQA.

    Attributes:
        name: tells it from others in the evidence.
        pixels: uint8 [H, W, 3] as the model is shown them.
        right_already: the model answered so by itself: it is kept with a zero prompt.
    """

    name: str
    pixels: Pixels
    question: str
    answer: str
    right_already: bool = False


@dataclass(frozen=True)
class TunerOptions:
    """How a tuner trains.

    Attributes:
        steps: of training each prompt; None: the tuner's own number.
        rate: of learning; None: the tuner's own.
        seed: of everything that is drawn.
        validate: False keeps every prompt that was trained (for ablations).
    """

    steps: int | None = None
    rate: float | None = None
    seed: int = 0
    validate: bool = True


USUAL = TunerOptions()


class Tuner(Protocol[LessonT]):
    """Teaches one tool.

    Attributes:
        tool: the pool's name of it.
        role: whose backend is taught.
    """

    tool: str
    role: str

    def learn(
        self,
        using: Using,
        lesson: LessonT,
        options: TunerOptions = USUAL,
        on_progress: Progress | None = None,
    ) -> list[TrainedPrompt]:
        """Train prompts and return all, in the order of their instances, discarded ones included.

        The backend is held for a step at a time, so that it answers others in between.

        Args:
            lesson: positives and negatives (``loc`` and ``seg``:
                ``Collected[AnnotatedPicture]``, ``match`` and ``replace``:
                ``Collected[FoundPicture]``), or of ``vqa`` a list of :class:`AnsweredQuestion`.

        Raises:
            UsageError: a backend that takes no soft prompts, or too little to learn from.
            CancelledError: raised by ``on_progress``; nothing is half kept.
        """
        ...


_TUNERS: Mapping[str, str] = MappingProxyType(
    {
        "loc": "viper.tuning.soft_prompts.loc:LocTuner",
        "match": "viper.tuning.soft_prompts.match:MatchTuner",
        "seg": "viper.tuning.soft_prompts.seg:SegTuner",
        "vqa": "viper.tuning.soft_prompts.vqa:VqaTuner",
        "replace": "viper.tuning.soft_prompts.replace:ReplaceTuner",
    }
)

TOOLS = tuple(_TUNERS)
"""The tools that can be taught, by the pool's names; ``match`` is SELECT and CLASSIFY."""

ABILITY_TOOLS: Mapping[str, str] = MappingProxyType(
    {
        "find": "loc",
        "exists": "loc",
        "verify_property": "match",
        "best_text_match": "match",
        "best_description_from_options": "match",
        "best_image_match": "match",
        "simple_query": "vqa",
        "segment": "seg",
        "replace": "replace",
    }
)
"""Which tool stands behind what programs call; others take no soft prompts."""


def tuner_for(tool: str) -> Tuner[Any]:
    """Return a tool's tuner with the defaults of CLOVA's supplement in the architecture's own
    width.

    Raises:
        UnknownNameError: there is no such tool that can be taught.
    """
    if tool not in _TUNERS:
        raise UnknownNameError("tool that can be taught", tool, TOOLS)
    module, name = _TUNERS[tool].split(":")
    tuner: Tuner[Any] = getattr(importlib.import_module(module), name)()
    return tuner
