"""Training-validation prompt tuning: what every tool's tuner takes and gives.

A tuner trains one soft prompt for each training instance, and judges each on data that it was not
trained on; a prompt that does not help there, or harms what the tool knew, is discarded. The
tool's weights never change.

Source: CLOVA (Gao et al. 2024), sec. 3.4.1; the numbers: its supplement, sec. 8.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from viper.tools.roles import Pixels
from viper.tools.soft_prompts import SoftPrompt
from viper.tuning.kept_prompts import Evidence

LessonT = TypeVar("LessonT", contravariant=True)

Using = Callable[[], AbstractContextManager[Any]]
"""Gives the backend for this thread alone; see :meth:`viper.tools.models.ModelSet.using`."""

Progress = Callable[[int, int], None]
"""Told after each step of training: how many were done, how many there will be in all."""


@dataclass(frozen=True, eq=False)
class Trained:
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
    ) -> list[Trained]:
        """The prompts that were trained, in the order of their instances, kept or not.

        The backend is held for a step at a time, so that it answers others in between.

        Args:
            lesson: positives and negatives (``loc`` and ``seg``:
                ``Collected[AnnotatedPicture]``, ``match`` and ``replace``:
                ``Collected[FoundPicture]``), or of ``vqa`` a list of :class:`AnsweredQuestion`.

        Raises:
            UsageError: a backend that cannot be taught, or too little to learn from.
            CancelledError: raised by ``on_progress``; nothing is half kept.
        """
        ...
