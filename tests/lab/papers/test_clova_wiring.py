"""What is asked before and after a tool is taught, and again without what it learned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.tuning.prompt_fakes import learned
from viper.errors import UsageError
from viper.models.media import media_from
from viper.models.vision.prompt_pool import PromptPool
from viper.models.vision.roles import Floats, Pixels
from viper.testing.fakes import FakeMatcher
from viper.tools.models import ModelSet
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox
from viper_lab.papers import clova_tools
from viper_lab.papers.clova import own_subject
from viper_lab.papers.clova_tools import ToolOutcome, ToolSetup, slug_of, tool_outcome
from viper_lab.papers.method_runner import Subject
from viper_lab.scores.concepts.measurement import ToolAnswer, whole

RED = np.full((8, 8, 3), (255, 0, 0), np.uint8)
SETUP = ToolSetup("match", 0, 3, concepts=("egg", "dome"))


class Matcher(FakeMatcher):
    """Takes red pictures for a concept once it has prompts for it.

    Attributes:
        is_ruined: the word red fits blue pictures.
    """

    is_ruined = False

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        rows = super().encode_texts(texts)
        return rows[:, ::-1] if self.is_ruined else rows

    def encode_image_adapted(self, image: Pixels, prompts: Any) -> Floats:
        return np.array([1, 0, 0], np.float32)

    def encode_text_adapted(self, text: str, prompts: Any) -> Floats:
        return np.array([2, 0, 0], np.float32)


def asked(toolbox: Toolbox, concept: str) -> float:
    """Return 1 if the matcher takes a red picture for a concept, 0 if for red, else 0.5."""
    session = toolbox.session(media_from(RED))
    words = [concept, "blue", "red"]
    answer = session.call("best_text_match", (whole(RED), words), {}, None)
    return {concept: 1.0, "red": 0.0}.get(answer, 0.5)


QUESTIONS = SimpleNamespace(
    about=lambda toolbox, concept, *, split, count, seed: [
        ToolAnswer("select", concept, f"{split} {n}", asked(toolbox, concept)) for n in range(count)
    ],
    about_old=lambda toolbox, concepts, *, split, count, seed: [
        ToolAnswer("select", "green", f"{split} {n}", asked(toolbox, "green"))
        for n in range(count // 10)
    ],
)


class Trainer:
    """Stores one prompt for each concept.

    Attributes:
        ruins: changes the model itself, too.
        teaches: stores a prompt at all.
    """

    ruins, teaches = False, True

    def __init__(self, models: ModelSet, pool: PromptPool, sources: object) -> None:
        self._models, self._pool = models, pool

    def teach(self, tool: str, concept: str, options: object) -> Any:
        if self.teaches:
            self._pool.add(tool, concept, [learned(1.0, Matcher.model_id, size=3)])
        self._models.get("matcher").is_ruined = self.ruins
        return SimpleNamespace(trained=())


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> type[Trainer]:
    own: type[Trainer] = type("Own", (Trainer,), {})
    monkeypatch.setattr(clova_tools, "ToolTrainer", own)
    modules = SimpleNamespace(import_module=lambda name: QUESTIONS)
    monkeypatch.setattr(clova_tools, "importlib", modules)
    return own


def measured(folder: Path) -> ToolOutcome:
    toolbox = Toolbox(ModelSet({"matcher": Matcher}), ToolSettings())
    return tool_outcome(toolbox, SETUP, folder, lambda text: None)


def rights(outcome: ToolOutcome) -> list[list[float]]:
    return [[answer.right for answer in answers] for answers in (*outcome.new, *outcome.old)]


def test_before_untaught_after_taught_and_again_as_before(
    tmp_path: Path, trainer: type[Trainer]
) -> None:
    outcome = measured(tmp_path)
    assert rights(outcome) == [[0.0] * 6, [1.0] * 6, [0.0] * 3, [0.0] * 3]
    assert outcome.same_without


def test_a_model_that_was_changed_in_place_is_noticed(
    tmp_path: Path, trainer: type[Trainer]
) -> None:
    trainer.ruins = True
    outcome = measured(tmp_path)
    assert not outcome.same_without and rights(outcome)[2:] == [[0.0] * 3] * 2


def test_prompts_that_cannot_be_removed_are_noticed(
    tmp_path: Path, trainer: type[Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PromptPool, "remove", lambda *_: 0)
    assert not measured(tmp_path).same_without


def test_prompts_of_an_ended_run_are_not_asked(tmp_path: Path, trainer: type[Trainer]) -> None:
    pool = PromptPool(tmp_path / f"pool-{slug_of(SETUP)}")
    pool.add("match", "egg", [learned(1.0, Matcher.model_id, size=3)])
    pool.close()
    trainer.teaches = False
    assert rights(measured(tmp_path))[:2] == [[0.0] * 6] * 2


def test_outcomes_of_an_earlier_measurement_are_not_read(
    tmp_path: Path, trainer: type[Trainer]
) -> None:
    old = tmp_path / f"match-{slug_of(SETUP)}.json"
    old.write_text("{}")
    assert measured(tmp_path).same_without and old.read_text() == "{}"


def own_of(name: str, split: str | None = None, stream_split: str | None = None) -> Subject:
    options: Any = SimpleNamespace(set_name=name, split=split, root=Path("files"))
    own: Any = SimpleNamespace(stream_split=stream_split)
    return own_subject(options, own)


@pytest.mark.parametrize(
    ("name", "asked", "learned"),
    [("gqa", "testdev_balanced", "train_balanced"), ("nlvr2", "dev", "train")],
)
def test_the_stream_is_of_the_training_split_that_the_set_has(
    name: str, asked: str, learned: str
) -> None:
    subject = own_of(name)
    assert (subject.split, subject.stream_split, subject.root) == (asked, learned, Path("files"))
    assert own_of(name, learned, asked).stream_split == asked


def test_a_set_without_a_training_split_names_its_splits() -> None:
    with pytest.raises(UsageError, match="choose one of val, testA, .* with --stream-split"):
        own_of("hub:lmms-lab/RefCOCO")
    with pytest.raises(UsageError, match="judged on dev, which it learns from"):
        own_of("nlvr", "dev", "dev")
