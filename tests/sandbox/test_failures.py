"""What is said about a program that fails: kind, line, function, names as written."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from typing import Any

import pytest

from viper.errors import ModelError, ToolError
from viper.sandbox import EmptyCall, Prelude, Ref, Sandbox, describe_failure
from viper.testing.fakes import ScriptedTools

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "syntax": ("x = 1\nif x\n    y = 2", {"kind": "syntax", "line": 2}),
    "return outside": ("x = 1\nreturn x", {"kind": "syntax", "line": 2}),
    "empty program": ("", {"kind": "return_type"}),
    "null byte": ("x = '\0'", {"kind": "syntax"}),
    "surrogate": ("x = '\ud800'", {"kind": "syntax"}),
    "index": (
        "def execute_command(image):\n    xs = []\n\n    return xs[0]",
        {"kind": "runtime", "line": 4, "function": "execute_command", "exception": "IndexError"},
    ),
    "in a helper": (
        "def helper(_x):\n    return _x.nope\ndef execute_command(image):\n    return helper('a')",
        {
            "kind": "runtime",
            "line": 2,
            "function": "helper",
            "exception": "AttributeError",
            "message": "'str' object has no attribute 'nope'",
        },
    ),
    "a builtin without its argument": (
        "answer = isinstance(1)",
        {"message": "_isinstance() missing 1 required positional argument: 'kinds'"},
    ),
    "in a comprehension": (
        "def execute_command(image):\n    return [1 / x for x in [0]]",
        {"kind": "runtime", "line": 2, "function": "execute_command"},
    ),
    "names as written": (
        "answer = _not_there",
        {
            "kind": "runtime",
            "exception": "NameError",
            "message": "name '_not_there' is not defined",
        },
    ),
    "own class as written": (
        "class _Odd(Exception):\n    pass\nraise _Odd('why')",
        {"kind": "runtime", "exception": "_Odd", "message": "why", "line": 3},
    ),
    "unbound": (
        "def execute_command(image):\n    for p in []:\n        pass\n    return p",
        {"kind": "runtime", "line": 4, "exception": "UnboundLocalError"},
    ),
    "forbidden attribute": (
        "answer = [].__class__.__subclasses__()",
        {"kind": "forbidden", "line": 1, "exception": None},
    ),
    "hidden builtin": (
        "f = 1\nanswer = open('x')",
        {"kind": "forbidden", "line": 2, "message": "open is not available to programs"},
    ),
    "forbidden part of a guarded expression": (
        "x = 1\nanswer = (await x) ** 2",
        {"kind": "forbidden", "line": 2, "message": "await is not allowed"},
    ),
    "forbidden module": ("import torch", {"kind": "forbidden", "line": 1}),
    "too many parts": ("answer = [" + "1," * 20_001 + "]", {"kind": "forbidden"}),
    "too deep": ("answer = " + "[" * 120 + "]" * 120, {"kind": "forbidden"}),
    "absurdly deep": ("answer = " + "(" * 900 + ")" * 900, {"kind": "syntax"}),
    "too long": ("#" + "x" * 70_000, {"kind": "forbidden"}),
    "recursion": (
        "def f(n):\n    return f(n + 1)\nf(0)",
        {"kind": "recursion", "line": 2, "function": "f"},
    ),
    "no answer type": ("answer = lambda: 1", {"kind": "return_type"}),
    "large answer": ("answer = 'x' * (1 << 20)", {"kind": "output"}),
    "self-containing answer": ("answer = []\nanswer.append(answer)", {"kind": "return_type"}),
    "missing argument": (
        "x = 1\ndef execute_command(a, b):\n    return 1",
        {"kind": "runtime", "line": 2, "exception": "TypeError"},
    ),
    "str of the exception fails": (
        "class E(Exception):\n    def __str__(self):\n        raise self\nraise E()",
        {"kind": "runtime"},
    ),
    "bounded power": ("answer = 10 ** 10 ** 10", {"kind": "runtime", "exception": "OverflowError"}),
}


@pytest.mark.parametrize("name", CASES)
def test_failure_is_typed(name: str, sandbox: Sandbox) -> None:
    code, expected = CASES[name]
    outcome = sandbox.run(code, entry="execute_command", args={"image": 1})
    assert not outcome.ok
    assert outcome.failure is not None
    found = {key: getattr(outcome.failure, key) for key in expected}
    if outcome.failure.kind == "forbidden" and "message" in found:
        found["message"] = found["message"].partition(";")[0]  # what is allowed instead follows
    assert found == expected
    if outcome.failure.line:
        assert outcome.failure.source_line == code.splitlines()[outcome.failure.line - 1]


def test_describe_failure_names_line_and_source(sandbox: Sandbox) -> None:
    failure = sandbox.run("x = 1\nanswer = x[0]").failure
    assert failure is not None
    assert describe_failure(failure) == (
        "runtime at line 2: TypeError: 'int' object is not subscriptable\n    answer = x[0]"
    )


def test_uncaught_tool_error_names_tool_and_call(sandbox: Sandbox) -> None:
    tools = ScriptedTools([[], ToolError("no detector here")])
    outcome = sandbox.run("find('a')\nanswer = find('b')", tools=tools)
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.tool) == ("tool", "find")
    assert (outcome.failure.call_index, outcome.failure.line) == (1, 2)
    assert outcome.calls[1].error == "no detector here"


def test_tool_error_can_be_caught(sandbox: Sandbox) -> None:
    tools = ScriptedTools([ToolError("no")])
    code = "try:\n    find('a')\nexcept Exception as e:\n    answer = str(e)"
    assert sandbox.run(code, tools=tools).value == "no"


def test_other_errors_of_tools_reach_the_caller(sandbox: Sandbox) -> None:
    with pytest.raises(ModelError, match="out of order"):
        sandbox.run("find('a')", tools=ScriptedTools([ModelError("out of order")]))


def test_arguments_that_cannot_be_sent_fail_at_their_line(sandbox: Sandbox) -> None:
    outcome = sandbox.run("x = 1\nfind(lambda: 1)", tools=ScriptedTools())
    assert outcome.failure is not None
    assert (outcome.failure.exception, outcome.failure.line) == ("TypeError", 2)
    assert outcome.calls == ()


def test_output_before_a_failure_is_kept(sandbox: Sandbox) -> None:
    outcome = sandbox.run("print('before')\n1 / 0")
    assert outcome.stdout == "before\n"


def test_return_type_check(sandbox: Sandbox) -> None:
    outcome = sandbox.run(
        "answer = 3", return_type=lambda v: None if type(v) is str else f"got {v!r}, not a text"
    )
    assert outcome.failure is not None
    assert (outcome.failure.kind, outcome.failure.message) == ("return_type", "got 3, not a text")


# Which empty tool results reached the failure

EMPTY: dict[str, tuple[str, list[Any], tuple[EmptyCall, ...]]] = {
    "by identity": (
        "xs = find('a')\nys = find('b')\nanswer = xs[0]",
        [[], []],
        (EmptyCall(0, True), EmptyCall(1, False)),
    ),
    "same line": ("find('b')\nanswer = find('a')[0]", [[], []], (EmptyCall(0, False), EmptyCall(1, True))),
    "through a comprehension": (
        "xs = find('a')\nother = find('b')\nbig = [x for x in xs if x.size > 1]\nanswer = big[0]",
        [[], []],
        (EmptyCall(0, True), EmptyCall(1, False)),
    ),
    "loop variable after its loop": (
        "def execute_command():\n    xs = find('a')\n    for x in xs:\n        pass\n    return x",
        [[]],
        (EmptyCall(0, True),),
    ),
    "returned": ("xs = find('a')\nys = find('b')\nanswer = ys", [[], []], (EmptyCall(0, False), EmptyCall(1, True))),
    "returned in a function": (
        "def execute_command():\n    xs = find('a')\n    if len(xs) == 0:\n        return None\n    return 'x'",
        [[]],
        (EmptyCall(0, True),),
    ),
    "a false answer": (
        "def execute_command():\n    there = exists('a')\n    return there",
        [False],
        (EmptyCall(0, True),),
    ),
    "full result": ("xs = find('a')\nanswer = xs[5]", [[Ref("thing", ("a", 1.0))]], ()),
    "empty, but all is well": ("find('a')\nanswer = 1", [[]], ()),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_empty_calls(name: str, sandbox: Sandbox) -> None:
    code, answers, expected = EMPTY[name]
    outcome = sandbox.run(code, tools=ScriptedTools(answers), entry="execute_command")
    assert outcome.empty_calls == expected


def test_values_of_the_prelude_cross_the_wire(sandbox: Sandbox) -> None:
    tools = ScriptedTools({"find": [[Ref("thing", ("cup", 2.0))]], "ask": ["red"]})
    code = "x = find('cup')[0]\nanswer = (x, x.ask('colour?'), {'kind': 'thing', 'x': x.size})"
    outcome = sandbox.run(code, tools=tools)
    assert outcome.value == (Ref("thing", ("cup", 2.0)), "red", {"kind": "thing", "x": 2.0})
    assert tools.calls[1].args == (Ref("thing", ("cup", 2.0)), "colour?")
    assert [call.line for call in outcome.calls] == [1, 2]


def test_plain_functions_without_a_prelude_of_ones_own() -> None:
    with Sandbox(
        ScriptedTools({"add": lambda a, b=0: a + b}), prelude=Prelude.functions("add")
    ) as box:
        assert box.run("answer = add(20, b=22)").value == 42
