"""Detection by a chat vision-language model that writes boxes as JSON.

``detect`` asks for all phrases in one request, finds the JSON values in the reply (``_entries``),
turns each box into pixels of the picture (``_placed``), and gives it to the phrase that its label
names. In pixels, the picture is told, shown and read at one size, which no model scales again
(``_on_grid``).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from viper.errors import ToolError
from viper.models.libraries import Image
from viper.models.llm.messages import framed
from viper.models.llm.replies import json_parts
from viper.models.options import check_at_least
from viper.models.vision.boxes import suppress
from viper.models.vision.roles import Detection, Detections, Pixels
from viper.models.vision.vlm import (
    ChatRequest,
    CutReplyError,
    PicturesOnVLM,
    VisionLanguageModel,
    as_shown,
)

INSTRUCTION = """Find every object in the picture that fits one of these names: {names}.
Reply with a JSON list and nothing else. Write one entry for each object:
{{"label": "one of the names", "{key}": [{corners}]}}
{units} Reply [] if there is no such object."""
RELATIVE = "Coordinates are whole numbers from 0 to 1000, from the left edge and from the top edge."
IN_PIXELS = "Coordinates are pixels; the picture is {width} pixels wide and {height} pixels high."

# A box may end this share of the side outside the picture; it is then cut off. Models extend boxes
# of objects that the border cuts.
TOLERANCE = 0.1

# Keys that models were trained to write and keep to whatever the instruction names (``bbox_2d``
# Qwen, x first; ``box_2d`` Gemini, y first), the requested ones first.
Y_FIRST_KEY = "box_2d"
BOX_KEYS = ("bbox_2d", "box", "bbox", Y_FIRST_KEY)
LABEL_KEYS = ("label", "name", "object")
SCORE_KEYS = ("score", "confidence")

# Qwen2-VL and Qwen2.5-VL round the sides of a picture to multiples of 28 pixels and write pixels of
# the rounded one; for other models the rounding changes next to nothing.
GRID = 28

# Shortest longer side of a picture whose boxes are counted in pixels: a multiple of the grid above
# ``PictureEncoder.MIN_SIDE``, so that an endpoint's client does not enlarge the picture once more.
LEAST_SIDE = 8 * GRID


@dataclass(frozen=True)
class ShownPicture:
    """A picture as the model gets it, (width, height) of the original, and those of its frame,
    which is what the model sees, in pixels of the original.
    """

    pixels: Pixels
    size: tuple[int, int]
    frame: tuple[int, int]


class Entry(NamedTuple):
    """Box in a reply: four numbers in the model's order under ``key``, "" for a bare list."""

    label: str
    corners: list[float]
    score: float = 1.0
    key: str = ""


class VlmDetector(PicturesOnVLM):
    """A ``Detector`` on any chat vision-language model.

    All phrases about a picture go into one request. Where neither an option nor the model's
    capabilities tell how it writes boxes, the key of each box does.

    Args:
        vlm: the model; may be shared with other roles.
        in_pixels: ask for pixels, for models that write them whatever they are asked for, instead
            of coordinates from 0 to 1000.
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
        in_pixels: bool | None = None,
        y_first: bool | None = None,
        max_side: int = 1024,
        max_tokens: int = 4096,
    ) -> None:
        check_at_least(LEAST_SIDE, max_side=max_side)
        check_at_least(1, max_tokens=max_tokens)
        super().__init__(vlm, batch_size=1)
        self._in_pixels = vlm.boxes == "pixels" if in_pixels is None else in_pixels
        self._y_first = vlm.boxes == "yx_1000" if y_first is None and vlm.boxes else y_first
        self._max_side, self._max_tokens = max_side, max_tokens

    @property
    def prepare(self) -> Callable[[Pixels], ShownPicture]:
        """See :class:`~viper.models.vision.roles.PreparesPictures`."""
        return partial(_shown, self._vlm.max_pixels, self._max_side if self._in_pixels else None)

    def detect(self, encoding: ShownPicture, phrases: Sequence[str]) -> list[list[Detection]]:
        """Return the boxes of each phrase, best first; a score is the reply's, else 1.0.

        Entries without a box, and boxes that are empty or outside of the picture, are left out. The
        boxes' ``note`` says so, and that the limit of tokens cut the reply.

        Raises:
            CutReplyError: the limit cut the reply before its first box.
            ToolError: the reply holds no boxes that can be read, or most are not within the
                picture: the model counts in other units.
        """
        height, width = encoding.pixels.shape[:2]
        instruction = INSTRUCTION.format(
            names=json.dumps(list(phrases), ensure_ascii=False),
            key=Y_FIRST_KEY if self._y_first else BOX_KEYS[0],
            corners="y0, x0, y1, x1" if self._y_first else "x0, y0, x1, y1",
            units=IN_PIXELS.format(width=width, height=height) if self._in_pixels else RELATIVE,
        )
        cut: CutReplyError | None = None
        try:
            ((reply, _),) = self._vlm.ask(
                [ChatRequest([encoding.pixels], instruction)], self._max_tokens
            )
        except CutReplyError as error:
            reply, cut = error.text, error
        parts = [_entries(value) for _, _, value in json_parts(reply)]
        entries = [entry for part, _ in parts for entry in part]
        if cut and not entries:
            raise cut
        if not any(part or not unreadable for part, unreadable in parts):
            raise self._unreadable("no JSON list of boxes", reply)
        sides = (width, height)
        if not self._in_pixels:
            # Some models write shares of the side whatever they are asked for.
            greatest = max((number for each in entries for number in each.corners), default=0)
            sides = (1000, 1000) if greatest > 1 else (1, 1)
        boxes = [self._placed(entry, sides, encoding) for entry in entries]
        if entries and (2 * boxes.count(None) > len(boxes) or not any(boxes)):
            corners = entries[next(i for i, box in enumerate(boxes) if not box)].corners
            problem = f"the box {corners}, which is empty or not within {sides[0]} x {sides[1]}"
            raise self._unreadable(problem, reply)
        named = [_phrase_of(entry.label, phrases) for entry in entries]
        lost = sum(unreadable for _, unreadable in parts) + sum(not box for box in boxes)
        notes = [f"{lost} of {lost + sum(map(bool, boxes))} entries held no box in the picture"]
        other = sorted(
            {entry.label for entry, name in zip(entries, named, strict=True) if not name}
        )
        notes = notes if lost else []
        if other and {*phrases} - {*named}:  # they may mean a name that has no box
            notes.append(f"boxes labelled {', '.join(map(repr, other[:3]))} fit no name")
        notes += ["the limit of tokens cut the list"] if cut else []
        results: list[list[Detection]] = []
        for phrase in phrases:
            own = [i for i, box in enumerate(boxes) if box and named[i] == phrase]
            corners_of = np.array([boxes[i] for i in own], np.float32).reshape(-1, 4)
            scores = np.array([entries[i].score for i in own], np.float32)
            results.append(Detections(suppress(corners_of, scores), "; ".join(notes)))
        return results

    def _placed(
        self, entry: Entry, sides: tuple[int, int], shown: ShownPicture
    ) -> list[float] | None:
        """Return the corners in pixels of the original; [] for an empty box, None for one that is
        not within the picture.
        """
        by_key = entry.key == Y_FIRST_KEY and not self._in_pixels
        y_first = by_key if self._y_first is None else self._y_first
        x0, y0, x1, y1 = (entry.corners[i] for i in ((1, 0, 3, 2) if y_first else (0, 1, 2, 3)))
        left, right = sorted((x0 / sides[0], x1 / sides[0]))
        upper, lower = sorted((y0 / sides[1], y1 / sides[1]))
        shares = (left, upper, right, lower)
        if not all(-TOLERANCE <= share <= 1 + TOLERANCE for share in shares):
            return None
        places = zip(shares, shown.frame * 2, shown.size * 2, strict=True)
        box = [min(max(share * side, 0.0), float(most)) for share, side, most in places]
        return box if box[0] < box[2] and box[1] < box[3] else []

    def _unreadable(self, problem: str, reply: str) -> ToolError:
        return ToolError(
            f"{self.model_id} was asked for boxes and wrote {problem}: "
            f"{' '.join(reply.split())[:80]!r}",
            advice="change the options in_pixels, y_first or max_tokens of the detector, or give "
            "the role to another model",
        )


def _shown(max_pixels: int | None, max_side: int | None, image: Pixels) -> ShownPicture:
    size = (image.shape[1], image.shape[0])
    if max_side is not None:
        fitted = Image.fromarray(image).resize(
            _on_grid(size, max_side, max_pixels), Image.Resampling.BICUBIC
        )
        return ShownPicture(np.array(fitted), size, size)
    frame = size if max_pixels is None else framed(*size)
    return ShownPicture(as_shown(max_pixels, image), size, frame)


def _on_grid(size: tuple[int, int], max_side: int, max_pixels: int | None) -> tuple[int, int]:
    """Return the (width, height) in multiples of the grid that a picture is scaled to."""
    width, height = size
    area = (max_pixels or sys.maxsize) / (width * height)
    scale = min(max(1.0, LEAST_SIDE / max(size)), max_side / max(size), math.sqrt(area))
    steps = [side * scale / GRID for side in size]
    # Rounding up must not exceed a limit. 2 steps are Qwen's least side of a square.
    rounded = [min(round(step), max_side // GRID) for step in steps]
    fits = max_pixels is None or math.prod(rounded) * GRID * GRID <= max_pixels
    across, down = (max(2, step) for step in (rounded if fits else map(int, steps)))
    return across * GRID, down * GRID


def _entries(value: Any, label: str = "", key: str = "") -> tuple[list[Entry], int]:
    """Return the boxes in a JSON value, and the number of its entries that hold none."""
    if isinstance(value, list):
        if len(value) == 4 and all(_is_number(number) for number in value):
            return [Entry(label, [float(number) for number in value], key=key)], 0
        if not value or not any(isinstance(inner, list | dict) for inner in value):
            return [], bool(value)
        parts = [_entries(inner, label, key) for inner in value]
        return [entry for part, _ in parts for entry in part], sum(lost for _, lost in parts)
    if not isinstance(value, dict):
        return [], 1
    key = next((key for key in BOX_KEYS if key in value), "")
    if not key:
        nested = {name: inner for name, inner in value.items() if isinstance(inner, list | dict)}
        parts = [_entries(inner, name) for name, inner in nested.items()]
        lost = sum(lost for _, lost in parts) + (bool(value) and not nested)
        return [entry for part, _ in parts for entry in part], lost
    name = next((str(value[key]) for key in LABEL_KEYS if key in value), label)
    stated = next((value[key] for key in SCORE_KEYS if key in value), None)
    score = float(stated) if _is_number(stated) and 0 <= stated <= 1 else 1.0
    boxes, lost = _entries(value[key], name, key)
    return [entry._replace(score=score) for entry in boxes], lost


def _is_number(value: Any) -> TypeGuard[float]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _phrase_of(label: str, phrases: Sequence[str]) -> str | None:
    """Return the phrase that a label names, word for word or as a part, or None. A lone phrase
    needs no label.
    """
    name = _singular(label)
    pairs = [(phrase, _singular(phrase)) for phrase in sorted(phrases, key=len, reverse=True)]
    exact = [phrase for phrase, plain in pairs if plain == name or len(phrases) == 1]
    near = [phrase for phrase, plain in pairs if name and (plain in name or name in plain)]
    return next(iter(exact or near), None)


def _singular(text: str) -> str:
    """Return the words of a text between blanks, without a plural *s*."""
    words = (word.removesuffix("s") for word in text.casefold().split())
    return f" {' '.join(words)} "
