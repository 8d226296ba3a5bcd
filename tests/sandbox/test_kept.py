"""A program that runs again has the process of its last run, and nothing of what it left there."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from viper.api.prelude import PRELUDE
from viper.sandbox import Outcome, Prelude, Sandbox, kept
from viper.sandbox.interface import Source
from viper.sandbox.kept import keeps_nothing
from viper.sandbox.pool import Pool

FUNCTIONS = Prelude.functions("add", "remember")


class Tools:
    """Adds numbers; knows all calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def call(self, name: str, args: tuple[Any, ...], kwargs: Any, line: int | None) -> Any:
        self.calls.append((name, args))
        return sum(args) if name == "add" else None


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that pools handed out."""
    pids: list[int] = []
    take = Pool.take

    def counted(self: Pool, *args: Any, **more: Any) -> Any:
        child = take(self, *args, **more)
        pids.append(child.pid)
        return child

    monkeypatch.setattr(Pool, "take", counted)
    return pids


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(Tools(), prelude=FUNCTIONS) as made:
        yield made


def asked(sandbox: Sandbox, program: str, *values: Any) -> list[Outcome]:
    return [
        sandbox.run(program, entry="execute_command", args={"query": value}) for value in values
    ]


def test_one_process_answers_about_many_pictures(sandbox: Sandbox, taken: list[int]) -> None:
    program = "def execute_command(query):\n    return add(query, 1)\n"
    assert [each.value for each in asked(sandbox, program, *range(40))] == [*range(1, 41)]
    assert len(taken) == 2  # whether it runs again is not known at first
    assert asked(sandbox, program + "\n", 1)[0].value == 2 and len(taken) == 3


LEFT = {
    "a variable": "left = left + [query] if 'left' in dir() else [query]",
    "a global": """
def execute_command(query):
    global left
    try:
        left.append(query)
    except NameError:
        left = [query]
    return left
""",
    "a default": """
def execute_command(query, seen=[]):
    seen.append(query)
    return seen
""",
    "an attribute of a function": """
def execute_command(query):
    try:
        execute_command.seen.append(query)
    except Exception:
        pass
    try:
        execute_command.seen = [query]
        return execute_command.seen
    except Exception as error:
        return str(error)
""",
    "an attribute of a tool": """
def execute_command(query):
    try:
        add.seen = getattr(add, "seen", 0) + 1
        return add.seen
    except Exception as error:
        return str(error)
""",
    "a class": """
class Kept:
    seen = []
def execute_command(query):
    Kept.seen.append(query)
    return Kept.seen
""",
    "a cache": """
import functools
@functools.lru_cache(maxsize=None)
def first(one):
    return []
def execute_command(query):
    first(1).append(query)
    return first(1)
""",
    "a member of a module": """
import math
def execute_command(query):
    try:
        math.pi = query
    except Exception:
        pass
    return math.pi
""",
    "a builtin": """
def execute_command(query):
    global len
    before = len([1, 2])
    len = lambda values: query
    return before
""",
    "a name that a tool has": """
def execute_command(query):
    global add
    before = add(1, 1)
    add = lambda *values: query
    return before
""",
    "random numbers": """
import random
def execute_command(query):
    return random.random()
""",
    "numpy's random numbers": """
import numpy as np
def execute_command(query):
    return float(np.random.rand())
""",
    "printed text": """
def execute_command(query):
    print(query)
    return 1
""",
    "an exception": """
import contextlib
def execute_command(query):
    try:
        raise ValueError(query)
    except ValueError as error:
        return str(error.__context__) if hasattr(error, "__context__") else "none"
""",
}


@pytest.mark.parametrize("program", LEFT.values(), ids=LEFT)
def test_nothing_of_a_picture_is_seen_at_the_next(sandbox: Sandbox, program: str) -> None:
    with Sandbox(Tools(), prelude=FUNCTIONS, keeps=False) as fresh:
        alone = asked(fresh, program, 7, 8, 9, 10)
    again = asked(sandbox, program, 7, 8, 9, 10)
    for one, other in zip(alone, again, strict=True):
        assert (one.ok, one.value, one.stdout, one.failure) == (
            other.ok, other.value, other.stdout, other.failure,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "calls"), [("", []), (", remember=remember", ["remember"])], ids=["name", "default"]
)
def test_what_ends_late_ends_with_its_own_run(
    sandbox: Sandbox, given: str, calls: list[str]
) -> None:
    """A generator that is left waiting ends when it is collected, and may still call a tool."""
    program = f"""
def waiting(value{given}):
    try:
        yield value
    finally:
        remember(value)
def execute_command(query):
    global held
    held = waiting(query)
    loop = [held]
    loop.append(loop)
    return next(held)
"""
    for outcome in asked(sandbox, program, 1, 2, 3, 4)[1:]:
        assert [call.name for call in outcome.calls] == calls
        assert all(call.args == (outcome.value,) for call in outcome.calls)


def test_types_of_earlier_runs_take_no_memory(sandbox: Sandbox) -> None:
    program = """
from collections import namedtuple
def execute_command(query):
    Large = namedtuple("Large", "a b", defaults=([0] * 4_000_000,))
    return len(Large(query).b)
"""
    assert all(outcome.ok for outcome in asked(sandbox, program, *range(30)))


def test_a_failure_ends_the_process(sandbox: Sandbox, taken: list[int]) -> None:
    program = "def execute_command(query):\n    return 10 // query\n"
    outcomes = asked(sandbox, program, 1, 2, 0, 5, 10)
    assert [outcome.value for outcome in outcomes] == [10, 5, None, 2, 1]
    assert outcomes[2].failure is not None and outcomes[2].failure.line == 2
    assert len(taken) == 3


def test_a_process_that_was_ended_meanwhile_is_no_failure(
    sandbox: Sandbox, taken: list[int]
) -> None:
    program = "def execute_command(query):\n    return query + 3\n"
    asked(sandbox, program, 1, 2)
    os.kill(taken[-1], signal.SIGKILL)
    assert [each.value for each in asked(sandbox, program, 3, 4)] == [6, 7]


def test_processes_are_renewed(
    sandbox: Sandbox, taken: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_MOST_RUNS", 3)
    program = "def execute_command(query):\n    return query + 4\n"
    assert [each.value for each in asked(sandbox, program, *range(10))] == [*range(4, 14)]
    assert len(taken) == 1 + 3


def test_cancelled_and_late_runs_leave_no_process(sandbox: Sandbox, taken: list[int]) -> None:
    program = "def execute_command(query):\n    while query:\n        pass\n    return query\n"
    asked(sandbox, program, 0, 0)
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(Exception, match="cancelled"):
        sandbox.run(program, entry="execute_command", args={"query": 1}, cancel=stop)
    assert asked(sandbox, program, 0)[0].value == 0 and len(taken) == 3


def test_threads_have_processes_of_their_own(sandbox: Sandbox, taken: list[int]) -> None:
    program = "def execute_command(query):\n    return add(query, 5)\n"
    with ThreadPoolExecutor(4) as threads:
        values = [*threads.map(lambda n: asked(sandbox, program, n)[0].value, range(100))]
    assert values == [*range(5, 105)] and len(taken) <= 1 + 4 + 4 + 1


def test_functions_of_sources_may_keep_what_they_like(taken: list[int]) -> None:
    source = Source("mine", "seen = []\ndef noted(x):\n    seen.append(x)\n    return len(seen)\n",
                    ("noted",), trusted=True)  # fmt: skip
    prelude = Prelude(PRELUDE.module, {}, (source,))
    with Sandbox(Tools(), prelude=prelude) as own:
        program = "def execute_command(query):\n    return noted(query)\n"
        assert [each.value for each in asked(own, program, 1, 2, 3)] == [1, 1, 1]
    assert len(taken) == 3


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import math\nfrom collections import Counter\nx = 1", True),
        ("import math, random", False),
        ("from numpy import random", False),
        ("if 1:\n    import time as math", False),
        ("from . import x", False),
        ("import os", False),
        ("x = ", False),
    ],
)
def test_programs_that_keep_nothing(program: str, expected: bool) -> None:
    assert keeps_nothing(program) is expected
