"""Detection by a chat vision-language model that writes boxes as JSON.

``detect`` asks for all phrases in one request, finds the JSON values in the reply (``_entries``),
turns each box into pixels of the picture (``_placed``), and gives it to the phrase that its label
names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress as suppress_errors
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard

import numpy as np

from viper.errors import ToolError
from viper.models.llm.messages import Picture, framed
from viper.models.llm.replies import json_parts
from viper.models.vision.boxes import suppress
from viper.models.vision.roles import Detection, Pixels
from viper.models.vision.vlm import ChatRequest, RoleOnVLM, VisionLanguageModel, as_shown

INSTRUCTION = """Find every object in the picture that fits one of these names: {names}.
Reply with a JSON list and nothing else. Write one entry for each object:
{{"label": "one of the names", "bbox_2d": [{corners}]}}
{units} Reply [] if there is no such object."""
RELATIVE = "Coordinates are whole numbers from 0 to 1000, from the left edge and from the top edge."
IN_PIXELS = "Coordinates are pixels; the picture is {width} pixels wide and {height} pixels high."

# A box may end this share of the side outside the picture; it is then cut off. Models round, and
# are a few pixels off at the border; more means that they count in other units.
TOLERANCE = 0.01

# Keys that models were trained to write and keep to whatever the instruction names (``bbox_2d``
# Qwen, ``box_2d`` Gemini), the requested ones first.
BOX_KEYS = ("bbox_2d", "box", "bbox", "box_2d")
LABEL_KEYS = ("label", "name", "object")
SCORE_KEYS = ("score", "confidence")


@dataclass(frozen=True)
class ShownPicture:
    """A picture as the model gets it, and the (width, height) of the original."""

    pixels: Pixels
    size: tuple[int, int]


class VlmDetector(RoleOnVLM):
    """A ``Detector`` on any chat vision-language model.

    All phrases about a picture go into one request.

    Args:
        vlm: the model; may be shared with other roles.
        in_pixels: ask for pixels, for models that write them whatever they are asked for. The
            default is coordinates from 0 to 1000.
        y_first: the model writes y before x, as Gemini does.
        max_side: with ``in_pixels``, greatest width and height of the picture that the model gets.
            Larger pictures are scaled down. It must not exceed what the model or its endpoint
            keeps.
        max_tokens: maximum length of a reply, about 30 tokens for each box.
    """

    def __init__(
        self,
        vlm: VisionLanguageModel,
        *,
        in_pixels: bool = False,
        y_first: bool = False,
        max_side: int = 1024,
        max_tokens: int = 1024,
    ) -> None:
        super().__init__(vlm, batch_size=1)
        self._in_pixels, self._y_first = in_pixels, y_first
        self._max_side, self._max_tokens = max_side, max_tokens

    def encode(self, images: Sequence[Pixels]) -> list[ShownPicture]:
        """Return each image as the model gets it."""
        return [self.prepare(image) for image in images]

    @property
    def prepare(self) -> Callable[[Pixels], ShownPicture]:
        """See :class:`~viper.models.vision.roles.PreparesPictures`."""
        return partial(_shown, self._vlm.max_pixels, self._max_side if self._in_pixels else None)

    def encode_prepared(self, inputs: Sequence[ShownPicture]) -> list[ShownPicture]:
        """Return the prepared pictures."""
        return list(inputs)

    def detect(self, encoding: ShownPicture, phrases: Sequence[str]) -> list[list[Detection]]:
        """Return the boxes of each phrase, best first; a score is the reply's, else 1.0.

        Raises:
            ToolError: the reply holds no boxes that can be read.
        """
        height, width = encoding.pixels.shape[:2]
        instruction = INSTRUCTION.format(
            names=json.dumps(list(phrases), ensure_ascii=False),
            corners="y0, x0, y1, x1" if self._y_first else "x0, y0, x1, y1",
            units=IN_PIXELS.format(width=width, height=height) if self._in_pixels else RELATIVE,
        )
        request = ChatRequest([encoding.pixels], instruction)
        ((reply, _),) = self._vlm.ask([request], self._max_tokens)
        readable = []
        for _, _, value in json_parts(reply):
            with suppress_errors(ValueError):
                readable.append(_entries(value))
        if not readable:
            raise self._unreadable("no JSON list of boxes", reply)
        entries = [entry for part in readable for entry in part]
        sides = (width, height)
        if not self._in_pixels:
            # Some models write shares of the side whatever they are asked for.
            greatest = max((number for _, corners, _ in entries for number in corners), default=0)
            sides = (1000, 1000) if greatest > 1 else (1, 1)
        boxes = [self._placed(corners, sides, encoding.size, reply) for _, corners, _ in entries]
        corners, scores = np.array(boxes, np.float32), np.array([each[2] for each in entries])
        named = [_phrase_of(label, phrases) for label, _, _ in entries]
        results = []
        for phrase in phrases:
            own = [place for place, name in enumerate(named) if name == phrase]
            results.append(suppress(corners.reshape(-1, 4)[own], scores[own].astype(np.float32)))
        return results

    def _placed(
        self, corners: list[float], sides: tuple[int, int], size: tuple[int, int], reply: str
    ) -> list[float]:
        """Return the corners in pixels of a picture of that (width, height), within it.

        They count from the corners of the picture with its frame, which the model saw.
        """
        x0, y0, x1, y1 = (corners[i] for i in ((1, 0, 3, 2) if self._y_first else (0, 1, 2, 3)))
        across, down = sides
        frame = framed(*size) if self._vlm.max_pixels is not None else size
        low, high = -TOLERANCE, 1 + TOLERANCE
        left, right, upper, lower = x0 / across, x1 / across, y0 / down, y1 / down
        if not (low <= left < right <= high and low <= upper < lower <= high):
            problem = f"the box {corners}, which is not within {across} x {down}"
            raise self._unreadable(problem, reply)
        shares = [min(max(share, 0.0), 1.0) for share in (left, upper, right, lower)]
        places = zip(shares, frame * 2, size * 2, strict=True)
        return [min(share * side, most) for share, side, most in places]

    def _unreadable(self, problem: str, reply: str) -> ToolError:
        return ToolError(
            f"{self.model_id} was asked for boxes and wrote {problem}: "
            f"{' '.join(reply.split())[:80]!r}",
            advice="change the options in_pixels, y_first or max_tokens of the detector, or give "
            "the role to another model",
        )


def _shown(max_pixels: int | None, max_side: int | None, image: Pixels) -> ShownPicture:
    pixels = image if max_side is None else np.array(Picture(image).within(max_side))
    return ShownPicture(as_shown(max_pixels, pixels), (image.shape[1], image.shape[0]))


def _entries(value: Any, label: str = "") -> list[tuple[str, list[float], float]]:
    """Return label, corners and score of each box in a JSON value.

    Raises:
        ValueError: the value holds something else, or a number that is not finite.
    """
    if isinstance(value, list):
        if len(value) == 4 and all(_is_number(number) for number in value):
            return [(label, [float(number) for number in value], 1.0)]
        return [entry for inner in value for entry in _entries(inner, label)]
    if not isinstance(value, dict):
        raise ValueError("neither a list nor an object")
    box = next((value[key] for key in BOX_KEYS if key in value), None)
    if box is None:
        nested = {key: inner for key, inner in value.items() if isinstance(inner, list | dict)}
        if value and not nested:
            raise ValueError("an object without a box")
        return [entry for key, inner in nested.items() for entry in _entries(inner, key)]
    name = next((str(value[key]) for key in LABEL_KEYS if key in value), label)
    stated = next((value[key] for key in SCORE_KEYS if key in value), None)
    score = float(stated) if _is_number(stated) and 0 <= stated <= 1 else 1.0
    return [(name, corners, score) for _, corners, _ in _entries(box)]


def _is_number(value: Any) -> TypeGuard[float]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _phrase_of(label: str, phrases: Sequence[str]) -> str | None:
    """Return the phrase that a label names, word for word or as a part, or None. A lone phrase
    needs no label.
    """
    name = label.casefold().strip()
    pairs = [(phrase, phrase.casefold()) for phrase in phrases]
    exact = [phrase for phrase, plain in pairs if plain == name or len(phrases) == 1]
    near = [phrase for phrase, plain in pairs if name and (plain in name or name in plain)]
    return next(iter(exact or near), None)
