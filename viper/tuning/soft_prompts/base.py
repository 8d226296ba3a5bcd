"""Training-validation prompt tuning: what the tuners of all tools share, and their registry.

A tuner trains one soft prompt for each training instance and validates each on held-out data. A
prompt is discarded if it does not help there, or harms concepts that the tool knew. The tool's
weights never change.

Source: CLOVA (Gao et al. 2024), sec. 3.4.1; the numbers: its supplement, sec. 8.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from viper.errors import UnknownNameError
from viper.models.vision.prompt_pool import Evidence
from viper.models.vision.roles import Pixels
from viper.models.vision.soft_prompts import SoftPrompt

DataT = TypeVar("DataT")

# Returns a context with exclusive use of the backend; see
# :meth:`viper.tools.models.ModelSet.using`.
Using = Callable[[], AbstractContextManager[Any]]

# Called after each step of training with the finished steps and all steps.
Progress = Callable[[int, int], None]


@dataclass
class Steps:
    """Counts the steps of training and reports them. Call it after each step."""

    on_progress: Progress | None
    total: int
    done: int = 0

    def __call__(self, count: int = 1) -> None:
        self.done += count
        if self.on_progress is not None:
            self.on_progress(self.done, self.total)


@dataclass(frozen=True, eq=False)
class TrainedPrompt:
    """One trained soft prompt with its evidence.

    Attributes:
        why: why it was discarded, in words; "" if it is kept.
    """

    prompt: SoftPrompt
    evidence: Evidence
    why: str = ""

    @property
    def kept(self) -> bool:
        return not self.why


@dataclass(frozen=True, eq=False)
class AnsweredQuestion:
    """A question about a picture with its right answer: the training data of VQA.

    Attributes:
        name: name of the question in the evidence.
        pixels: uint8 [H, W, 3], the input of the model.
        right_already: whether the model gave this answer by itself. The question is then kept with
            a zero prompt.
    """

    name: str
    pixels: Pixels
    question: str
    answer: str
    right_already: bool = False


@dataclass(frozen=True)
class TunerOptions:
    """Settings of a tuner.

    Attributes:
        steps: training steps for each prompt; None uses the tuner's default.
        rate: learning rate; None uses the tuner's default.
        seed: random seed.
        validate: False keeps every trained prompt (for ablations).
        decoder: train ``loc`` and ``seg`` as prompts of a decoder instead of probes.
    """

    steps: int | None = None
    rate: float | None = None
    seed: int = 0
    validate: bool = True
    decoder: bool = False

    def tuner_of(self, tool: str) -> str:
        """Return the name of the tuner that trains a tool in this form, if it has the form."""
        name = f"{tool}-decoder" if self.decoder else tool
        return name if name in _TUNERS else tool


USUAL = TunerOptions()


@dataclass
class Tuner(ABC, Generic[DataT]):
    """One training of a tool's soft prompts.

    Args:
        using: holds the backend of ``role``. It is held for one step at a time, so that it can
            answer other calls in between.
        data: training data. ``loc`` and ``seg``: ``Collected[AnnotatedPicture]``. ``match`` and
            ``replace``: ``Collected[FoundPicture]``. ``vqa``: a list of :class:`AnsweredQuestion`.

    Attributes:
        role: role whose backend is trained.
    """

    role: ClassVar[str]

    using: Using
    data: DataT
    options: TunerOptions = USUAL
    on_progress: Progress | None = None

    @abstractmethod
    def trained(self) -> list[TrainedPrompt]:
        """Train prompts and return all, in the order of their instances, discarded ones included.

        Raises:
            UsageError: the backend takes no soft prompts, or there is too little data.
            MediaError, DataError: a picture cannot be read.
            CancelledError: raised by ``on_progress``; no prompt is stored.
        """


# Module and class of each tuner; imported when it trains.
_TUNERS: Mapping[str, str] = {
    "loc": "loc:LocTuner",
    "match": "match:MatchTuner",
    "seg": "seg:SegTuner",
    "vqa": "vqa:VqaTuner",
    "replace": "replace:ReplaceTuner",
    "loc-decoder": "decoder:LocDecoder",
    "seg-decoder": "decoder:SegDecoder",
}

# Names of the trainable tools in the pool; ``match`` is CLOVA's SELECT and CLASSIFY.
TOOLS = tuple(name for name in _TUNERS if "-" not in name)

# Trainable tool by the name that programs call. Other calls take no soft prompts.
FUNCTION_TOOLS: Mapping[str, str] = {
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


def tuner_for(name: str) -> type[Tuner[Any]]:
    """Return the tuner of a name from :meth:`TunerOptions.tuner_of`, by default a tool's.

    Raises:
        UnknownNameError: there is no trainable tool of that name.
    """
    if name not in _TUNERS:
        raise UnknownNameError("tool that can be taught", name, TOOLS)
    module, _, cls = _TUNERS[name].partition(":")
    tuner: type[Tuner[Any]] = getattr(
        importlib.import_module(f"viper.tuning.soft_prompts.{module}"), cls
    )
    return tuner
