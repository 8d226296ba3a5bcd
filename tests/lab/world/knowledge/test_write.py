"""A knowledge world as files, and what the tools find in it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from viper.errors import UsageError
from viper.models.vision.ocr_rapid import RapidOcr
from viper_lab.commands.world import world
from viper_lab.world.knowledge.catalogue import catalogue
from viper_lab.world.knowledge.gallery import notes_of, scene_object, with_labels
from viper_lab.world.layout import sample_scene
from viper_lab.world.render import render_scene


def run(*args):
    done = CliRunner().invoke(world, ["knowledge", *map(str, args)], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done


@pytest.fixture(scope="module")
def lore(tmp_path_factory):
    out = tmp_path_factory.mktemp("lore") / "lore"
    done = run(out, "--designs", 20, "--questions", 12)
    assert "reference pictures: " in done.stderr and "questions: 12" in done.stderr
    return out


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_everything_is_there_and_fits_together(lore):
    asked, notes = records(lore / "questions.jsonl"), records(lore / "gallery" / "metadata.jsonl")
    assert len(asked) == 12 and all((lore / one["image"]).is_file() for one in asked)
    assert all((lore / "gallery" / one["file_name"]).is_file() for one in notes)
    named = {each["name"] for one in notes for each in one.get("entities", ())}
    assert named <= {one.name for one in catalogue("val", 0, 20).designs}
    works = [one for one in notes if one["file_name"].startswith("works/")]
    assert len(works) == sum(one["kind"] == "picture" for one in asked)
    texts = records(lore / "texts.jsonl")
    told = " ".join(one["text"] for one in texts)
    for one in asked:
        if one["answer"] != "unanswerable" and one["path"]:
            assert one["answer"] in told


def test_every_design_can_be_named_somehow():
    from random import Random

    whole = catalogue("val")
    for seed, design in enumerate(whole.designs):
        notes = notes_of(whole, design, Random(seed))
        written = json.dumps(notes)
        assert design.name in written and 1 <= len(notes) <= 3
    bland = [one for one in notes_of(whole, whole.designs[0], Random(3)) if "entities" not in one]
    assert all({"caption", "title"} <= set(one) for one in bland)


def test_labels_can_be_read():
    whole, reader = catalogue("val"), RapidOcr()
    marked = [one for one in whole.designs if one.mark][:4]
    read = []
    for place, design in enumerate(marked):
        scene = sample_scene(
            "val", 7_000 + place, min_objects=1, max_objects=1, objects=[scene_object(design)]
        )
        still = render_scene(scene)
        pixels = with_labels(still, [design.mark])
        assert (pixels != still.image).any() and with_labels(still, [""]) is still.image
        read += [line.text.replace(" ", "") for line in reader.read(np.asarray(pixels))]
    assert sum(one.mark in read for one in marked) >= 3


def test_a_folder_in_use_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="exists and is not empty; name a new folder"):
        run(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_the_pictures_of_a_question_are_pictures(lore):
    for path in sorted((lore / "questions").iterdir())[:3]:
        assert Image.open(path).size == (192, 144)
