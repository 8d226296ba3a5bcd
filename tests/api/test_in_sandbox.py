"""Programs in both papers' styles, run in the real sandbox child with a scripted parent."""

from __future__ import annotations

from typing import Any

import pytest

from viper.sandbox import Ref, Sandbox

IMAGE = Ref("image", ("image0", 200, 100))
VIDEO = Ref("video", ("video0", 32, 160, 120))
CUPS = [Ref("patch", ("image0", x, 10.0, x + 20, 30.0)) for x in (100.0, 40.0, 160.0)]


class Parent:
    """Answers by tool name and records the calls."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        assert not kwargs
        self.calls.append((name, args))
        return self.answers[name]


def test_abstract_grounding(sandbox: Sandbox) -> None:
    parent = Parent(find=CUPS, best_image_match=1)
    program = """
def execute_command(image) -> ImagePatch:
    image_patch = ImagePatch(image)
    cups = sort_patches_left_to_right(image_patch.find("cup"))
    cups.sort(key=lambda cup: -cup.horizontal_center)
    middle = get_middle_patch(cups)
    beside = get_patch_right_of(middle)
    assert isinstance(beside, ImagePatch) and beside.left == 120 and beside.upper == 100
    assert [p for p in cups if p != middle] == [cups[0], cups[2]]
    assert best_image_match(cups, ["red cup"]) == cups[1]
    return middle
"""
    outcome = sandbox.run(program, tools=parent, entry="execute_command", args={"image": IMAGE})
    assert outcome.failure is None
    assert outcome.value == CUPS[0]
    whole = Ref("patch", ("image0", 0, 0, 200, 100))
    assert parent.calls[0] == ("find", (whole, "cup"))


def test_abstract_video_choice(sandbox: Sandbox) -> None:
    parent = Parent(locate_event=[10, 14], caption_video="it stops", select_answer="stops")
    program = """
def execute_command(video, question, possible_answers)->[str, dict]:
    video_segment = VideoSegment(video)
    later = video_segment.get_video_segment_after_event("the cup falls")
    info = {"after": later.caption_video(question), "frames": later.num_frames}
    for i, frame in enumerate(later.frame_iterator()):
        assert frame.width == 160
    info["last"] = i
    return select_answer(info, question, possible_answers), info
"""
    arguments = {"video": VIDEO, "question": "What?", "possible_answers": ["stops", "hits"]}
    outcome = sandbox.run(program, tools=parent, entry="execute_command", args=arguments)
    assert outcome.failure is None
    info = {"after": "it stops", "frames": 18, "last": 17}
    assert outcome.value == ("stops", info)
    segment = Ref("segment", ("video0", 14, 32))
    assert parent.calls[1] == ("caption_video", (segment, "What?"))
    assert parent.calls[2] == ("select_answer", (info, "What?", ["stops", "hits"]))


def test_an_empty_result_is_followed_to_the_failure(sandbox: Sandbox) -> None:
    program = """
def execute_command(image):
    cups = ImagePatch(image).find("cup")
    return cups[0]
"""
    outcome = sandbox.run(
        program, tools=Parent(find=[]), entry="execute_command", args={"image": IMAGE}
    )
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.line) == ("runtime", 4)
    assert [(call.index, call.reached) for call in outcome.empty_calls] == [(0, True)]


@pytest.mark.parametrize(
    "expression",
    [
        "ImagePatch(image)._handle",
        "ImagePatch(image).find.__globals__",
        "ImagePatch(image).find.__func__",
        "ImagePatch._at",
        "image.call",
        "image.id",
        "VideoSegment.__init__",
        "distance.__globals__",
        "best_image_match.__closure__",
        "VideoSegment(video).frame_handle(0)",
        "video.frame_handle(0)",
    ],
)
def test_nothing_behind_the_names_can_be_reached(sandbox: Sandbox, expression: str) -> None:
    program = f"def execute_command(image, video):\n    return {expression}"
    outcome = sandbox.run(
        program, tools=Parent(), entry="execute_command", args={"image": IMAGE, "video": VIDEO}
    )
    assert not outcome.ok and outcome.failure is not None
    assert outcome.failure.kind in ("forbidden", "runtime"), outcome.failure
