"""Tools that are wrong about one thing, on purpose and consistently.

A fault changes a model's output before thresholds and choices: a box's score, a crop's embedding, a
depth map. So every call about the same thing meets the same mistake with the same scores, as with a
model that learned it wrong. Repeating a call does not reveal the fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from viper.models.vision.roles import Detection
from viper.schema import PixelBox
from viper.tools.session import ToolSession
from viper.tools.toolbox import Toolbox

Key = tuple[Any, ...]


class ToolFault(Protocol):
    """One mistake of the model in a role."""

    @property
    def role(self) -> str: ...

    def altered(self, operation: str, key: Key, value: Any) -> Any:
        """Return the model's faulty output, or ``value`` itself if the fault is not about it.

        Args:
            operation: the model's operation.
            key: the toolbox key of the input: the key of ``computed``, or (picture, box).
        """
        ...


class _FaultySession(ToolSession):
    """Alters model outputs after the caches, so the caches stay true."""

    toolbox: FaultyToolbox

    def encoded(
        self, role: str, where: tuple[str, Any], operation: str, make: Callable[[], Any]
    ) -> Any:
        value = super().encoded(role, where, operation, make)
        return self._altered(role, operation, where, value)

    def computed(self, role: str, key: Key, operation: str, *args: Any, **named: Any) -> Any:
        value = super().computed(role, key, operation, *args, **named)
        return self._altered(role, operation, key, value)

    def _altered(self, role: str, operation: str, key: Key, value: Any) -> Any:
        wrong = self.toolbox.wrong
        return wrong.altered(operation, key, value) if role == wrong.role else value


class FaultyToolbox(Toolbox):
    """A toolbox over the models and caches of another, in which one model makes one mistake."""

    session_type = _FaultySession

    def __init__(self, toolbox: Toolbox, wrong: ToolFault) -> None:
        vars(self).update(vars(toolbox))
        self.wrong = wrong


@dataclass(frozen=True)
class FaultyScores:
    """A detector that gives boxes of some phrases other scores.

    Attributes:
        scores: by box, in pixels of the detector's input.
    """

    phrases: frozenset[str]
    scores: Mapping[PixelBox, float]
    role: str = "detector"

    def altered(self, operation: str, key: Key, value: Any) -> Any:
        if operation != "detect" or key[-1] not in self.phrases:
            return value
        detections: Sequence[Detection]
        (detections,) = value  # of one phrase
        changed = [
            replace(item, score=self.scores.get(item.box, item.score)) for item in detections
        ]
        return [sorted(changed, key=lambda item: -item.score)]


@dataclass(frozen=True)
class FaultyOutput:
    """A model with another output for one input.

    Attributes:
        operation, key: identify the input.
        output: a crop's embedding, the windows of an event.
    """

    role: str
    operation: str
    key: Key
    output: Any

    def altered(self, operation: str, key: Key, value: Any) -> Any:
        return self.output if (operation, key) == (self.operation, self.key) else value


@dataclass(frozen=True)
class FaultyText:
    """A VQA model or language model that answers one question with other words.

    Attributes:
        key: of the question in the toolbox.
        right: the original answer.
        wrong: the faulty answer.
        sureness: probability of ``wrong`` if ``right`` is the only other answer.
        total: log-probability of the two together; None takes that of the true model.
    """

    role: str
    key: Key
    right: str
    wrong: str
    sureness: float
    total: float | None = None

    def altered(self, operation: str, key: Key, value: Any) -> Any:
        if operation in ("answer", "select", "describe"):
            return self.wrong if key == self.key else value
        own_key = key[1:-1] if self.role == "vqa" else ("select", *key[1:])
        if key[:1] != ("likelihoods",) or own_key != self.key or value is None:
            return value
        scores = dict(zip(key[-1], value, strict=True))
        total = self.total
        if total is None:
            total = float(np.logaddexp(scores[self.right], scores[self.wrong]))
        own = {self.wrong: math.log(self.sureness), self.right: math.log(1 - self.sureness)}
        return [total + own[text] if text in own else scores[text] for text in key[-1]]


@dataclass(frozen=True)
class FaultyDepth:
    """A depth model that multiplies the depth in a box of one picture by ``factor``."""

    image_id: str
    box: tuple[int, int, int, int]
    factor: float
    role: str = "depth"

    def altered(self, operation: str, key: Key, value: Any) -> Any:
        if operation != "depth" or key[0] != self.image_id:
            return value
        x0, y0, x1, y1 = self.box
        changed = np.array(value)
        changed[y0:y1, x0:x1] *= self.factor
        return changed
