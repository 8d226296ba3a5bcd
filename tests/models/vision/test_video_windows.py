"""Frames and windows, worked out by hand."""

import pytest

from viper.models.vision.roles import EventWindow
from viper.models.vision.video_windows import (
    as_sentences,
    clamp,
    evenly,
    merge_windows,
    overlapping,
    parts,
    smooth,
    spread,
)


def scored(*windows: tuple[int, int, float]) -> list[EventWindow]:
    return [EventWindow(*window) for window in windows]


def test_frames_lie_in_the_middle_of_equal_parts() -> None:
    assert spread(0, 8, 4) == [1, 3, 5, 7]
    assert spread(10, 14, 1) == [12]
    assert spread(0, 10, 4) == [1, 3, 6, 8]
    assert spread(0, 2, 4) == [0, 0, 1, 1]


def test_evenly_chosen_frames_differ() -> None:
    assert evenly(0, 2, 4) == [0, 1]
    assert evenly(3, 6, 3) == [3, 4, 5]
    assert evenly(0, 64, 2) == [16, 48]
    assert evenly(4, 4, 3) == evenly(5, 4, 3) == []


def test_ranges_are_cut_to_the_clip() -> None:
    assert clamp(-3, 20, 10) == (0, 10)
    assert clamp(2, 5, 10) == (2, 5)
    assert clamp(7, 3, 10) == (7, 7)
    assert clamp(12, 15, 10) == (10, 10)


def test_parts_fill_the_clip() -> None:
    assert parts(10, 4) == [(0, 2), (2, 5), (5, 7), (7, 10)]
    assert parts(3, 8) == [(0, 1), (1, 2), (2, 3)]
    assert parts(0, 4) == []


def test_windows_overlap_by_half_and_the_last_ends_with_the_clip() -> None:
    assert overlapping(8, 4) == [(0, 4), (2, 6), (4, 8)]
    assert overlapping(9, 4) == [(0, 4), (2, 6), (4, 8), (5, 9)]
    assert overlapping(3, 1) == [(0, 1), (1, 2), (2, 3)]
    assert overlapping(4, 4) == overlapping(4, 9) == [(0, 4)]
    assert overlapping(0, 4) == []


def test_scores_are_averaged_with_their_neighbours() -> None:
    assert smooth([0.0, 0.9, 0.0, 0.3], 1) == pytest.approx([0.45, 0.3, 0.4, 0.15])
    assert smooth([0.2, 0.4], 0) == [0.2, 0.4]
    assert smooth([], 2) == []


def test_neighbours_that_score_half_as_much_join_the_best() -> None:
    windows = scored((0, 4, 0.1), (2, 6, 0.9), (4, 8, 0.5), (6, 10, 0.2))
    found = merge_windows(windows)
    assert found[0] == EventWindow(2, 8, 0.9)
    assert found[1:] == scored((6, 10, 0.2), (0, 4, 0.1))


def test_the_best_score_decides_who_joins_not_the_nearest() -> None:
    windows = scored((0, 1, 0.8), (1, 2, 0.5), (2, 3, 0.3), (3, 4, 0.5))
    assert merge_windows(windows) == scored((0, 2, 0.8), (2, 4, 0.5))


def test_two_events_stay_two_and_what_lies_between_them_is_covered() -> None:
    windows = scored((0, 4, 0.9), (2, 6, 0.3), (4, 8, 0.8))
    assert merge_windows(windows) == scored((0, 4, 0.9), (4, 8, 0.8))


def test_windows_that_do_not_touch_stay_apart() -> None:
    assert merge_windows(scored((0, 2, 0.6), (3, 5, 0.6))) == scored((0, 2, 0.6), (3, 5, 0.6))


def test_candidates_end_at_one_percent() -> None:
    assert merge_windows(scored((0, 2, 0.0099), (2, 4, 0.0001))) == []
    assert merge_windows(scored((0, 2, 0.01))) == scored((0, 2, 0.01))
    assert merge_windows([]) == []


def test_texts_become_sentences_once_each() -> None:
    assert as_sentences(["a cup.", "a dog", "a cup", ""]) == "a cup. a dog."
    assert as_sentences([]) == as_sentences(["", " ."]) == "nothing happens."
