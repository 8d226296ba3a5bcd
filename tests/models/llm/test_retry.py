from collections.abc import Callable
from random import Random

import pytest
from tenacity import Retrying

from viper.errors import ModelError, UsageError
from viper.models.llm.retry import Backoff, TransientError, asked_wait_s

NOON = 1_700_000_000.0


def _repeated(
    attempt: Callable[[], int],
    sleep: Callable[[float], None],
    backoff: Backoff | None = None,
    seed: int = 0,
) -> int:
    policy = (backoff or Backoff()).policy("here", Random(seed))
    return Retrying(**policy, sleep=sleep)(attempt)


def _failing(times: int, asked_s: float | None = None) -> Callable[[], int]:
    """Fails so often, then returns how often."""
    failed = 0

    def attempt() -> int:
        nonlocal failed
        if failed < times:
            failed += 1
            raise TransientError("busy", asked_s)
        return failed

    return attempt


def test_waits_grow_stay_under_their_bound_and_use_its_whole_width() -> None:
    backoff, random = Backoff(first_s=1.0, limit_s=8.0), Random(0)
    for retry, bound in enumerate((1.0, 2.0, 4.0, 8.0, 8.0, 8.0)):
        waits = [backoff.wait_s(retry, None, random) for _ in range(200)]
        assert max(waits) <= bound
        assert max(waits) > 0.9 * bound
        assert min(waits) < 0.1 * bound
    assert backoff.wait_s(10_000, None, random) <= 8.0


def test_the_same_seed_waits_the_same() -> None:
    slept: list[list[float]] = []
    for seed in (3, 3, 4):
        slept.append([])
        assert _repeated(_failing(4), slept[-1].append, seed=seed) == 4
    assert slept[0] == slept[1] != slept[2]
    assert len(slept[0]) == 4


def test_what_the_server_asks_for_is_waited_in_full_and_not_all_at_the_same_time() -> None:
    backoff, random = Backoff(first_s=0.5), Random(0)
    waits = {backoff.wait_s(0, 7.0, random) for _ in range(20)}
    assert 7.0 <= min(waits) < max(waits) <= 7.5


def test_retries_are_bounded_and_the_error_says_what_was_seen_and_how_often() -> None:
    slept: list[float] = []
    with pytest.raises(ModelError, match="here: busy; given up after 3 tries"):
        _repeated(_failing(99), slept.append, Backoff(2))
    assert len(slept) == 2


def test_a_server_that_asks_for_too_long_a_wait_is_given_up_at_once() -> None:
    slept: list[float] = []
    with pytest.raises(ModelError, match="asks to wait 3600 s and at most 120 s"):
        _repeated(_failing(1, 3600.0), slept.append)
    assert slept == []


def test_other_errors_pass_through() -> None:
    def attempt() -> int:
        raise UsageError("wrong")

    with pytest.raises(UsageError, match="wrong"):
        _repeated(attempt, pytest.fail)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2", 2.0),
        ("0.5", 0.5),
        ("Tue, 14 Nov 2023 22:13:30 GMT", 10.0),
        ("Tue, 14 Nov 2023 22:13:30", 10.0),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        ("-1", None),
        ("nan", None),
        ("soon", None),
        (None, None),
    ],
)
def test_the_header_is_read_as_seconds_or_as_a_date(
    value: str | None, seconds: float | None
) -> None:
    headers = {} if value is None else {"retry-after": value}
    assert asked_wait_s(headers, NOON) == seconds


def test_fewer_than_no_retries_is_refused() -> None:
    with pytest.raises(UsageError, match="max_retries is -1"):
        Backoff(-1)
