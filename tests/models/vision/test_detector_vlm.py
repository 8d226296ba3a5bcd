"""Boxes that a chat model writes: how they are asked for, read, checked and placed."""

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from viper.errors import ToolError
from viper.models.llm.messages import MAX_PIXELS, Picture, PictureEncoder, as_text
from viper.models.llm.protocol import Completion
from viper.models.llm.scripted import ScriptedLLM
from viper.models.vision.detector_vlm import VlmDetector
from viper.models.vision.roles import Detection, Detections, Detector
from viper.models.vision.vlm import ChatRequest, CutReplyError, EndpointVLM

PICTURE = np.zeros((200, 400, 3), np.uint8)


class Told:
    """A model that replies as told."""

    model_id = "told"
    memory_bytes = 0
    concurrent = False
    max_pixels: int | None = None
    boxes = ""

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.asked: list[ChatRequest] = []

    def in_batches_of(self, size: int) -> "Told":
        return self

    def ask(self, requests: Sequence[ChatRequest], max_new_tokens: int) -> list[tuple[str, float]]:
        self.asked += requests
        return [(self.reply, 1.0) for _ in requests]

    def probability_of_yes(self, requests: Sequence[ChatRequest]) -> list[float]:
        raise NotImplementedError


def detected(
    reply: str, phrases: Sequence[str] = ("cube",), picture: np.ndarray = PICTURE, **options: object
) -> list[list[Detection]]:
    detector = VlmDetector(Told(reply), **options)  # type: ignore[arg-type]
    (encoding,) = detector.encode([picture])
    return detector.detect(encoding, phrases)


ONE = [Detection((40.0, 20.0, 80.0, 100.0), 1.0)]


@pytest.mark.parametrize(
    "reply",
    [
        '[{"label": "cube", "bbox_2d": [100, 100, 200, 500]}]',
        'Here it is:\n```json\n[\n  {"bbox_2d": [100, 100, 200, 500], "label": "cube"}\n]\n```\nOk',
        '{"label": "a cube", "box": [100.0, 100, 200, 500]}',
        '[{"name": "whatever", "bbox": [100, 100, 200, 500]}]',
        "[[100, 100, 200, 500]]",
        "[100, 100, 200, 500]",
        '{"objects": [{"label": "cube", "bbox": [100, 100, 200, 500]}], "count": 1}',
        '[{"label": "cube", "box_2d": [100, 100, 500, 200]}]',
        '[{"label": "cube", "bbox_2d": [200, 500, 100, 100]}]',
        '{"cube": [[100, 100, 200, 500]]}',
        '{"label": "cube", "bbox_2d": [[100, 100, 200, 500]]}',
        '[{"bbox_2d": [0.1, 0.1, 0.2, 0.5]}]',
        '[{"bbox_2d": [100, 100, 200, 500]}, {"label": "cube", "bbox',
        'As in [1]:\n{"bbox_2d": [100, 100, 200, 500]}\n{"bbox_2d": [100, 100, 200, 501]}',
    ],
)
def test_forms_of_boxes(reply: str) -> None:
    ((box,),) = detected(reply)
    assert box.box == pytest.approx(ONE[0].box, abs=0.5) and box.score == 1.0


@pytest.mark.parametrize(
    "reply", ["[]", "```json\n[]\n```", "{}", '{"objects": []}', '{"cube": []}']
)
def test_no_objects(reply: str) -> None:
    assert detected(reply) == [[]]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("I see a cube on the left.", "no JSON list of boxes: 'I see a cube"),
        ("", "no JSON list of boxes: ''"),
        ('[{"label": "cube"}]', "no JSON list of boxes"),
        ('[{"bbox_2d": [1, 2, 3]}]', "no JSON list of boxes"),
        ('[{"bbox_2d": [1, 2, 3, NaN]}]', "no JSON list of boxes"),
        ('[{"bbox_2d": [1, 2, 3, Infinity]}]', "no JSON list of boxes"),
        ('[{"bbox_2d": [1, 2, 3, "4"]}]', "no JSON list of boxes"),
        ('[{"bbox_2d": [100, 100, 100, 500]}]', "not within 1000 x 1000"),
        ('[{"bbox_2d": [100, 100, 200, 1200]}]', "not within 1000 x 1000"),
        ('[{"bbox_2d": [-150, 100, 200, 300]}]', "not within 1000 x 1000"),
        ("[[1, 1, 9, 9], [1, 1, 9, 1500], [0, 0, 1, 1920]]", "not within 1000 x 1000"),
    ],
)
def test_a_model_that_ignores_the_format_is_one_clear_line(reply: str, problem: str) -> None:
    with pytest.raises(
        ToolError, match=f"told was asked for boxes and wrote .*{problem}"
    ) as caught:
        detected(reply)
    assert "\n" not in str(caught.value)


def test_several_phrases_share_a_request_and_labels_tell_them_apart() -> None:
    told = Told(
        '[{"label": "Red ball", "bbox_2d": [0, 0, 500, 500], "score": 0.25},'
        ' {"label": "cubes", "bbox_2d": [500, 0, 1000, 500], "confidence": 80},'
        ' {"label": "lamp", "bbox_2d": [0, 500, 500, 1000]}]'
    )
    detector = VlmDetector(told)
    assert isinstance(detector, Detector)
    (encoding,) = detector.encode([PICTURE])
    balls, cubes, cones = detector.detect(encoding, ["red ball", "cube", "cone"])
    assert balls == [Detection((0.0, 0.0, 200.0, 100.0), 0.25)]
    assert cubes == [Detection((200.0, 0.0, 400.0, 100.0), 1.0)] and not cones
    (request,) = told.asked
    assert '["red ball", "cube", "cone"]' in request.instruction
    assert "0 to 1000" in request.instruction


def test_boxes_a_little_outside_are_cut_off() -> None:
    ((box,),) = detected('[{"bbox_2d": [-50, 0, 1005, 1080]}]')
    assert box.box == (0.0, 0.0, 400.0, 200.0)


GOOD = '{"label": "cube", "bbox_2d": [100, 100, 200, 500]}'


@pytest.mark.parametrize(
    "bad",
    [
        '{"label": "cube", "bbox_2d": [300, 100, 300, 500]}',
        '{"label": "cube", "bbox_2d": [300, 100, 400, 1500]}',
        '{"label": "cube", "bbox_2d": [1050, 100, 1080, 500]}',
        '{"label": "cube"}',
        '{"label": "cube", "bbox_2d": [300, 100]}',
        '{"label": "cube", "bbox_2d": [300, 100, 400, "x"]}',
        "[300, 100]",
    ],
)
def test_a_bad_entry_loses_no_other_and_is_noted(bad: str) -> None:
    (boxes,) = detected(f"[{GOOD}, {bad}]")
    assert boxes == ONE
    assert boxes.note == "1 of 2 entries held no box in the picture"  # type: ignore[attr-defined]
    assert not detected(f"[{GOOD}]")[0].note  # type: ignore[attr-defined]


def cut(reply: str, finish: str = "length") -> VlmDetector:
    class Cut(ScriptedLLM):
        def generate(self, prompts: Any, sampling: Any) -> list[list[Completion]]:
            return [[Completion(reply, 9, 4096, finish)] for _ in prompts]

    return VlmDetector(EndpointVLM(Cut(sees_pictures=True)))


def test_a_cut_reply_gives_its_complete_entries_and_says_so() -> None:
    places = [(x, y) for y in range(0, 1000, 100) for x in range(0, 1000, 100)]
    entries = [{"label": "coin", "bbox_2d": [x, y, x + 50, y + 50]} for x, y in places]
    detector = cut(json.dumps(entries)[:-20])
    (coins,) = detector.detect(detector.encode([PICTURE])[0], ["coin"])
    assert isinstance(coins, Detections) and len(coins) == 99
    assert coins.note == "the limit of tokens cut the list"


@pytest.mark.parametrize("reply", ["", "<think>Let me count.", '[{"label": "coin", "bbo'])
def test_a_reply_cut_before_its_first_box_is_an_error(reply: str) -> None:
    detector = cut(reply)
    with pytest.raises(CutReplyError, match=r"limit after 4096 tokens.*raise max_tokens"):
        detector.detect(detector.encode([PICTURE])[0], ["coin"])


class Capable(ScriptedLLM):
    """States how it writes boxes."""

    def __init__(self, boxes: str, reply: str) -> None:
        super().__init__([reply], sees_pictures=True)
        self.capabilities = SimpleNamespace(boxes=boxes)


@pytest.mark.parametrize(
    ("boxes", "key", "corners", "asked", "options"),
    [
        ("yx_1000", "bbox_2d", [100, 100, 500, 200], '"box_2d": [y0, x0, y1, x1]', {}),
        ("xy_1000", "box_2d", [100, 100, 200, 500], '"bbox_2d": [x0, y0, x1, y1]', {}),
        ("", "box_2d", [100, 100, 500, 200], '"bbox_2d": [x0, y0, x1, y1]', {}),
        ("pixels", "box_2d", [39.2, 19.6, 78.4, 98], "392 pixels wide and 196 pixels high", {}),
        ("yx_1000", "box_2d", [100, 100, 200, 500], '"bbox_2d": [x0', {"y_first": False}),
        ("pixels", "bbox_2d", [100, 100, 200, 500], "0 to 1000", {"in_pixels": False}),
    ],
)
def test_the_model_or_an_option_tells_how_boxes_are_written(
    boxes: str, key: str, corners: list[int], asked: str, options: dict[str, Any]
) -> None:
    llm = Capable(boxes, json.dumps([{"label": "cube", key: corners}]))
    detector = VlmDetector(EndpointVLM(llm), **options)
    ((box,),) = detector.detect(detector.encode([PICTURE])[0], ["cube"])
    assert box.box == pytest.approx(ONE[0].box, abs=0.1)
    assert asked in as_text(llm.calls[0].messages)


def test_y_may_come_first() -> None:
    assert detected('[{"box_2d": [100, 100, 500, 200]}]', y_first=True) == [ONE]


def test_pixels_are_those_of_the_scaled_picture_and_boxes_of_the_original() -> None:
    told = Told('[{"bbox_2d": [22.4, 11.2, 44.8, 56]}]')
    detector = VlmDetector(told, in_pixels=True, max_side=224)
    (encoding,) = detector.encode([PICTURE])
    ((box,),) = detector.detect(encoding, ["cube"])
    assert box.box == pytest.approx(ONE[0].box)
    (request,) = told.asked
    assert request.images[0].shape == (112, 224, 3)
    assert "224 pixels wide and 112 pixels high" in request.instruction
    with pytest.raises(ToolError, match="not within 224 x 112"):
        detected('[{"bbox_2d": [100, 100, 400, 150]}]', in_pixels=True, max_side=224)


@pytest.mark.parametrize("max_pixels", [None, MAX_PIXELS])
@pytest.mark.parametrize(
    ("width", "height"),
    [
        (1920, 1080),
        (60, 60),
        (100, 130),
        (130, 100),
        (1023, 1010),
        (4000, 10),
        (1, 1),
        (3000, 2999),
    ],
)
def test_pixels_are_told_shown_and_read_at_a_size_that_qwen_does_not_round(
    width: int, height: int, max_pixels: int | None
) -> None:
    told = Told("")
    told.max_pixels = max_pixels
    detector = VlmDetector(told, in_pixels=True)
    (encoding,) = detector.encode([np.zeros((height, width, 3), np.uint8)])
    down, across = encoding.pixels.shape[:2]
    assert down % 28 == across % 28 == 0 and 200 <= max(down, across) <= 1024
    assert min(down, across) >= 56 and down * across <= (max_pixels or 1 << 30)
    told.reply = json.dumps([{"label": "cube", "bbox_2d": [0, 0, across, down]}])
    ((box,),) = detector.detect(encoding, ["cube"])
    assert box.box == pytest.approx((0, 0, width, height))
    shown = Picture(encoding.pixels)
    sent = [PictureEncoder(1024), PictureEncoder(4096, min_side=1)]
    assert len({encoder.data_uri(shown) for encoder in sent}) == 1, "the client scales nothing"


class Seeing(Told):
    """Writes the box of what is white in the picture that its processor gets."""

    max_pixels = MAX_PIXELS

    def __init__(self, in_pixels: bool) -> None:
        super().__init__("")
        self._in_pixels = in_pixels
        self.seen: list[tuple[int, int]] = []

    def ask(self, requests: Sequence[ChatRequest], max_new_tokens: int) -> list[tuple[str, float]]:
        image = Picture(requests[0].images[0]).fitted(self.max_pixels)
        self.seen.append(image.size)
        rows, columns = np.nonzero(np.asarray(image)[:, :, 0] > 200)
        corners = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        if self._in_pixels:
            stated = f"{image.size[0]} pixels wide and {image.size[1]} pixels high"
            assert stated in requests[0].instruction
        else:
            sides = image.size * 2
            corners = [1000 * corner / side for corner, side in zip(corners, sides, strict=True)]
        return [(json.dumps([{"label": "cube", "bbox_2d": [*map(float, corners)]}]), 1.0)]


@pytest.mark.parametrize(
    "options", [{}, {"in_pixels": True}, {"in_pixels": True, "max_side": 4096}]
)
@pytest.mark.parametrize(
    ("width", "height", "box"),
    [
        (4000, 3000, (2400, 600, 3000, 2100)),
        (3000, 4000, (0, 3600, 300, 4000)),
        (1800, 1800, (1700, 1700, 1800, 1800)),
        (640, 480, (10, 20, 200, 300)),
        (9000, 30, (4500, 0, 6000, 30)),
        (20, 5000, (0, 4000, 20, 4500)),
    ],
)
def test_boxes_are_right_pixels_of_pictures_that_the_model_gets_smaller(
    width: int, height: int, box: tuple[int, int, int, int], options: dict[str, object]
) -> None:
    picture = np.zeros((height, width, 3), np.uint8)
    picture[box[1] : box[3], box[0] : box[2]] = 255
    told = Seeing("in_pixels" in options)
    detector = VlmDetector(told, **options)  # type: ignore[arg-type]
    (encoding,) = detector.encode([picture])
    assert encoding.pixels.nbytes <= 3 * MAX_PIXELS
    ((found,),) = detector.detect(encoding, ["cube"])
    ((seen_width, seen_height),) = told.seen
    assert seen_width * seen_height <= MAX_PIXELS
    # The model sees whole pixels of the smaller picture.
    tolerance = 1.01 * max(width, height) / max(seen_width, seen_height)
    assert found.box == pytest.approx(box, abs=tolerance)


@pytest.mark.parametrize(
    ("label", "phrases", "expected"),
    [
        ("women", ["men", "women"], "women"),
        ("carpets", ["car", "carpet"], "carpet"),
        ("scarf", ["car", "cup"], None),
        ("female person", ["male", "female"], "female"),
        ("the red car", ["car", "red car"], "red car"),
        ("mug", ["cup", "table"], None),
        ("mug", ["cup"], "cup"),
    ],
)
def test_a_label_names_whole_words(label: str, phrases: list[str], expected: str | None) -> None:
    told = Told(json.dumps([{"label": label, "bbox_2d": [0, 0, 500, 500]}]))
    detector = VlmDetector(told)
    (encoding,) = detector.encode([PICTURE])
    found = detector.detect(encoding, phrases)
    assert [phrase for phrase, boxes in zip(phrases, found, strict=True) if boxes] == (
        [expected] if expected else []
    )
    assert all((repr(label) in boxes.note) == (expected is None) for boxes in found)
