"""What was trained outlives the process; a damaged file is as if it were not there."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from tests.models.vision.adapter_fakes import prompt
from viper.errors import StoreError
from viper.models.vision.prompt_pool import Evidence
from viper.tuning.soft_prompts.base import TrainedPrompt, TunerOptions
from viper.tuning.tool_training import TrainedFiles

KEY = ("loc", "a model", TunerOptions(seed=3), "pyramid", '{"source": "a store"}')
EVIDENCE = Evidence("a model", ("a", "b"), ("c",), 0.25, 1.0, "annotated", "find it", 60, 3)
LESSON = [
    TrainedPrompt(prompt(0.5), EVIDENCE),
    TrainedPrompt(prompt(0.2), EVIDENCE, "no better — at all"),
]


@pytest.fixture
def files(tmp_path) -> TrainedFiles:
    found = TrainedFiles(tmp_path / "trained")
    found[KEY] = LESSON
    return found


def only_file(files: TrainedFiles):
    (path,) = files.folder.iterdir()
    return path


def test_another_process_finds_the_lesson_as_it_was(files) -> None:
    found = TrainedFiles(files.folder).get(KEY)
    assert [(one.evidence, one.why, one.kept) for one in found] == [
        (one.evidence, one.why, one.kept) for one in LESSON
    ]
    for one, other in zip(found, LESSON, strict=True):
        assert np.array_equal(one.prompt.vectors, other.prompt.vectors)
        assert np.array_equal(one.prompt.feature, other.prompt.feature)
    assert only_file(files) and list(files.folder.glob("*.tmp")) == []


@pytest.mark.parametrize("place", range(5))
def test_another_key_is_another_lesson(files, place) -> None:
    other = list(KEY)
    other[place] = TunerOptions(seed=4) if place == 2 else f"{KEY[place]}!"
    assert files.get(tuple(other)) is None


def test_lessons_go_when_told_to(files) -> None:
    files.forget()
    assert files.get(KEY) is None and list(files.folder.iterdir()) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-9],
        lambda content: b"\xff" * 40,
        lambda content: content.replace(b'"trained"', b'"trainee"'),
        lambda content: content.replace(b'"model_id"', b'"model_no"'),
        lambda content: content.replace(b"\x00\x00\x00\x3f", b"\x00\x00\xc0\x7f"),
    ],
    ids=["empty", "cut off", "no safetensors", "no list", "no model", "not finite"],
)
def test_a_damaged_file_is_no_lesson_and_is_written_anew(files, damage) -> None:
    path = only_file(files)
    broken = damage(path.read_bytes())
    assert broken != path.read_bytes()
    path.write_bytes(broken)
    assert files.get(KEY) is None
    files[KEY] = LESSON
    assert files.get(KEY) is not None


def test_the_file_of_another_key_is_no_lesson_for_this_one(files) -> None:
    other = (*KEY[:-1], "{}")
    files[other] = LESSON
    files._path(other).replace(files._path(KEY))
    assert files.get(KEY) is None


def test_a_full_disk_is_said_and_leaves_what_was_there(files, monkeypatch) -> None:
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("viper.storage.files.os.fsync", full)
    with pytest.raises(StoreError, match="the disk is full"):
        files[KEY] = []
    monkeypatch.undo()
    assert len(files.get(KEY)) == 2 and len(list(files.folder.iterdir())) == 1
