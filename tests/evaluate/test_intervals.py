"""Intervals that know clusters, paired comparisons, figures over seeds."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viper.evaluate import intervals
from viper.evaluate.intervals import mean, over_seeds, paired, proportion, ratio, share

VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=40)


@settings(deadline=None)
@given(VALUES, st.integers(1, 5))
def test_the_value_lies_in_its_interval(values: list[float], size: int) -> None:
    clusters = [str(index // size) for index in range(len(values))]
    for estimate in (mean(values), mean(values, clusters=clusters)):
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.n == len(values)
        assert estimate.value == pytest.approx(sum(values) / len(values))


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(0, 200))
def test_wilson_holds_the_share(hits: int, misses: int) -> None:
    estimate = proportion(hits, hits + misses)
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


def test_copies_of_a_value_add_no_certainty() -> None:
    values = list(np.random.default_rng(0).random(50))
    clusters = [str(index) for index in range(50)]
    alone, copied = mean(values), mean(values * 4, clusters=clusters * 4)
    careless = mean(values * 4)
    assert (copied.low, copied.high) == pytest.approx((alone.low, alone.high))
    assert careless.high - careless.low < 0.6 * (copied.high - copied.low)


def test_an_interval_holds_95_percent() -> None:
    estimate = mean([0.0, 1.0] * 200)  # 0.5 and 1.96 standard errors of 0.025
    assert (estimate.low, estimate.high) == pytest.approx((0.451, 0.549), abs=0.005)


def test_an_unnamed_cluster_is_alone() -> None:
    values = [0.0, 1.0, 0.0, 1.0, 1.0]
    assert mean(values, clusters=[""] * 5) == mean(values)
    with pytest.raises(ValueError, match="5 values and 2 clusters"):
        mean(values, clusters=["a", "b"])


def test_clusters_of_different_sizes_weigh_by_size() -> None:
    # a: three ones, b: one zero. Resamples: aa 1, ab and ba 3/4, bb 0.
    estimate = mean([1, 1, 1, 0], clusters=["a", "a", "a", "b"])
    assert (estimate.value, estimate.low, estimate.high) == (0.75, 0.0, 1.0)


def test_the_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    values = list(np.random.default_rng(1).random(997))
    whole = mean(values)
    monkeypatch.setattr(intervals, "_AT_ONCE", 5_000)
    assert mean(values) == whole


def test_a_full_set_needs_no_gigabytes() -> None:
    code = (
        "import resource, random\n"
        "from viper.evaluate.intervals import mean, paired\n"
        "v = [random.random() for _ in range(12_000)]\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "mean(v); mean(v, clusters=[str(i // 3) for i in range(12_000)])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    grown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert int(grown) < 200 * 1024  # KiB


def test_independent_shares_are_wilsons_and_clustered_ones_are_not() -> None:
    hits = [True, False] * 20
    assert share(hits) == share(hits, [""] * 40) == proportion(20, 40)
    clustered = share(hits, [str(index // 4) for index in range(40)])
    assert clustered.value == 0.5 and clustered.n == 40
    # All right in ten clusters: as uncertain as ten of ten, not forty of forty.
    every = share([True] * 40, [str(index // 4) for index in range(40)])
    assert (every.value, every.n, every.low) == (1.0, 40, proportion(10, 10).low)
    assert share([]).n == 0


def test_a_ratio_is_of_sums() -> None:
    assert ratio([1, 3], [2, 2]).value == 1.0
    assert ratio([0, 0], [0, 0]).value == 0.0
    assert ratio([], []).n == mean([]).n == 0


def test_a_pair_of_runs_by_hand() -> None:
    # 3 rose, 1 fell: two-sided sign test over 4, 2 * (1 + 4) / 16 = 0.625.
    before, after = [0, 0, 0, 1, 1, 0], [1, 1, 1, 0, 1, 0]
    found = paired(before, after)
    assert (found.better, found.worse, found.equal) == (3, 1, 2)
    assert found.p_value == pytest.approx(0.625)
    assert found.difference.value == pytest.approx(2 / 6)
    assert found == paired(before, after)


def test_ten_changes_for_the_better_are_no_chance() -> None:
    assert paired([0] * 10, [1] * 10).p_value == pytest.approx(2 / 2**10)
    assert paired([1, 0], [1, 0]).p_value == 1.0
    assert paired([], []).p_value == 1.0


def test_a_cluster_has_one_vote() -> None:
    found = paired([0] * 10, [1] * 10, ["same"] * 10)
    assert found.better == 10 and found.p_value == 1.0
    # Clusters a (+1) and b (0): one decided.
    assert paired([0, 0, 1], [1, 1, 0], ["a", "b", "b"]).p_value == 1.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_turning_the_pair_turns_the_difference(pairs: list[tuple[float, float]]) -> None:
    before, after = zip(*pairs, strict=True)
    there, back = paired(before, after), paired(after, before)
    assert there.difference.value == pytest.approx(-back.difference.value)
    assert (there.better, there.worse) == (back.worse, back.better)
    assert there.p_value == pytest.approx(back.p_value)
    assert there.better + there.worse + there.equal == len(pairs)


def test_runs_of_different_samples_are_refused() -> None:
    with pytest.raises(ValueError):
        paired([1], [1, 0])


def test_over_seeds() -> None:
    assert over_seeds([1.0, 2.0, 3.0]) == (2.0, 1.0, 3)
    assert over_seeds([0.5]) == (0.5, None, 1)
    found = over_seeds([0.60, 0.61, 0.64])
    assert found.deviation == pytest.approx(math.sqrt((0.0001 * (2.778 + 0.444 + 5.444)) / 2), 1e-3)


def test_wilson_interval_of_a_known_case() -> None:
    estimate = proportion(8, 10)
    assert (estimate.value, estimate.n) == (0.8, 10)
    assert estimate.low == pytest.approx(0.4902, abs=1e-4)
    assert estimate.high == pytest.approx(0.9433, abs=1e-4)
    assert proportion(0, 0).high == 1.0


def test_bootstrap_mean_contains_the_mean_and_repeats() -> None:
    values = [0.1, 0.5, 0.9, 0.4]
    first = mean(values)
    assert first.value == pytest.approx(0.475)
    assert first.low < first.value < first.high
    assert first == mean(values)
