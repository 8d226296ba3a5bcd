"""Frame arithmetic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from viper.api.routines import temporal

ranges = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: tuple(sorted(pair)))


@given(ranges, ranges)
def test_parts_stay_inside_and_do_not_meet(within, event) -> None:
    parts = [part(within, event) for part in (temporal.before, temporal.during, temporal.after)]
    for start, end in parts:
        assert within[0] <= start <= end <= within[1]
    lengths = [end - start for start, end in parts]
    if event[0] < event[1]:
        assert sum(lengths) == within[1] - within[0]
    else:
        assert lengths == [0, 0, 0]


@given(ranges, st.integers(-50, 50), st.integers(-50, 50))
def test_trimming_stays_inside(within, start, end) -> None:
    begin, stop = temporal.trimmed(within, start, end)
    assert within[0] <= begin <= stop <= within[1]
