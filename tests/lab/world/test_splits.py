import pytest

from viper.errors import UnknownNameError, UsageError
from viper_lab.world.splits import SCENES_PER_SPLIT, combinations, scene_index, scene_seed, split_of
from viper_lab.world.vocabulary import (
    COLOURS,
    HELD_OUT_COMBINATIONS,
    RESERVED_COLOURS,
    RESERVED_SHAPES,
    SHAPES,
    SPLITS,
)


def test_splits_share_no_seed():
    last = SCENES_PER_SPLIT - 1
    ranges = [(scene_seed(split, 0), scene_seed(split, last)) for split in SPLITS]
    assert all(end < start for (_, end), (start, _) in zip(ranges[:-1], ranges[1:], strict=True))


@pytest.mark.parametrize("split", SPLITS)
def test_a_seed_names_its_split_and_index(split):
    seed = scene_seed(split, 123_456)
    assert (split_of(seed), scene_index(seed)) == (split, 123_456)


@pytest.mark.parametrize("split", ["train", "val"])
def test_held_out_pairs_are_left_out_of_training_and_validation(split):
    assert not HELD_OUT_COMBINATIONS & set(combinations(split))
    assert len(combinations(split)) == len(COLOURS) * len(SHAPES) - len(HELD_OUT_COMBINATIONS)


def test_test_split_has_every_pair():
    assert set(combinations("test")) == {(c, s) for c in COLOURS for s in SHAPES}


@pytest.mark.parametrize("split", SPLITS)
def test_no_split_has_reserved_words(split):
    colours, shapes = map(set, zip(*combinations(split), strict=True))
    assert not colours & set(RESERVED_COLOURS)
    assert not shapes & set(RESERVED_SHAPES)


def test_an_unknown_split_is_named_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="'dev'; known: test, train, val"):
        scene_seed("dev", 0)


@pytest.mark.parametrize("index", [-1, SCENES_PER_SPLIT])
def test_an_index_out_of_range_is_refused(index):
    with pytest.raises(UsageError, match=str(index)):
        scene_seed("train", index)


def test_a_seed_of_no_split_is_refused():
    with pytest.raises(UsageError, match="belongs to no split"):
        split_of(len(SPLITS) * SCENES_PER_SPLIT)
