"""Teaching without training again what was trained from the same data."""

from __future__ import annotations

import pytest

from tests.models.vision.adapter_fakes import AdaptedAnswerer, AdaptedDetector
from tests.tuning.fake_tuner import FakeTuner
from tests.tuning.stores import LetterMatcher, TableSearch, TableStore
from viper.errors import UsageError
from viper.models.vision.prompt_pool import PromptPool
from viper.models.vision.segmenter_sam import THINGS
from viper.tools.models import ModelSet
from viper.tuning.soft_prompts.base import AnsweredQuestion, TunerOptions
from viper.tuning.tool_training import Memory, Sources, ToolTrainer, TrainedFiles


@pytest.fixture
def tuner(monkeypatch):
    found = {tool: FakeTuner(role, tool) for tool, role in (("loc", "detector"), ("vqa", "vqa"))}
    monkeypatch.setattr("viper.tuning.tool_training.tuner_for", found.__getitem__)
    return found


@pytest.fixture
def models():
    return ModelSet({"detector": lambda: AdaptedDetector({}), "vqa": lambda: AdaptedAnswerer({})})


STORE = TableStore({1: ("pyramid",), 2: ("cube",), 3: ("dome",)})


def teachers(models, folder, memory: Memory | None) -> list[ToolTrainer]:
    pools = [PromptPool(folder / name) for name in ("first", "second")]
    return [ToolTrainer(models, pool, Sources(STORE), memory) for pool in pools]


def test_what_was_trained_from_the_same_data_is_not_trained_again(tuner, models, tmp_path) -> None:
    first, second = teachers(models, tmp_path, {})
    one, two = first.teach("loc", "pyramid"), second.teach("loc", "pyramid")
    assert tuner["loc"].lessons == 1
    assert one.ids == two.ids and second.pool.concepts("loc", models.trait("detector", "model_id"))
    assert [x.why for x in one.trained] == [x.why for x in two.trained]


def test_nor_after_a_restart(tuner, models, tmp_path) -> None:
    ids = []
    for name in ("first", "second"):
        memory = TrainedFiles(tmp_path / "trained")
        teacher = ToolTrainer(models, PromptPool(tmp_path / name), Sources(STORE), memory)
        ids.append(teacher.teach("loc", "pyramid").ids)
    assert tuner["loc"].lessons == 1 and ids[0] == ids[1] and ids[0]


@pytest.mark.parametrize(
    ("concept", "options"),
    [("dome", TunerOptions()), ("pyramid", TunerOptions(seed=1)), ("pyramid", TunerOptions(9))],
)
def test_other_data_and_other_options_are(tuner, models, tmp_path, concept, options) -> None:
    first, second = teachers(models, tmp_path, {})
    first.teach("loc", "pyramid")
    second.teach("loc", concept, options)
    assert tuner["loc"].lessons == 2


def test_without_a_memory_everything_is(tuner, models, tmp_path) -> None:
    for teacher in teachers(models, tmp_path, None):
        teacher.teach("loc", "pyramid")
    assert tuner["loc"].lessons == 2


def test_answered_questions_are_always_learned_anew(tuner, models, tmp_path) -> None:
    memory: Memory = {}
    pixels = STORE.samples("pyramid", 1)[0].pixels()
    lesson = [AnsweredQuestion("a", pixels, "what color is it?", "red")]
    for teacher in teachers(models, tmp_path, memory):
        teacher.learn("vqa", None, lesson)
    assert tuner["vqa"].lessons == 2 and not memory


@pytest.mark.parametrize(("before", "kept"), [(0.75, 1), (0.85, 0)])
def test_what_a_tool_knows_by_itself_needs_no_prompt(tuner, models, tmp_path, before, kept) -> None:
    tuner["loc"].before = before
    teacher, _ = teachers(models, tmp_path, None)
    taught = teacher.teach("loc", "pyramid")
    assert (taught.kept, len(teacher.pool.kept("loc"))) == (kept, kept)
    whys = [one.why for one in taught.trained]
    assert whys[0] == (
        "" if kept else "not needed: 0.85 of the held-out pictures are right without it"
    )
    assert whys[1] == "held-out pictures were not found with it"


def test_unvalidated_it_is_kept_all_the_same(tuner, models, tmp_path) -> None:
    tuner["loc"].before = 0.85
    teacher, _ = teachers(models, tmp_path, None)
    assert teacher.teach("loc", "pyramid", TunerOptions(validate=False)).kept == 1


def test_a_search_without_a_store_gives_pictures_of_everyday_things(tuner, tmp_path) -> None:
    tuner["match"] = FakeTuner("matcher", "match")
    models = ModelSet({"matcher": LetterMatcher})
    things = {name: [value] for value, name in enumerate(THINGS, 3)}
    search = TableSearch({"pyramid": [1, 2], "cube": [255], **things})
    trainer = ToolTrainer(models, PromptPool(tmp_path), Sources(None, search))
    data = trainer.collect("match", "pyramid")
    names = [picture.text for picture in data.negatives]
    assert len(names) == 40 and set(names) <= set(THINGS)
    assert trainer.learn("match", "pyramid", data).kept


def test_a_search_that_finds_nothing_else_is_refused_before_training(tuner, tmp_path) -> None:
    tuner["match"] = FakeTuner("matcher", "match")
    models = ModelSet({"matcher": LetterMatcher})
    search = TableSearch({"pyramid": [1, 2]})
    trainer = ToolTrainer(models, PromptPool(tmp_path), Sources(None, search))
    with pytest.raises(UsageError, match="no pictures of anything but 'pyramid'"):
        trainer.teach("match", "pyramid")
    assert tuner["match"].lessons == 0
