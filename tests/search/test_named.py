"""Indexes by name, as a profile asks for them."""

import numpy as np
import pytest
from PIL import Image

from tests.tuning.stores import LetterMatcher
from viper.errors import StoreError, UsageError
from viper.search.named import NamedPictures, NamedTexts, checked_name, named_indexes


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    Image.fromarray(np.full((8, 8, 3), (200, 0, 0), np.uint8)).save(folder / "red.png")
    return folder


def test_what_was_never_indexed_is_said_when_it_is_searched(tmp_path):
    named = NamedPictures(tmp_path, LetterMatcher())
    assert named.model_id == "pictures:default@"
    with pytest.raises(
        UsageError, match="no pictures are indexed as 'default'; run: viper setup index"
    ):
        named.similar(np.zeros((4, 4, 3), np.uint8), 1)
    texts = NamedTexts(tmp_path)
    assert texts.model_id == "texts:default@"
    with pytest.raises(
        UsageError, match="no texts are indexed as 'default'; run: viper setup index"
    ):
        texts.search("x", 1)
    assert named_indexes(tmp_path) == []


def test_a_name_leads_to_its_folder_and_changes_with_its_content(tmp_path, pictures):
    state = tmp_path / "state"
    named = NamedPictures(state, LetterMatcher(), "mine")
    named.name_folder(pictures)
    named.index().update()
    found = NamedPictures(state, LetterMatcher(), "mine")
    assert [one.picture_id for one in found.similar(np.full((4, 4, 3), 9, np.uint8), 3)] == [
        "red.png"
    ]
    before = found.model_id
    Image.fromarray(np.full((8, 8, 3), (0, 0, 200), np.uint8)).save(pictures / "blue.png")
    found.index().update()
    assert NamedPictures(state, LetterMatcher(), "mine").model_id not in (before, "pictures:mine@")
    (tmp_path / "a.md").write_text("# A\nwords\n")
    texts = NamedTexts(state, "notes")
    texts.update([tmp_path / "a.md"])
    assert NamedTexts(state, "notes").model_id != texts.model_id
    assert named_indexes(state) == [
        ("pictures", "mine", str(pictures)),
        ("texts", "notes", "1 passages"),
    ]


def test_a_folder_that_went_is_said(tmp_path, pictures):
    state = tmp_path / "state"
    named = NamedPictures(state, LetterMatcher())
    named.name_folder(pictures)
    for path in (pictures / "red.png",):
        path.unlink()
    pictures.rmdir()
    with pytest.raises(UsageError, match="no such folder"):
        NamedPictures(state, LetterMatcher()).similar(np.zeros((4, 4, 3), np.uint8), 1)
    assert named_indexes(state)[0][2].endswith("(gone)")
    named.path.write_text("{")
    with pytest.raises(StoreError, match="broken; delete it"):
        NamedPictures(state, LetterMatcher()).similar(np.zeros((4, 4, 3), np.uint8), 1)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 65, None, "ä"])
def test_names_are_names_of_files(name):
    with pytest.raises(UsageError, match="no name of an index"):
        checked_name(name)
