"""What the text of an example gives away: names that are gone, policy, syntax."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ace.test_bank import EXAMPLE
from viper.ace.bank import read_bank
from viper.ace.soundness import api_changed, problems
from viper.api.library import Library
from viper.api.registry import REGISTRY
from viper.api.spec import api_hash
from viper.embedded import BANKS


def wrong(body: str, **changes: str) -> list[str]:
    program = f"def execute_command(image):\n    {body}"
    return problems(replace(EXAMPLE, program=program, **changes), Library())  # type: ignore[arg-type]


def test_nothing_is_wrong_with_the_shipped_bank() -> None:
    found = {e.sample_id: problems(e, Library()) for e in read_bank(BANKS / "default.jsonl").items}
    assert len(found) > 40 and not any(found.values())


@pytest.mark.parametrize(
    "body",
    [
        "return ImagePatch(image).find('cube')[0].crop(1, 2, 3, 4)",
        "return sorted([3, 1], key=lambda x: -x)[0].bit_length()",
        "import numpy as np\n    return np.array([1.0]).mean().item()",
        "return math.sqrt(4)",
        "helper = lambda x: x\n    return helper('a'.upper())",
        "class Pair:\n        def swap(self):\n            return 1\n    return Pair().swap()",
        "def inner(f):\n        return f()\n    return inner(lambda: 1)",
    ],
)
def test_what_works_is_not_blamed(body: str) -> None:
    assert wrong(body) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return get_leftmost_patch([])", "calls get_leftmost_patch, which no API has"),
        ("return ImagePatch(image).find_all('x')", "calls find_all, which no API has"),
        ("return ImagePatch(image).crop_left_of_bboxes(1)", "near: crop_left_of_bbox"),
        ("return (", "syntax at line 2"),
        ("return await_it(await x)", "forbidden at line 2"),
    ],
)
def test_what_cannot_work_is_named(body: str, said: str) -> None:
    found = wrong(body)
    assert len(found) == 1 and said in found[0], found


def test_task_api_and_entry_point_must_be_there() -> None:
    assert wrong("return 1", task="dance") == ["no task 'dance'"]
    assert "unknown API 'gone.py'" in wrong("return 1", api="abstract+gone.py")[0]
    assert problems(replace(EXAMPLE, program="answer = 1"), Library()) == [
        "defines no execute_command"
    ]


def test_a_routine_that_is_renamed_breaks_the_examples_that_call_it() -> None:
    items = read_bank(BANKS / "default.jsonl").items
    used = [r.name for r in REGISTRY.all() if any(f"{r.name}(" in e.program for e in items)]
    name = used[0]
    with REGISTRY.temporary():
        routine = REGISTRY._routines.pop(name)
        REGISTRY.add(replace(routine, name=f"{name}_new"))
        broken = {e.sample_id for e in items if problems(e, Library())}
    assert broken == {e.sample_id for e in items if f"{name}(" in e.program} and broken


def test_another_text_of_the_api_is_noted() -> None:
    today = api_hash(Library().api_set("abstract").entries("ground"))
    assert api_changed(EXAMPLE, Library())
    assert not api_changed(replace(EXAMPLE, api_hash=today), Library())
