"""Programs that differ from another in one thing."""

from __future__ import annotations

import ast

import pytest

from viper.tuning.program_edits import WORD_ASKED, Vocabulary, edited_programs

FAMILIES = (("red", "green", "blue"), ("metal", "rubber"), ("cube", "ball"))


def kinds(program: str, vocabulary: Vocabulary | None = None) -> dict[str, str]:
    edited = edited_programs(program, vocabulary or Vocabulary(FAMILIES))
    return {one.program: one.kind for one in edited}


@pytest.mark.parametrize(
    ("program", "other", "kind"),
    [
        ("patch = patches[0]", "patch = patches[-1]", "direction"),
        ("patch = patches[-2]", "patch = patches[1]", "direction"),
        ("region = get_patch_left_of(a)", "region = get_patch_right_of(a)", "direction"),
        ("s.get_video_segment_after_event(e)", "s.get_video_segment_before_event(e)", "direction"),
        ("b = x > y", "b = x < y", "direction"),
        ("p = min(patches)", "p = max(patches)", "superlative"),
        ("p.horizontal_center", "p.vertical_center", "order"),
        ("q = i.find('red cube')", "q = i.find('blue cube')", "attribute"),
        ("q = i.find('red cube')", "q = i.find('cube')", "filter"),
        ("q = [p for p in ps if p.ok()]", "q = [p for p in ps]", "filter"),
    ],
)  # fmt: skip
def test_one_thing_changes(program: str, other: str, kind: str) -> None:
    assert kinds(program)[other] == kind


def test_only_words_of_the_query_are_put_in() -> None:
    asked = Vocabulary.of_query(FAMILIES, "How many rubber balls are red?")
    found = kinds("patches = image.find('blue ball')", asked)
    assert found["patches = image.find('red ball')"] == "attribute"
    assert found["patches = image.find('rubber blue ball')"] == "condition"
    assert not any("green" in program or "cube" in program for program in found)


def test_taking_out_what_the_query_asks_is_less_plausible() -> None:
    asked = Vocabulary.of_query(FAMILIES, "the red ball")
    costs = {
        one.program: one.cost
        for one in edited_programs("patches = i.find('red metal ball')", asked)
    }
    less_red = costs["patches = i.find('metal ball')"]
    assert less_red == costs["patches = i.find('red ball')"] + WORD_ASKED


@pytest.mark.parametrize("program", ["", "def broken(:", "x = 1\x00", "(" * 5000])
def test_what_cannot_be_read_has_no_edits(program: str) -> None:
    assert edited_programs(program, Vocabulary(FAMILIES)) == []


def test_every_edit_is_a_program_of_its_own() -> None:
    program = "def execute_command(image):\n    return max(image.find('red cube'))[0]"
    found = edited_programs(program, Vocabulary(FAMILIES))
    assert len({one.program for one in found}) == len(found) > 5
    assert ast.unparse(ast.parse(program)) not in {one.program for one in found}
