"""Programs that take too much are ended, and the line is named where there is one."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from viper.errors import CancelledError, UsageError
from viper.sandbox import Limits, Prelude, Sandbox
from viper.testing.fakes import ScriptedTools

TIGHT = Limits(time_s=30, memory_mb=64, calls=3, output_kb=1, source_kb=4, result_kb=16)


@pytest.fixture(scope="module")
def hasty() -> Iterator[Sandbox]:
    with Sandbox(limits=Limits(time_s=0.5)) as made:
        yield made


@pytest.fixture(scope="module")
def tight() -> Iterator[Sandbox]:
    with Sandbox(limits=TIGHT, prelude=Prelude.functions("find")) as made:
        yield made


SLOW: dict[str, tuple[str, dict[str, Any]]] = {
    "endless loop": (
        "def execute_command():\n    x = 1\n    while True:\n        x += 1",
        {"kind": "timeout", "function": "execute_command"},
    ),
    "loop that catches everything": (
        "while True:\n    try:\n        1 / 0\n    except:\n        pass",
        {"kind": "timeout"},
    ),
    "regular expression": (
        "import re\nx = 1\nre.match('(a+)+$', 'a' * 40 + 'b')",
        {"kind": "timeout", "line": 3},
    ),
    "big numbers": (
        "x = 3 ** 100000\nfor i in range(100):\n    x = x * x",
        {"kind": "timeout", "line": 3},
    ),
    "endless sum": ("import itertools\nsum(itertools.count())", {"kind": "timeout", "line": 2}),
}

LARGE: dict[str, tuple[str, dict[str, Any]]] = {
    "list bomb": ("x = 1\ny = [0] * 10 ** 9", {"kind": "memory", "line": 2}),
    "growing list": ("x = ['x' * 1000]\nwhile True:\n    x = x + x", {"kind": "memory", "line": 3}),
    "string bomb": ("answer = 'x' * 10 ** 10", {"kind": "memory", "line": 1}),
    "width bomb": ("answer = '{:>9999999999}'.format(1)", {"kind": "memory"}),
    "numpy bomb": (
        "import numpy as np\nx = np.ones((1 << 14, 1 << 14))",
        {"kind": "memory", "line": 2},
    ),
    "print bomb": ("x = 1\nprint('x' * 10 ** 6)", {"kind": "output", "line": 2}),
    "print loop": ("while True:\n    try:\n        print('x')\n    except:\n        pass", {"kind": "output"}),
    "calls": (
        "for i in range(9):\n    find(i)",
        {"kind": "tool_budget", "line": 2, "tool": "find"},
    ),
    "large argument": ("find('x' * 20_000)", {"kind": "runtime", "exception": "TypeError"}),
    "source": ("#" * 5000, {"kind": "forbidden"}),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOW)
def test_too_slow(name: str, hasty: Sandbox) -> None:
    code, expected = SLOW[name]
    failure = hasty.run(code, entry="execute_command").failure
    assert failure is not None
    assert {key: getattr(failure, key) for key in expected} == expected


@pytest.mark.parametrize("name", LARGE)
def test_too_large(name: str, tight: Sandbox) -> None:
    code, expected = LARGE[name]
    tools = ScriptedTools({"find": lambda *_: 1})
    failure = tight.run(code, tools=tools, entry="execute_command").failure
    assert failure is not None
    assert {key: getattr(failure, key) for key in expected} == expected


def test_the_sandbox_goes_on_after_every_kind_of_end(tight: Sandbox) -> None:
    tight.run("for i in range(9): find(i)", tools=ScriptedTools({"find": lambda *_: 1}))
    tight.run("x = [0] * 10 ** 10")
    assert tight.run("answer = 1").value == 1


def test_time_inside_tools_is_not_counted() -> None:
    pause = threading.Event()
    tools = ScriptedTools({"find": lambda *_: pause.wait(0.8)})
    with Sandbox(limits=Limits(time_s=0.7), prelude=Prelude.functions("find")) as sandbox:
        outcome = sandbox.run("find(1)\nanswer = 'done'", tools=tools)
    assert outcome.value == "done"
    assert outcome.tool_seconds >= 0.7


def test_output_is_cut_at_the_limit(tight: Sandbox) -> None:
    assert tight.run("print('x' * 5000)").stdout == "x" * 1024


def test_text_printed_before_a_forced_end_is_kept() -> None:
    code = "import math\nfor i in range(10 ** 9):\n    if i % 1000 == 0: print(i)"
    with Sandbox(limits=Limits(time_s=0.6, output_kb=1000)) as sandbox:
        outcome = sandbox.run(code)
    assert outcome.failure is not None and outcome.failure.kind == "timeout"
    assert outcome.stdout.startswith("0\n1000\n2000\n")


def test_cancel(sandbox: Sandbox) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(CancelledError):
        sandbox.run("while True: pass", cancel=cancel)


def test_cancel_while_the_program_runs(sandbox: Sandbox) -> None:
    cancel = threading.Event()
    tools = ScriptedTools([lambda name: cancel.set()])
    with pytest.raises(CancelledError):
        sandbox.run("find('a')\nwhile True: pass", tools=tools, cancel=cancel)


def test_a_run_that_may_be_cancelled_runs_as_usual(sandbox: Sandbox) -> None:
    tools = ScriptedTools({"exists": lambda name: True})
    code = "answer = [exists('a') for i in range(20)]"
    assert sandbox.run(code, tools=tools, cancel=threading.Event()).value == [True] * 20


@pytest.mark.parametrize(("asked", "kind"), [(3, None), (4, "tool_budget")])
def test_as_many_calls_are_answered_as_the_limit_says(
    asked: int, kind: str | None, tight: Sandbox
) -> None:
    tools = ScriptedTools({"find": lambda name: 1})
    outcome = tight.run(f"for i in range({asked}):\n    find('a')\nanswer = 1", tools=tools)
    assert (outcome.failure.kind if outcome.failure else None) == kind
    assert len(tools.calls) == 3


@pytest.mark.parametrize("operation", ["x[0] <<= 1 << 21", "x[0] **= 1 << 21"])
def test_items_grow_within_the_same_bound(operation: str, sandbox: Sandbox) -> None:
    outcome = sandbox.run(f"x = [2]\n{operation}\nanswer = x[0].bit_length()")
    assert outcome.failure is not None and outcome.failure.exception == "OverflowError"


def test_limits_are_checked() -> None:
    with pytest.raises(UsageError, match="calls is 0"):
        Limits(calls=0)


def test_runs_at_the_same_time(sandbox: Sandbox) -> None:
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        found[number] = sandbox.run(f"answer = sum(range({number}))").value

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: sum(range(number)) for number in range(8)}


def test_no_descriptor_is_left_open(sandbox: Sandbox) -> None:
    sandbox.run("answer = 1")
    before = len(list(Path(f"/proc/{os.getpid()}/fd").iterdir()))
    for _ in range(5):
        sandbox.run("answer = 1")
    assert len(list(Path(f"/proc/{os.getpid()}/fd").iterdir())) <= before + 3


@pytest.mark.parametrize(
    "manager",
    [
        "class M:\n    def __enter__(self): pass\n    def __exit__(self, *d): return True\n",
        "from contextlib import contextmanager\n@contextmanager\ndef M():\n"
        "    try:\n        yield\n    finally:\n        pass\n",
        "from contextlib import suppress\ndef M(): return suppress(Exception)\n",
    ],
    ids=["class", "function", "suppress"],
)
def test_a_context_manager_cannot_swallow_the_end_of_output(manager: str) -> None:
    program = manager + "with M():\n    print('x' * 9000)\nanswer = 'went on'"
    with Sandbox(limits=Limits(output_kb=1)) as sandbox:
        failure = sandbox.run(program).failure
    assert failure is not None and failure.kind == "output"
