"""How the entry point gets its arguments, and where a script leaves its answer."""

from __future__ import annotations

from typing import Any

import pytest

from viper.sandbox import Sandbox
from viper.sandbox.entry import bind

ARGS = {"video": "V", "question": "Q", "possible_answers": ["a", "b"]}


def test_bind_by_name_and_alias() -> None:
    def execute_command(video_segment: Any, query: Any, options: Any) -> None: ...

    assert bind(execute_command, ARGS) == {
        "video_segment": "V",
        "query": "Q",
        "options": ["a", "b"],
    }


def test_bind_a_parameter_that_says_nothing_to_the_media() -> None:
    def execute_command(x: Any) -> None: ...

    assert bind(execute_command, ARGS) == {"x": "V"}


def test_bind_the_media_under_another_kind_of_name() -> None:
    def execute_command(image: Any, possible_answers: Any) -> None: ...

    assert bind(execute_command, ARGS) == {"image": "V", "possible_answers": ["a", "b"]}


def test_bind_leaves_defaults_alone() -> None:
    def execute_command(image: Any, verbose: bool = False) -> None: ...

    assert bind(execute_command, {"image": "I", "question": "Q"}) == {"image": "I"}


def test_bind_images() -> None:
    def execute_command(images: Any) -> None: ...

    assert bind(execute_command, {"image_list": ["I", "J"]}) == {"images": ["I", "J"]}


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("def execute_command(image):\n    return image, 1", (5, 1)),
        ("def execute_command():\n    return image", 5),
        ("execute_command = lambda image: image + 1", 6),
        ("def execute_command(*, question):\n    return question", "why"),
        ("answer = image", 5),
        ("if image:\n    def execute_command(img):\n        return img", 5),
    ],
)
def test_run_finds_the_answer(code: str, value: Any, sandbox: Sandbox) -> None:
    args = {"image": 5, "question": "why"}
    assert sandbox.run(code, entry="execute_command", args=args).value == value
