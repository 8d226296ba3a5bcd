"""Pictures that are like one, in a folder that changes."""

import json

import numpy as np
import pytest
from PIL import Image

from tests.tuning.stores import LetterMatcher
from viper.errors import DataError, StoreError, UsageError
from viper.search.findings import Entity, ImageSearch
from viper.search.image_index import ImageIndex


def picture(red, green, blue, side=12):
    rng = np.random.default_rng(red + 7 * green + 31 * blue)
    noise = rng.integers(-30, 30, (4, 4, 1)).repeat(side // 4, 0).repeat(side // 4, 1)
    return np.clip(np.array([red, green, blue]) + noise, 0, 255).astype(np.uint8)


COLOURS = {"red.png": (200, 20, 20), "rosy.png": (200, 60, 60), "blue.png": (20, 20, 200)}


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "pictures"
    (root / "sub").mkdir(parents=True)
    for name, colour in COLOURS.items():
        Image.fromarray(picture(*colour)).save(root / name)
    Image.fromarray(picture(20, 200, 20)).save(root / "sub" / "green.png")
    notes = [
        {
            "file_name": "red.png",
            "caption": "a red\nthing",
            "title": "Redster",
            "entities": ["Red"],
        },
        {
            "file_name": "rosy.png",
            "text": "rosy",
            "entities": [{"name": "Ro", "description": "x"}, 5],
        },
        {"file_name": "../outside.png", "caption": "no"},
    ]
    (root / "metadata.jsonl").write_text("\n".join(map(json.dumps, notes)))
    (root / "sub" / "metadata.jsonl").write_text('{"file_name": "green.png", "caption": "green"}\n')
    return root


def made(folder, tmp_path):
    return ImageIndex(folder, LetterMatcher(), tmp_path / "state")


def names(found):
    return [one.picture_id for one in found]


def test_the_most_similar_come_with_what_is_said_of_them(folder, tmp_path):
    index, told = made(folder, tmp_path), []
    assert index.update(on_graph=lambda *at: told.append(at)) == () and told == [(4, 4)]
    assert isinstance(index, ImageSearch) and len(index) == 4
    red, rosy = index.similar(picture(190, 25, 25), 2)
    assert (red.picture_id, red.caption, red.title) == ("red.png", "a red thing", "Redster")
    assert red.entities == (Entity("Red"),) and not red.identical
    assert rosy.caption == "rosy" and rosy.entities == (Entity("Ro", "x"),)
    assert red.score > rosy.score
    assert index.similar(picture(30, 190, 30), 1)[0].caption == "green"


def test_the_same_picture_is_known_in_another_size_and_packing(folder, tmp_path):
    index = made(folder, tmp_path)
    index.update()
    whole = Image.fromarray(picture(200, 20, 20)).resize((64, 48), Image.Resampling.NEAREST)
    whole.save(tmp_path / "again.jpg", quality=80)
    first, second = index.similar(np.asarray(Image.open(tmp_path / "again.jpg")), 2)
    assert first.picture_id == "red.png" and first.identical and not second.identical


def test_two_files_of_one_picture_both_speak(folder, tmp_path):
    (folder / "copy.png").write_bytes((folder / "red.png").read_bytes())
    index = made(folder, tmp_path)
    index.update()
    assert names(index.similar(picture(200, 20, 20), 2)) == ["copy.png", "red.png"]


def test_what_changes_is_brought_up_to_date(folder, tmp_path):
    made(folder, tmp_path).update()
    (folder / "red.png").unlink()
    Image.fromarray(picture(60, 20, 200)).save(folder / "violet.png")
    (folder / "metadata.jsonl").write_text('{"file_name": "rosy.png", "caption": "new words"}')
    index = made(folder, tmp_path)
    index.update()
    assert index._matcher.embedded == 1 and len(index) == 4
    found = index.similar(picture(200, 30, 30), 4)
    assert names(found)[0] == "rosy.png" and found[0].caption == "new words"
    assert sorted(names(found)) == ["blue.png", "rosy.png", "sub/green.png", "violet.png"]


@pytest.mark.parametrize("harm", ["gone", "cut", "behind"])
def test_the_graph_is_made_again_of_the_vectors(folder, tmp_path, harm):
    index = made(folder, tmp_path)
    index.update()
    if harm == "gone":
        index.graph_path.unlink()
    elif harm == "cut":
        index.graph_path.write_bytes(index.graph_path.read_bytes()[:100])
    else:
        Image.fromarray(picture(60, 20, 200)).save(folder / "violet.png")
        index._pictures.update()  # killed before the graph was made
    again = made(folder, tmp_path)
    again.update()
    assert again._matcher.embedded == 0
    assert names(again.similar(picture(200, 20, 20), 1)) == ["red.png"]
    assert len(again.similar(picture(200, 20, 20), 9)) == len(again)


def test_nothing_indexed_finds_nothing(tmp_path):
    (tmp_path / "empty").mkdir()
    index = made(tmp_path / "empty", tmp_path)
    assert index.similar(picture(1, 2, 3), 3) == []
    index.update()
    assert index.similar(picture(1, 2, 3), 3) == [] and len(index) == 0


def test_wrong_folders_notes_limits_and_matchers(folder, tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        made(tmp_path / "no", tmp_path)
    index = made(folder, tmp_path)
    index.update()
    with pytest.raises(UsageError, match="a limit of 0"):
        index.similar(picture(1, 2, 3), 0)

    class Other(LetterMatcher):
        def encode_images(self, images):
            return super().encode_images(images)[:, :5]

    index._matcher = Other()
    with pytest.raises(StoreError, match="made by another matcher"):
        index.similar(picture(1, 2, 3), 1)
    for line, says in (("{", "no JSON"), ('{"caption": "x"}', "no note")):
        (folder / "metadata.jsonl").write_text(line)
        with pytest.raises(DataError, match=rf"metadata.jsonl:1: {says}"):
            made(folder, tmp_path).update()
