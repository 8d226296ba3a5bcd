"""Learning from edits and tags: judged by the metric, they teach the painter and the matcher."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.evaluate.engine_doubles import a_sample
from tests.tuning.fake_tuner import FakeTuner
from tests.tuning.stores import TableSearch, TableStore
from tests.tuning.test_language_reflector import case
from tests.tuning.test_loop import Blames, Stand
from viper.data.sample import EditTarget
from viper.errors import UsageError
from viper.evaluate.engines.sample_runner import Item
from viper.evaluate.metrics import metric
from viper.evaluate.metrics.editing import Editing
from viper.models.vision.roles import Pixels
from viper.schema import PixelBox
from viper.strategies.critique import Critique
from viper.tuning.case import Case, desired_text
from viper.tuning.loop import UNJUDGED
from viper.tuning.tool_training import Sources, ToolTrainer

CUBE = (10.0, 40.0, 20.0, 50.0)

REPLACED = """OBJ0=LOC(image=IMAGE,object='cube')
IMAGE0=REPLACE(image=IMAGE,object=OBJ0,prompt='pyramid')
FINAL_RESULT=RESULT(var=IMAGE0)
"""
TAGGED = """OBJ0=LOC(image=IMAGE,object='cube')
OBJ1=CLASSIFY(image=IMAGE,object=OBJ0,categories=['cone','pyramid'])
IMAGE0=TAG(image=IMAGE,object=OBJ1)
FINAL_RESULT=RESULT(var=IMAGE0)
"""


class WhiteIsPyramid:
    """Sees a pyramid where the picture is white."""

    def shows(self, pixels: Pixels, box: PixelBox, phrase: str, over: str) -> bool:
        x0, y0, x1, y1 = map(int, box)
        return bool(pixels[y0:y1, x0:x1].min() == 255) == (phrase == "pyramid")


def items(count: int, task: str, target: object) -> list[Item]:
    picture = np.full((60, 100, 3), 128, np.uint8)
    return [
        Item(at, a_sample(at, text="do it", task=task, target=target, load=lambda: picture), 0)
        for at in range(count)
    ]


def target() -> EditTarget:
    outline = {"size": [60, 100], "counts": [6000]}
    return EditTarget("replace", "cube", "pyramid", (CUBE,), (outline,))


@pytest.fixture(autouse=True)
def tuners(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, FakeTuner]]:
    made = {tool: FakeTuner(role, tool, feature=sizes) for tool, (role, sizes) in _TUNERS.items()}
    monkeypatch.setattr("viper.tuning.tool_training.tuner_for", made.__getitem__)
    yield made


# Role, and a feature of the length that the role's fake model has.
_TUNERS = {
    "loc": ("detector", (1.0, 0.0)),
    "match": ("matcher", (1.0, 1.0, 1.0)),
    "replace": ("inpainter", (1.0,)),
}
SEARCH = TableSearch({"pyramid": [1, 2, 3], "red": [4, 5, 6]})
STORE = TableStore({1: ("pyramid",), 2: ("red",)})
EDITING = Editing(lambda sample: WhiteIsPyramid())


def stand(folder: Path, program: str, judge: object, critique: Critique | None = None) -> Stand:
    reflector = None if critique is None else Blames(critique)
    return Stand(folder, program, reflector, judge=judge, api="visprog", search=SEARCH)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("critique", "by"),
    [(None, "probe"), (Critique.of_tool("replace", 1, "no pyramid is there"), "reflection")],
)
def test_an_edit_that_its_metric_finds_wrong_teaches_the_painter(
    tmp_path: Path, tuners: dict[str, FakeTuner], critique: Critique | None, by: str
) -> None:
    with stand(tmp_path, REPLACED, EDITING, critique) as learning:
        learning.updates.trainer = _searching(learning)
        standing = learning.learn(items(2, "edit", target()))
        first, second = learning.journal.records()
    assert (standing.score, standing.score_after) == (1.0, 2.0)
    assert [(one.key, one.found_by) for one in first.updates if one.ids] == [
        (("replace", "pyramid"), by)
    ]
    assert first.desired == "pyramid in place of cube"
    assert second.score == 1.0 and not second.updates


def test_wrong_tags_teach_the_matcher(tmp_path: Path, tuners: dict[str, FakeTuner]) -> None:
    tuners["match"].value = 1.0
    with stand(tmp_path, TAGGED, metric("tagging")) as learning:
        learning.updates.trainer = _searching(learning)
        standing = learning.learn(items(2, "tag", (("pyramid", CUBE),)))
        first, second = learning.journal.records()
    assert (standing.score, standing.score_after) == (1.0, 2.0)
    (update,) = [one for one in first.updates if one.ids]
    assert update.key == ("match", "pyramid") and update.found_by == "reflection"
    assert first.critiques[0].desired == "pyramid"
    assert second.score == 1.0


def test_the_pictures_of_an_edit_reach_the_reflector(tmp_path: Path) -> None:
    critique = Critique("none", None, "")
    with stand(tmp_path, REPLACED, EDITING, critique) as learning:
        learning.learn(items(1, "edit", target()))
        blames = learning.learner.reflectors[0]
    assert isinstance(blames, Blames)
    (case, *_) = blames.cases
    assert case.answer is not None and case.answer.value["picture"] in case.media.edits


def test_an_edit_that_nothing_judges_teaches_nothing(tmp_path: Path) -> None:
    with stand(tmp_path, REPLACED, metric("mixed")) as learning:
        learning.learn(items(1, "edit", None))
        (record,) = learning.journal.records()
        assert learning.pool.items() == () and learning.prompts.kept() == []
    assert record.problem == UNJUDGED and record.score == 1.0


def test_tags_are_desired_in_words_with_upward_boxes() -> None:
    run = case()
    query = replace(run.query, task="tag")
    tagged = Case(query, run.media, run.trial, run.answer, [("cup", CUBE)])
    assert desired_text(tagged) == "cup at [10, 10, 20, 20]"
    with pytest.raises(UsageError, match="a label and a box"):
        Case(query, run.media, run.trial, run.answer, [("cup", 3)])


def _searching(learning: Stand) -> ToolTrainer:
    return replace(learning.updates.trainer, sources=Sources(STORE, SEARCH))
