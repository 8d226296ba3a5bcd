"""Queries over regions of pictures, on made descriptions."""

import numpy as np
import pytest

from viper.tuning.soft_prompts.annotated import Fitting, Regions


def regions(count=40, source=None):
    """Every fourth shows the concept, which the third of five features says, far from zero."""
    rng = np.random.default_rng(0)
    shown = np.arange(count) % 4 == 0
    features = rng.normal(size=(count, 5)).astype(np.float32)
    features[:, 2] += 1000 + 4 * shown
    source = np.zeros(count, np.int64) if source is None else source
    return Regions(features, shown, source, source)


def test_a_query_parts_what_is_shown_from_the_rest():
    known, told = regions(), []
    query, shift = Fitting(known, (2, 3)).query((), 30, 1.0, lambda: told.append(1))
    logits = known.features @ query + shift
    assert ((logits > 0) == known.shown).mean() > 0.95 and len(told) == 30
    assert abs(query[2]) == abs(query).max()


def test_what_was_held_out_plays_no_part():
    source = np.arange(40) // 10
    one, other = regions(source=source), regions(source=source)
    held = source == 3
    other.shown[held] = ~other.shown[held]
    queries = [Fitting(known, (5,)).query([3], 20, 1.0, lambda: None)[0] for known in (one, other)]
    assert np.array_equal(*queries)
    assert one.without([3]).tolist() == list(range(30)) and one.held([3]).tolist() == [
        *range(30, 40)
    ]


def test_an_object_of_a_held_out_picture_is_left_out_wherever_it_was_pasted():
    known = Regions(
        np.zeros((3, 1), np.float32),
        np.zeros(3, np.bool_),
        np.array([0, 0, 1]),
        np.array([0, 1, 1]),
    )
    assert known.without([1]).tolist() == [0] and known.held([1]).tolist() == [1, 2]


def test_each_part_of_a_description_says_as_much_as_any():
    known = regions()
    wide = Regions(
        np.repeat(known.features, (10, 1, 1, 1, 1), axis=1), known.shown, known.canvas, known.source
    )
    one = Fitting(known, (1, 4)).products
    two = Fitting(wide, (10, 4)).products
    assert np.allclose(one, two, atol=1e-3)


@pytest.mark.parametrize("shown", (True, False))
def test_the_margin_is_the_best_cut_of_what_was_held_out(shown):
    features = np.array([[1.0], [2.0], [6.0], [8.0]], np.float32)
    places = np.arange(4)
    known = Regions(features, np.array([False, False, shown, shown]), places, places)
    fitting = Fitting(known, (1,))
    one = (range(4), np.ones(1, np.float32), 0.0)
    assert fitting.margin([one]) == (4.0 if shown else 0.0)
    assert fitting.margin([]) == 0.0
