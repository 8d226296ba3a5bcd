"""A folder of pictures: indexed once, kept up to date, searched by names and by likeness."""

from __future__ import annotations

import os
import sqlite3

import numpy as np
import pytest
from PIL import Image

from tests.tuning.stores import LetterMatcher
from viper.errors import MediaError, StoreError, UsageError
from viper.search import picture_index
from viper.tuning.data_collection import collect_pictures
from viper.tuning.picture_folder import FolderSearch
from viper.tuning.training_data import ConceptQuery, PictureSearch


def save(path, red=0, green=0, blue=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((5, 7, 3), (red, green, blue), np.uint8)).save(path)


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "pictures"
    save(root / "a.png", red=200)
    save(root / "b.png", green=200)
    save(root / "sub" / "c.png", blue=200)
    return root


def names(found):
    return [each.origin["file"] for each in found]


def test_the_most_similar_come_first(folder, tmp_path):
    search = FolderSearch(folder, LetterMatcher(), tmp_path / "state")
    assert isinstance(search, PictureSearch) and len(search) == 3
    assert names(search.search("ggg", 1)) == ["b.png"]
    assert names(search.search("bbbr", 2)) == ["sub/c.png", "a.png"]
    (one,) = search.search("r", 1)
    assert (one.pixels() == (200, 0, 0)).all()
    assert one.origin["by"] == "similarity" and len(one.origin["sha256"]) == 64


def test_names_decide_where_they_say_anything(folder, tmp_path):
    save(folder / "old-pyramids" / "1.png", red=1)
    save(folder / "x" / "Red_Pyramid 2.png", red=2)
    save(folder / "pyramidal.png", red=3)
    search = FolderSearch(folder, LetterMatcher(), tmp_path / "state")
    found = search.search("pyramid", 9)
    assert sorted(names(found)) == ["old-pyramids/1.png", "x/Red_Pyramid 2.png"]
    assert {each.origin["by"] for each in found} == {"name"}
    assert names(search.search("red pyramids", 1)) == ["x/Red_Pyramid 2.png"]


def test_the_least_likeness_holds_for_what_has_no_such_name(folder, tmp_path):
    search = FolderSearch(folder, LetterMatcher(), tmp_path / "state", least=0.9)
    assert names(search.search("g", 9)) == ["b.png"]
    save(folder / "g.png", red=9)
    search = FolderSearch(folder, LetterMatcher(), tmp_path / "state", least=0.9)
    assert names(search.search("g", 9)) == ["g.png"]


def test_only_what_changed_is_embedded_again(folder, tmp_path):
    matcher, state = LetterMatcher(), tmp_path / "state"
    FolderSearch(folder, matcher, state)
    assert matcher.embedded == 3
    FolderSearch(folder, matcher, state)
    os.utime(folder / "a.png", ns=(1, 1))
    (folder / "sub" / "c.png").rename(folder / "moved.png")
    (folder / "copy.png").write_bytes((folder / "b.png").read_bytes())
    told: list[tuple[int, int]] = []
    search = FolderSearch(folder, matcher, state, progress=lambda *both: told.append(both))
    assert matcher.embedded == 3 and told == [(3, 3)]
    assert len(search) == 4 and names(search.search("bb", 1)) == ["moved.png"]
    save(folder / "a.png", green=20, blue=90)
    (folder / "b.png").unlink()
    search = FolderSearch(folder, matcher, state)
    assert matcher.embedded == 4 and len(search) == 3


def test_the_same_content_is_found_once(folder, tmp_path):
    (folder / "copy.png").write_bytes((folder / "b.png").read_bytes())
    search = FolderSearch(folder, LetterMatcher(), tmp_path / "state")
    assert len(search.search("g", 9)) == 3


def test_hostile_files_are_refused_or_passed_over(folder, tmp_path):
    (folder / "text.png").write_text("no picture")
    (folder / "cut.png").write_bytes((folder / "a.png").read_bytes()[:-30])
    (folder / "empty.png").touch()
    (folder / ".hidden.png").write_bytes((folder / "a.png").read_bytes())
    (folder / ".git").mkdir()
    save(folder / ".git" / "x.png")
    save(tmp_path / "outside.png", red=77)
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.png")
    matcher = LetterMatcher()
    search = FolderSearch(folder, matcher, tmp_path / "state")
    assert len(search) == 3 and matcher.embedded == 3
    assert [each.name for each in search.refused] == ["cut.png", "text.png"]
    assert "is no picture" in search.refused[1].why
    assert FolderSearch(folder, matcher, tmp_path / "state").refused == search.refused


def test_a_file_that_changed_after_the_index_is_not_passed_off(folder, tmp_path):
    search = FolderSearch(folder, LetterMatcher(), tmp_path / "state")
    save(folder / "a.png", red=3)
    found = search.search("r", 3)
    with pytest.raises(MediaError, match="has changed since"):
        found[0].pixels()
    got = collect_pictures(ConceptQuery("r"), search, limit=3)
    assert names(got.positives) == names(found[1:]) and got.evidence["refused_count"] == 1


def test_another_model_has_another_index(folder, tmp_path):
    state = tmp_path / "state"
    FolderSearch(folder, LetterMatcher(), state)
    other = LetterMatcher()
    other.model_id = "letters-2"
    FolderSearch(folder, other, state)
    assert other.embedded == 3 and len(list((state / "pictures").glob("*.db"))) == 2


def test_an_interrupted_index_goes_on(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(picture_index, "_BATCH", 1)

    class Failing(LetterMatcher):
        def encode_images(self, images):
            if self.embedded == 2:
                raise KeyboardInterrupt
            return super().encode_images(images)

    with pytest.raises(KeyboardInterrupt):
        FolderSearch(folder, Failing(), tmp_path / "state")
    matcher = LetterMatcher()
    assert len(FolderSearch(folder, matcher, tmp_path / "state")) == 3
    assert matcher.embedded == 1


def test_an_empty_folder_finds_nothing(tmp_path):
    (tmp_path / "none").mkdir()
    search = FolderSearch(tmp_path / "none", LetterMatcher(), tmp_path / "state")
    assert search.search("g", 3) == [] and len(search) == 0


def test_folders_that_are_none_or_too_large(folder, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="no such folder"):
        FolderSearch(tmp_path / "nowhere", LetterMatcher(), tmp_path / "state")
    monkeypatch.setattr(picture_index, "MAX_PICTURES", 2)
    with pytest.raises(UsageError, match="more than 2 files"):
        FolderSearch(folder, LetterMatcher(), tmp_path / "state")


def test_a_broken_index_is_a_clear_line(folder, tmp_path):
    state = tmp_path / "state"
    FolderSearch(folder, LetterMatcher(), state)
    (path,) = (state / "pictures").glob("*.db")
    path.write_bytes(b"no database" * 999)
    with pytest.raises(StoreError, match="delete it to index anew"):
        FolderSearch(folder, LetterMatcher(), state)
    path.unlink()
    for more in path.parent.glob(path.name + "-*"):
        more.unlink()
    FolderSearch(folder, LetterMatcher(), state)
    with sqlite3.connect(path) as index:
        index.execute("PRAGMA user_version = 9")
    with pytest.raises(StoreError, match="version 9"):
        FolderSearch(folder, LetterMatcher(), state)
