"""The world as a store and as a search: right labels, scenes of its own, known errors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tuning.stores import LetterMatcher
from viper.errors import UsageError
from viper.tuning.data_collection import collect_annotated, collect_pictures
from viper.tuning.training_data import AnnotatedStore, ConceptQuery, PictureSearch
from viper_lab.world.annotated import (
    LABELS,
    SCENES,
    SEARCH_FIRST,
    WorldStore,
    labels_of,
    meaning_of,
    scenes_with,
)
from viper_lab.world.found import WorldPictureSearch
from viper_lab.world.render_stage import mask_box
from viper_lab.world.reserved import CONCEPTS, SCENES_PER_CONCEPT
from viper_lab.world.scene import SceneObject
from viper_lab.world.splits import split_of

STORE = WorldStore()


def a_thing(shape="cube", colour="red", pattern=None):
    return SceneObject(shape, colour, "metal", "big", (0.0, 0.0, 0.0), pattern=pattern)


@pytest.mark.parametrize("concept", CONCEPTS)
def test_every_reserved_concept_is_there_among_known_things(concept):
    pictures = STORE.samples(concept, 3)
    assert len(pictures) == 3
    for each in pictures:
        assert each.concept == concept
        for index, thing in enumerate(each.things):
            assert (concept in thing.labels) == (index in each.positives)
        assert len(each.things) > len(each.positives) > 0
        assert concept not in each.absent


def test_boxes_masks_and_pixels_belong_together():
    (one,) = STORE.samples("dome", 1)
    pixels = one.pixels()
    assert pixels.shape == (144, 192, 3) and pixels.dtype == np.uint8
    masks = [thing.mask() for thing in one.things]
    for thing, mask in zip(one.things, masks, strict=True):
        assert mask.shape == (144, 192) and mask.dtype == np.bool_
        assert thing.box == pytest.approx(mask_box(mask))
    masks[0][:] = True
    pixels[:] = 0
    assert one.pixels().any() and not one.things[0].mask().all()


def test_all_scenes_are_of_the_training_split_and_of_ranges_of_their_own():
    ranges: dict[str, set[int]] = {}
    for name, start in (("store", 0), ("store 1", SCENES), ("search", SEARCH_FIRST)):
        for concept in ("pink", "cube"):
            found = list(zip(scenes_with(meaning_of(concept), start), range(4), strict=False))
            seeds = {scene.seed for (_, scene, _), _ in found}
            assert {split_of(seed) for seed in seeds} == {"train"}
            ranges.setdefault(name, set()).update(seeds)
    assert len(set.union(*ranges.values())) == sum(map(len, ranges.values())) == 24
    assert SEARCH_FIRST + 1_000 * SCENES <= SCENES_PER_CONCEPT


def test_seeds_draw_other_pictures_and_the_same_seed_the_same():
    first, again, other = (STORE.samples("egg", 2, seed=s) for s in (0, 0, 1))
    assert [p.picture_id for p in first] == [p.picture_id for p in again]
    assert (first[0].pixels() == again[0].pixels()).all()
    assert not {p.picture_id for p in first} & {p.picture_id for p in other}
    assert [p.picture_id for p in STORE.samples("egg", 1)] == [first[0].picture_id]
    with pytest.raises(UsageError, match=r"choose one in \[0, 1000\)"):
        STORE.samples("egg", 2, seed=1_000)


@pytest.mark.parametrize(
    ("concept", "label"),
    [
        ("Pyramids", "pyramid"),
        ("cube metal red", "red metal cube"),
        ("striped cubes", "striped cube"),
        ("small", "small"),
    ],
)
def test_concepts_are_read_as_words_of_the_world(concept, label):
    assert STORE.names_of(concept) == (label,)
    for each in STORE.samples(concept, 2):
        assert each.concept == label and each.positives


@pytest.mark.parametrize(
    "concept", ["horse", "red blue cube", "pink pyramid", "cube cube", "cube of red", "  "]
)
def test_what_the_world_has_no_scene_of_gives_nothing(concept):
    assert STORE.names_of(concept) == () and STORE.samples(concept, 3) == []
    assert WorldPictureSearch().search(concept, 3) == []


def test_held_out_pairs_stay_held_out():
    assert STORE.samples("red cone", 3) == [] and "red cone" not in LABELS


def test_labels_name_shape_colour_and_what_is_reserved():
    assert labels_of(a_thing()) == ("cube", "red cube")
    assert labels_of(a_thing(colour="pink")) == ("cube", "pink cube", "pink")
    assert labels_of(a_thing("dome")) == ("dome", "red dome")
    assert labels_of(a_thing(pattern="spotted")) == ("cube", "red cube", "spotted cube", "spotted")


def test_the_world_is_collected_from_like_any_store():
    assert isinstance(STORE, AnnotatedStore) and isinstance(WorldPictureSearch(), PictureSearch)
    query = ConceptQuery("pyramid", ("cone", "dome"))
    got = collect_annotated(query, STORE, limit=3, negatives=4)
    assert len(got.positives) == 3 and len(got.negatives) == 4
    assert {each.concept for each in got.negatives} == {"cone", "dome"}
    for each in got.negatives:
        assert not any("pyramid" in thing.labels for thing in each.things)


def test_positives_and_negatives_from_the_search():
    got = collect_pictures(
        ConceptQuery("pyramid"),
        WorldPictureSearch(),
        limit=3,
        negatives=2,
        vocabulary=LABELS,
        matcher=LetterMatcher(),
    )
    assert len(got.positives) == 3 and len(got.negatives) == 2
    assert "pyramid" not in " ".join(got.evidence["related"])
    for each in got.positives:
        height, width, _ = each.pixels().shape
        assert height == width


@pytest.mark.parametrize("wrong", [0.0, 0.3, 1.0])
def test_the_share_of_wrong_pictures_is_exact_and_hidden(wrong):
    search = WorldPictureSearch(wrong=wrong, seed=2)
    found = search.search("checkered", 20)
    flags = [search.is_wrong(each) for each in found]
    assert sum(flags) == round(wrong * 20)
    right = WorldPictureSearch(seed=2).search("checkered", 20)
    for each, good, flag in zip(found, right, flags, strict=True):
        assert each.picture_id == good.picture_id and each.origin == good.origin
        assert (each.pixels.args == good.pixels.args) != flag
    assert not any("wrong" in field for field in vars(found[0]))


def test_a_wrong_picture_shows_no_such_object():
    search = WorldPictureSearch(wrong=1.0)
    for each in search.search("white", 5):
        scene, index = each.pixels.args
        assert scene.objects[index].colour != "white"
        assert all(thing.colour != "white" for thing in scene.objects)


def test_a_greater_limit_only_adds_more():
    search = WorldPictureSearch(wrong=0.3, seed=5)
    few, many = search.search("disc", 4), search.search("disc", 9)
    assert [each.picture_id for each in few] == [each.picture_id for each in many[:4]]
    assert [each.pixels.args for each in few] == [each.pixels.args for each in many[:4]]


@pytest.mark.parametrize("wrong", [-0.1, 1.1, 0.25, float("nan")])
def test_shares_are_tenths(wrong):
    with pytest.raises(UsageError, match="expected 0, 0.1"):
        WorldPictureSearch(wrong=wrong)
