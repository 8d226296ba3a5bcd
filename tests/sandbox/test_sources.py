"""Functions in text that programs may call, under the policy and beside it nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from viper.errors import SandboxHostError
from viper.sandbox import Prelude, Sandbox, Source
from viper.sandbox.guards import Guards
from viper.sandbox.modules import MODULES, build_facades
from viper.sandbox.names import BUILTIN_NAMES, Printer, program_builtins
from viper.testing.fakes import ScriptedTools

TEXT = """
import math
_FACTOR = 2

def _double(x):
    return _FACTOR * x

def doubled(values: list[int]) -> list[int]:
    return [_double(v) for v in values]

def first_found(name):
    return find(name)[0]

def root(x):
    return math.sqrt(quadrupled(x))
"""
MORE = "def quadrupled(x):\n    return doubled(doubled([x]))[0]\n"


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    prelude = Prelude("viper.sandbox.plain_prelude", {"functions": ["find"]}, (
        Source("mine.py", TEXT, ("doubled", "first_found", "root")),
        Source("more.py", MORE, ("quadrupled",)),
    ))  # fmt: skip
    with Sandbox(prelude=prelude) as made:
        yield made


def test_programs_call_them_and_they_call_each_other(box: Sandbox) -> None:
    assert box.run("answer = (doubled([1, 2]), quadrupled(3), root(4))").value == ([2, 4], 12, 4.0)


def test_what_they_do_not_export_is_not_seen(box: Sandbox) -> None:
    failure = box.run("answer = _double(2)").failure
    assert failure is not None and failure.exception == "NameError"


def test_a_program_cannot_change_what_they_look_up(box: Sandbox) -> None:
    code = "_FACTOR = 100\ndef _double(x): return 'changed'\ndef find(n): return ['mine']\n"
    tools = ScriptedTools({"find": [["theirs"]]})
    outcome = box.run(code + "answer = (doubled([1]), first_found('x'))", tools=tools)
    assert outcome.value == ([2], "theirs")


def test_calls_and_errors_inside_them_bear_the_program_s_line(box: Sandbox) -> None:
    tools = ScriptedTools({"find": [[]]})
    outcome = box.run("x = 1\nanswer = first_found('cup')", tools=tools)
    assert outcome.calls[0].line == 2
    failure = outcome.failure
    assert failure is not None
    assert (failure.exception, failure.line) == ("IndexError", 2)
    assert "inside first_found, mine.py line 12" in failure.message


def test_changes_by_one_program_are_not_seen_by_the_next() -> None:
    text = "SEEN = []\ndef remember(x):\n    SEEN.append(x)\n    return list(SEEN)\n"
    prelude = Prelude(Prelude.functions().module, {}, (Source("s.py", text, ("remember",)),))
    with Sandbox(prelude=prelude) as box:
        for number in range(3):
            assert box.run(f"answer = remember({number})").value == [number]


def test_what_its_top_level_may_not_do_is_said_with_its_line() -> None:
    text = "import typing\nx = 1\nclass P(typing.NamedTuple):\n    a: int\ndef f(): return 1\n"
    prelude = Prelude(Prelude.functions().module, {}, (Source("s.py", text, ("f",)),))
    with (
        Sandbox(prelude=prelude) as box,
        pytest.raises(SandboxHostError, match=r"SourceError: .*NamedTuple.* \(s.py line 3\)"),
    ):
        box.run("answer = f()")


def test_the_policy_holds_for_them() -> None:
    text = "def leak(x):\n    return x.__class__.__base__.__subclasses__()\n"
    prelude = Prelude(Prelude.functions().module, {}, (Source("s.py", text, ("leak",)),))
    with Sandbox(prelude=prelude) as box, pytest.raises(SandboxHostError, match="__subclasses__"):
        box.run("answer = leak(1)")


def test_the_list_of_modules_is_what_programs_can_import() -> None:
    guards = Guards({})
    built = build_facades(guards.builtin_getattr, guards.getitem, guards.allow)
    assert set(built) == set(MODULES)


def test_the_list_of_builtins_is_what_programs_have(box: Sandbox) -> None:
    names = program_builtins(Guards({}), Printer(10))
    assert {name for name in names if not name.startswith("__")} == set(BUILTIN_NAMES)
