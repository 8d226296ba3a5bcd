"""Tools that answer from ground truth."""

from __future__ import annotations

import numpy as np
import pytest

from viper.errors import ToolError
from viper.sandbox.wire import Ref
from viper_lab.world.oracle import Oracle, bears_on
from viper_lab.world.scene import ClipEvent, RenderedScene, Scene, SceneObject

CUBE = SceneObject("cube", "red", "metal", "big", (0.0, 0.0, 0.5))
BALL = SceneObject("ball", "blue", "rubber", "small", (1.0, 1.0, 0.3))
PICTURE = Ref("image", ("image0", 192, 144))
CLIP = Ref("video", ("video0", 32, 160, 120))


def picture() -> RenderedScene:
    boxes = np.array([[20, 60, 60, 100], [120, 40, 140, 60]], np.float32)
    masks = np.zeros((2, 144, 192), bool)
    depth = np.full((144, 192), 9.0, np.float32)
    for mask, (x0, y0, x1, y1), far in zip(masks, boxes.astype(int), (6.0, 8.0), strict=True):
        mask[y0:y1, x0:x1] = True
        depth[mask] = far
    depths = np.array([6.0, 8.0], np.float32)
    image = np.zeros((144, 192, 3), np.uint8)
    return RenderedScene(
        Scene((CUBE, BALL), 0), image, boxes, masks, depth, depths, np.ones(2, np.float32)
    )


def test_pictures() -> None:
    oracle = Oracle(picture())
    found = oracle.call("find", (PICTURE, "object"), {})
    assert found[0] == Ref("patch", ("image0", 20, 44, 60, 84))
    cube, ball = found
    assert oracle.call("find", (PICTURE, "blue balls"), {}) == [ball]
    assert oracle.call("find", (PICTURE, "green cone"), {}) == []
    left_half = Ref("patch", ("image0", 0, 0, 96, 144))
    assert oracle.call("find", (left_half, "thing"), {}) == [cube]
    assert oracle.call("compute_depth", (cube,), {}) < oracle.call("compute_depth", (ball,), {})
    assert oracle.call("verify_property", (ball, "ball", "rubber"), {}) is True
    assert oracle.call("best_text_match", (cube, ["blue", "red"]), {}) == "red"
    assert oracle.call("simple_query", (cube, "what is this made of?"), {}) == "metal"
    assert oracle.call("complex_query", (ball, "what color is this?"), {}) == "blue"
    assert oracle.call("caption_image", (PICTURE,), {}).count(" and ") == 1
    assert oracle.call("caption_image", (left_half,), {}) == "big red metal cube"
    assert oracle.call("best_image_match", ([cube, ball], "small ball"), {}) == 1


def test_clips() -> None:
    events = (
        ClipEvent("start", 0, 2, 7),
        ClipEvent("hit", 0, 10, 15, 1),
        ClipEvent("stop", 0, 20, 25),
    )
    oracle = Oracle(objects=(CUBE, BALL), events=events)
    hit = "the red cube hits the blue ball"
    assert oracle.call("locate_event", (CLIP, hit), {}) == [10, 15]
    assert oracle.call("locate_event", (CLIP, "the blue ball stops"), {}) == [0, 0]
    later = Ref("segment", ("video0", 15, 32))
    assert oracle.call("caption_video", (later, "what does the red cube do?"), {}) == (
        "the red cube stops."
    )
    chosen = oracle.call("select_answer", ("the red cube stops", "?", ["falls", "stops"]), {})
    assert chosen == "stops"


@pytest.mark.parametrize(
    ("question", "sentence", "kept"),
    [
        (None, "the red cube stops", True),
        ("what happens?", "the red cube stops", True),
        ("what does the red cube do?", "the red cube stops", True),
        ("what does the red cube do?", "the blue ball hits the red cube", False),
        ("what does the red cube hit?", "the red cube stops", False),
        ("what does the red cube hit?", "the red cube hits the blue ball", True),
        ("what hits the red cube?", "the blue ball hits the red cube", True),
        ("what stops?", "the blue ball hits the red cube", False),
        ("what falls off the table?", "the red cube falls off the table", True),
    ],
)
def test_sentences_bear_on_questions(question: str | None, sentence: str, kept: bool) -> None:
    assert bears_on(question, sentence) is kept


def test_what_it_does_not_know_is_refused() -> None:
    with pytest.raises(ToolError, match="no tool 'paint'"):
        Oracle(picture()).call("paint", (), {})
    with pytest.raises(ToolError, match="a clip, not a picture"):
        Oracle(objects=(CUBE,), events=(ClipEvent("stop", 0, 2, 7),)).call(
            "find", (PICTURE, "cube"), {}
        )
