"""Every worked example of a prompt runs in the real sandbox child with a scripted parent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from viper.api import ApiEntry, api_set
from viper.api.sets import LINE_APIS, api_names
from viper.sandbox import Outcome, Ref, Sandbox
from viper.schema import TASKS
from viper.tools.pixels import CHANGES

IMAGE = Ref("image", ("image0", 200, 100))
MEDIA = {
    "image": IMAGE,
    "image_list": [IMAGE, Ref("image", ("image1", 200, 100))],
    **dict.fromkeys(("IMAGE", "LEFT", "RIGHT"), IMAGE),
    "video": Ref("video", ("video0", 8, 160, 120)),
    "question": "what is it?",
    "possible_answers": ["one", "two"],
}
BOXES = [Ref("patch", ("image0", x, 10.0, x + 20, 30.0)) for x in (100.0, 40.0, 160.0)]
ANSWERS: dict[str, Any] = {
    "find": BOXES,
    "find_faces": BOXES,
    "segment": BOXES,
    "exists": True,
    "verify_property": True,
    "best_text_match": lambda patch, options: options[-1],
    "best_description_from_options": lambda patch, name, options: options[-1],
    "best_image_match": 1,
    "simple_query": "12 minutes",
    "complex_query": "it rains",
    "caption_image": "a picture",
    "compute_depth": 2.5,
    "locate_event": [2, 5],
    "caption_video": "the ball falls",
    "read_clip": Ref("video", ("clip-0-4000-8", 8, 160, 120)),
    "segment_span": (0.0, 4.0),
    "changed_spans": [[1.0, 2.0]],
    "frame_times": [0.5 * number for number in range(8)],
    "track_objects": {
        "clips": ["clip-0-1000-4"],
        "size": [160, 120],
        "times": [0.0, 0.5, 1.0],
        "places": [[0, 0], [0, 1], [0, 2]],
        "tracks": [[[frame, 60 + 15 * frame, 20, 80 + 15 * frame, 40] for frame in range(3)]],
    },
    "llm_query": "cup, bowl",
    "select_answer": "two",
    "process_guesses": "maps",
    "ocr": "MK 17",
    "find_like": BOXES,
    "image_search": ["Velora: a lamp"],
    "text_search": ["Velora: founded in 1893"],
    **dict.fromkeys(("color_pop", "blur_background", "replace", "put_emoji", "tag"), IMAGE),
}
ANSWERS |= {
    **dict.fromkeys(CHANGES, Ref("image", ("edit-0", 200, 100))),
    "frame_difference": Ref("image", ("edit-0", 160, 120)),
    "components": [{"patch": BOXES[0], "area": 40, "x": 110.0, "y": 20.0}],
    "contours": [[(10.0, 20.0), (30.0, 20.0)]],
    "histogram": [10, 2, 3, 4],
    "measure": {"color": "red", "share": 0.6, "width": 20, "height": 20, "error": 1.8},
    "line_profile": [0, 255, 0, 255],
    "pixel_count": 3,
    "show": None,
    "to_array": np.full((100, 200, 3), 230, np.uint8),
    "to_patch": Ref("image", ("edit-1", 200, 100)),
    **dict.fromkeys(("mean_color", "color_at"), (200, 20, 20)),
}
_READ = ("lines", "find_text", "value_right_of", "value_below", "dates", "amounts")
ANSWERS |= {
    **dict.fromkeys(_READ, [Ref("patch", ("image0", 10.0, 10.0, 50.0, 30.0, "", "9.00"))]),
    "sums": [{"check": "items", "holds": True, "amount": "9.00"}],
}
NOTHING: dict[str, Any] = {
    **dict.fromkeys((*_READ, "sums"), []),
    **dict.fromkeys(("find", "find_faces", "segment", "image_search", "text_search"), []),
    **dict.fromkeys(("components", "contours"), []),
    **dict.fromkeys(("exists", "verify_property"), False),
    "locate_event": [0, 0],
    "find_like": [],
    "track_objects": {"clips": [], "size": [0, 0], "times": [], "places": [], "tracks": []},
    "ocr": "",
}
"""Answers of tools that find nothing."""


def entries_with_example() -> dict[str, ApiEntry]:
    """Return one entry of each listed name that has an example."""
    listed = {}
    for api in sorted(api_names()):
        for task in TASKS:
            if task != "auto":
                for entry in api_set(api).entries(task):
                    if entry.example:
                        listed[f"{entry.owner or api}.{entry.name}"] = entry
    return listed


ENTRIES = entries_with_example()
PYTHON = [name for name in ENTRIES if name.partition(".")[0] not in LINE_APIS]


class Parent:
    """Answers by tool name and records the names."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.called: list[str] = []

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        self.called.append(name)
        answer = self.answers[name]
        return answer(*args) if callable(answer) else answer


def run(sandbox: Sandbox, name: str, answers: dict[str, Any]) -> Outcome:
    parent = Parent(answers)
    program = ENTRIES[name].example
    return sandbox.run(program, tools=parent, entry="execute_command", args=MEDIA)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_example_answers(sandbox: Sandbox, name: str) -> None:
    outcome = run(sandbox, name, ANSWERS)
    assert outcome.failure is None, outcome.failure
    assert outcome.value is not None


@pytest.mark.parametrize("name", PYTHON)
def test_an_example_answers_when_nothing_is_found(sandbox: Sandbox, name: str) -> None:
    outcome = run(sandbox, name, ANSWERS | NOTHING)
    assert outcome.failure is None, outcome.failure
    assert isinstance(outcome.value, Ref | str | bool | int | float)


@pytest.mark.parametrize("name", PYTHON)
def test_an_example_obeys_the_rules_of_the_prompt(name: str) -> None:
    example = ENTRIES[name].example
    assert example.startswith("# "), "the first line is the query"
    if "execute_command(video" in example:
        assert "    video_segment = VideoSegment(video)\n" in example
