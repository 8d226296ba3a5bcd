"""Exceptions hand out plain data alone, and the classes of libraries survive misuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from viper.api.prelude import PRELUDE
from viper.sandbox import Sandbox

CAUGHT = "import numpy as np\ntry:\n    np.add('a', 1)\nexcept Exception as e:\n    "


@pytest.mark.parametrize(
    "use",
    [
        "answer = e.args[0]",
        "answer = len(e.args)",
        "match e:\n        case Exception(args=(f, *_)):\n            answer = f(1, 2)",
        "class E(Exception):\n        pass\n    answer = E(*e.args).args",
    ],
)
def test_an_exception_hands_out_no_object_of_a_library(use: str) -> None:
    with Sandbox(prelude=PRELUDE) as sandbox:
        arrays = {"image0": np.zeros((4, 4, 3), np.uint8)}
        outcome = sandbox.run(CAUGHT + use, arrays=arrays)
    assert outcome.failure is not None and outcome.failure.kind == "forbidden"
    assert "no plain data" in outcome.failure.message


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("raise ValueError('x', [1, {'a': 2.5}])", ["x", [1, {"a": 2.5}]]),
        ("int('x')", ["invalid literal for int() with base 10: 'x'"]),
        ("raise ValueError(Own())", [4]),
    ],
)
def test_what_a_program_put_in_comes_out(code: str, answer: Any) -> None:
    program = (
        "class Own:\n    n = 4\n"
        f"try:\n    {code}\nexcept ValueError as e:\n"
        "    match e:\n        case ValueError(args=(first, *_)):\n"
        "            answer = [first.n if isinstance(first, Own) else first, *e.args[1:]]\n"
    )
    with Sandbox() as sandbox:
        outcome = sandbox.run(program)
    assert outcome.ok and outcome.value == answer, outcome.failure


ORDERED = """
from collections import OrderedDict
d = OrderedDict(a=1, b=2, c=3)
d.move_to_end("a")
d.move_to_end("c", last=False)
answer = [list(d), d.popitem(), d.popitem(False), d == {"b": 2}, d == OrderedDict(b=2)]
answer += [isinstance(d, OrderedDict), isinstance(d, dict), list(reversed(OrderedDict(x=1, y=2)))]
answer += [OrderedDict(a=1, b=2) == OrderedDict(b=2, a=1)]
"""


def test_an_ordered_dict_is_ordered() -> None:
    with Sandbox() as sandbox:
        outcome = sandbox.run(ORDERED)
    assert outcome.ok, outcome.failure
    assert outcome.value[:5] == [["c", "b", "a"], ("a", 1), ("c", 3), True, True]
    assert outcome.value[5:] == [True, True, ["y", "x"], False]
