"""Calls of a loop over objects are asked side by side, and nothing else changes."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.endpoint.conftest import Start
from tests.endpoint.model import fenced
from viper import Reasoner, load_profile
from viper.run_result import RunResult
from viper.tools.side_by_side import SIDE_BY_SIDE, LoopCall, calls_in_loops, names_to_find

COUNT = 20
BOXES = json.dumps(
    [{"label": "coin", "bbox_2d": [40 * n, 0, 40 * n + 35, 1000 - n]} for n in range(COUNT)]
)
LOOP = """def execute_command(image):
    coins = ImagePatch(image).find("coin")
    names = [coin.simple_query("what is it?") for coin in coins]
    return len(names)
"""


class Together:
    """Answers once two requests are under way, or the last ones alone; counts them."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s, self._lock = wait_s, threading.Lock()
        self._several = threading.Event()
        self.now = self.peak = self.asked = 0

    def __call__(self, request: Any) -> str:
        with self._lock:
            self.now, self.asked = self.now + 1, self.asked + 1
            self.peak = max(self.peak, self.now)
            if self.now > 1:
                self._several.set()
        self._several.wait(self._wait_s)
        with self._lock:
            self.now -= 1
        return "a coin"


def answered(start: Start, small: Path, program: str, vqa: Any, **bounds: Any) -> RunResult:
    start(program=fenced(program), boxes=BOXES, vqa=vqa)
    with Reasoner(load_profile("endpoint")) as reasoner:
        return reasoner.run(small, "how many coins are there?", trials=1, **bounds)


def log(result: RunResult) -> list[Any]:
    return [replace(call, seconds=0.0) for call in result.trace.trials[-1].tool_calls]


def test_the_rounds_of_a_loop_are_asked_together_with_the_same_log(
    start: Start, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = Together(10.0)
    side_by_side = answered(start, small, LOOP, together)
    assert 1 < together.peak <= SIDE_BY_SIDE and together.asked == COUNT
    monkeypatch.setattr("viper.tools.side_by_side.calls_in_loops", lambda program: set())
    serial = Together(0.0)
    one_by_one = answered(start, small, LOOP, serial)
    assert serial.peak == 1
    assert log(side_by_side) == log(one_by_one) and len(log(side_by_side)) == 1 + COUNT
    assert side_by_side.trace.usage == one_by_one.trace.usage
    assert side_by_side.value == one_by_one.value == str(COUNT)


def test_the_bound_holds_side_by_side(start: Start, small: Path) -> None:
    together = Together(0.0)
    result = answered(start, small, LOOP, together, max_llm_calls=5)
    assert together.asked == 3 and result.trace.usage.llm_calls == 5
    assert result.failure is not None and result.failure.kind == "budget"
    assert [call.error is None for call in log(result)] == [True] * 4 + [False]


FIND = "def execute_command(image):\n    coins = ImagePatch(image).find('coin')\n"
CALL = LoopCall(("coin",), "simple_query", ("what?",), 3)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("    return [c.simple_query('what?') for c in coins]", {CALL}),
        ("    return [c for c in coins if c.simple_query('what?') == 'a']", {CALL}),
        ("    for c in coins: print(c.simple_query('what?'))", {CALL}),
        ("    return [c.simple_query('what?') for c in coins if c.left > 3]", set()),
        ("    return [c.left > 3 and c.simple_query('what?') for c in coins]", set()),
        ("    return any(c.simple_query('what?') for c in coins)", set()),
        ("    return [c.simple_query(f'{c.left}?') for c in coins]", set()),
        ("    return [c.simple_query('what?') for c in coins[:2]]", set()),
        ("    for c in coins:\n        if c.simple_query('what?'): return c", set()),
        ("    for c in coins:\n        c.simple_query('what?')\n        break", set()),
        ("    coins.pop(); return [c.simple_query('what?') for c in coins]", set()),
        ("    coins = coins; return [c.simple_query('what?') for c in coins]", set()),
        ("    for c in coins:\n        c = coins[0]\n        c.simple_query('what?')", set()),
        ("    for c in coins:\n        yield c.simple_query('what?')", set()),
        ("    del coins[1:]; return [c.simple_query('what?') for c in coins]", set()),
        (f"    for c in coins:\n        a = {'1+' * 1500}1", set()),
        ("    return (", set()),
    ],
)
def test_only_certain_calls_count(body: str, expected: set[LoopCall]) -> None:
    assert calls_in_loops(f"{FIND}{body}\n") == expected


def test_one_request_asks_for_all_names_of_a_program(start: Start, small: Path) -> None:
    program = """def execute_command(image):
    image_patch = ImagePatch(image)
    return len(image_patch.find("coin")) + len(image_patch.find("cup"))
"""
    asked = []

    def boxes(request: Any) -> str:
        asked.append(request.words)
        return json.dumps(
            [{"label": name, "bbox_2d": [1, 1, 500, 500]} for name in ("coin", "cup")]
        )

    start(program=fenced(program), boxes=boxes)
    with Reasoner(load_profile("endpoint")) as reasoner:
        result = reasoner.run(small, "how many things are there?", trials=1)
    assert result.value == "2" and len(asked) == 1
    assert all(name in asked[0] for name in ('"coin"', '"cup"'))
    assert [call.cached for call in log(result)] == [False, True]


def test_other_calls_of_the_rounds_are_made_in_their_turn(start: Start, small: Path) -> None:
    program = """def execute_command(image):
    answers = []
    for coin in ImagePatch(image).find("coin"):
        answers.append(coin.simple_query("what is it?"))
        answers.append(coin.best_text_match(["a coin", "a cup"]))
    return ", ".join(sorted(set(answers)))
"""
    result = answered(start, small, program, Together(0.0))
    assert result.failure is None and result.value == "a coin"


def test_names_that_are_no_literals_are_not_asked_for() -> None:
    assert names_to_find(f"a.find(''); a.find('{'x' * 200}')") == ()
    program = "a.find('x'); a.exists('y'); a.find(name); find('z'); a.find('x')"
    assert names_to_find(program) == ("x", "y")
    assert names_to_find("return (") == ()
