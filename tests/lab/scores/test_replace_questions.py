"""Questions about replacing objects, and the judge that knows the reserved words."""

from __future__ import annotations

import numpy as np
import pytest

from viper.testing.fakes import FakeMatcher
from viper.tools.crops import object_crop
from viper.tools.models import ModelSet
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox
from viper_lab.scores.concepts import replace as questions
from viper_lab.scores.concepts.measurement import rows
from viper_lab.scores.concepts.replace_judge import PLAIN, accuracy, trained_judge
from viper_lab.world.reserved import CONCEPTS, reserved_still


@pytest.fixture(scope="module")
def judge():
    return trained_judge(3)


@pytest.fixture(autouse=True)
def _small_judge(judge, monkeypatch):
    monkeypatch.setattr(questions, "shipped_judge", lambda: judge)


class Painter:
    """Fills what is masked with one colour; remembers what it was asked."""

    def __init__(self, colour):
        self.model_id = f"painter-{colour}"
        self.colour, self.asked = colour, []

    def inpaint(self, pixels, mask, prompt, seed):
        self.asked.append(prompt)
        painted = pixels.copy()
        painted[mask] = self.colour
        return painted


def toolbox(painter):
    return Toolbox(ModelSet({"inpainter": lambda: painter, "matcher": FakeMatcher}), ToolSettings())


def test_the_judge_knows_reserved_words_in_renderings_it_never_saw(judge) -> None:
    found = accuracy(judge, 1)
    assert set(found) == {"shape", "colour", "pattern", "reserved"}
    # Ten shapes, twelve colours; three scenes of each concept were seen.
    assert found["shape"] > 0.5 and found["colour"] > 0.7 and found["reserved"] > 0.4


def test_the_judge_says_a_word_of_each_family(judge) -> None:
    still = reserved_still("train", 3, "pink").rendered
    crops = [object_crop(still.image, tuple(map(float, box))) for box in still.boxes]
    said = judge.words(crops)
    assert all(len(words) == len(crops) for words in said.values())
    assert {"pink", "black"} <= set(judge.probes["colour"].words)
    assert set(judge.probes["pattern"].words) == {PLAIN, "striped", "spotted", "checkered"}


@pytest.mark.parametrize(("colour", "right"), [((252, 150, 195), 1.0), ((120, 120, 120), 0.0)])
def test_what_is_painted_is_what_counts(colour, right) -> None:
    painter = Painter(colour)
    found = questions.about(toolbox(painter), "pink", split="val", count=4, seed=1)
    assert [one.right for one in found if one.kind == "replace"] == [right] * 4
    assert len([one for one in found if one.kind == "beside"]) == 2
    assert all(one.concept == "pink" and ":pink:" in one.sample for one in found)
    assert painter.asked[0] == "the pink thing" and painter.asked[1].startswith("the pink ")


def test_shapes_are_asked_for_alone_and_in_an_old_colour() -> None:
    painter = Painter((200, 30, 30))
    questions.about(toolbox(painter), "egg", split="val", count=2, seed=0)
    assert painter.asked[0] == "the egg" and len(painter.asked[1].split()) == 3


def test_the_same_questions_are_asked_again() -> None:
    pink, grey = Painter((252, 150, 195)), Painter((120, 120, 120))
    before, after = (
        questions.about(toolbox(painter), "pink", split="val", count=3, seed=0)
        for painter in (grey, pink)
    )
    assert grey.asked == pink.asked
    (row, _) = rows(before, after)
    assert row.kind == "replace" and (row.before.value, row.after.value) == (0.0, 1.0)
    other = questions.about(toolbox(grey), "pink", split="val", count=3, seed=2)
    assert not {one.sample for one in other} & {one.sample for one in before}


def test_old_questions_name_no_reserved_word_and_half_stand_beside_one() -> None:
    painter = Painter((250, 10, 10))
    found = questions.about_old(toolbox(painter), ["egg", "pink"], split="val", count=6, seed=0)
    assert [":beside-" in one.sample for one in found] == [False, True] * 3
    words = {word for prompt in painter.asked for word in prompt.split()}
    assert not words & set(CONCEPTS) and len(painter.asked) == 6
    # The matcher of the test knows red from green and blue alone.
    assert all(one.right == 0.0 for one in found if not one.concept.startswith("red"))


def test_only_what_is_masked_is_touched() -> None:
    painter = Painter((1, 2, 3))
    scenes = questions._scenes(["egg"], "val", 0)
    (edit,) = questions._edits(scenes, 1)
    painted = questions._paint(toolbox(painter), edit, "the cube")
    x0, y0, x1, y1 = (round(side) for side in edit.box)
    by = int(0.15 * max(x1 - x0, y1 - y0)) + 2
    outside = np.ones(painted.shape[:2], bool)
    outside[max(y0 - by, 0) : y1 + by, max(x0 - by, 0) : x1 + by] = False
    assert (painted[y0:y1, x0:x1] == (1, 2, 3)).all()
    assert (painted[outside] == edit.pixels[outside]).all()
