"""Ordinary programs of language models mean in the sandbox what they mean in Python.

The programs are data: ``tests/sandbox/ordinary``, each after a line ``#### name``.
"""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from viper.api import prelude
from viper.sandbox import Outcome, Ref, Sandbox
from viper.sandbox.wire import decode, encode

_FOLDER = Path(__file__).with_name("ordinary")
IMAGE = Ref("image", ("image0", 200, 100))


def _read() -> dict[str, str]:
    programs: dict[str, str] = {}
    for path in sorted(_FOLDER.glob("*.txt")):
        for part in re.split("^#### ", path.read_text(), flags=re.MULTILINE)[1:]:
            name, _, program = part.partition("\n")
            programs[f"{path.stem}: {name}"] = program
    return programs


PROGRAMS = _read()


class Tools:
    """Two cups and a plate, whatever the picture; the answers follow from the arguments."""

    boxes = {"cup": ((10, 5, 30, 25), (120, 5, 150, 45)), "plate": ((40, 20, 90, 60),)}

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        if name == "find":
            return [Ref("patch", ("image0", *box)) for box in self.boxes.get(args[1], ())]
        if name == "compute_depth":
            return 300.0 - args[0].fields[1]
        return "2024-05-06"


def _in_python(program: str) -> Any:
    """Return the ``answer`` of the program in Python, with the same tools."""

    def call(name: str, *args: Any, **kwargs: Any) -> Any:
        raw: list[memoryview] = []
        sent = decode(encode([list(args), kwargs], raw, prelude.encode), b"")
        result = encode(Tools().call(name, tuple(sent[0]), sent[1], None), raw)
        return decode(result, b"", lambda ref: prelude.decode(ref, call))

    names = {**prelude.names(call, {}), "image": prelude.decode(IMAGE, call)}
    names["__name__"] = "__main__"
    exec(compile(program, "program", "exec", dont_inherit=True), names)  # our own text
    return names["answer"]


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(Tools(), prelude=prelude.PRELUDE) as made:
        yield made


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_means_what_it_means_in_python(name: str, box: Sandbox) -> None:
    outcome = box.run(PROGRAMS[name], args={"image": IMAGE})
    assert outcome.failure is None
    expected = _in_python(PROGRAMS[name])
    assert outcome.value == expected
    assert repr(outcome.value) == repr(expected) or type(expected) is set or "sets" in name


def test_there_are_enough_programs() -> None:
    assert len(PROGRAMS) >= 120


REFUSED = {
    "module": ("import logging", "'logging' is not available", "they may import bisect"),
    "abc": ("from abc import ABC", "'abc' is not available", "collections.abc"),
    "open": ("open('x')", "open is not available", "they have abs, all"),
    "vars": ("class A: pass\nvars(A())", "vars is not available", "getattr"),
    "clock": ("import time\ntime.time()", "no attribute 'time' here", "sleep, strftime"),
    "precise clock": ("from time import perf_counter", "'perf_counter'", "it offers asctime"),
    "now": ("from datetime import datetime\ndatetime.now()", "'now' is not allowed", "strptime"),
    "today": ("import datetime\ndatetime.date.today()", "'today' is not allowed", "fromisoformat"),
    "exit stack": ("from contextlib import ExitStack", "'ExitStack'", "contextmanager, nullcontext"),
    "flags": ("from enum import Flag", "'Flag'", "it offers Enum, IntEnum"),
    "standard error": ("import sys\nsys.stderr", "'stderr'", "maxsize"),
    "typing.NamedTuple": ("from typing import NamedTuple", "'NamedTuple'", "it offers Any, Callable"),
    "numpy": ("import numpy as np\nnp.load('x')", "'load'", "close to it: pad, mod"),
    "throw": ("g = (x for x in [])\ng.throw(ValueError())", "'throw' is not", "close, send"),
    "cause": ("try:\n    1 / 0\nexcept Exception as e:\n    e.__cause__", "'__cause__'", "__name__"),
    "doc": ("def f(): pass\nf.__doc__", "'__doc__'", "x.__class__"),
    "getattr method": ("class A:\n    def __getattr__(self, n): pass", "__getattr__", "call contains"),
    "new": ("class A:\n    def __new__(cls): pass", "define __new__", "enter eq exit"),
    "method by name": ("class A:\n    __lt__ = lambda a, b: True", "define __lt__", "floordiv"),
    "next value": (
        "class A:\n    def _generate_next_value_(n, s, c, v): pass", "_generate_next", "init"
    ),
    "subclass of dict": ("class D(dict): pass", "derived from dict", "your own classes"),
    "async": ("async def f(): pass", "async def is not", "ordinary function"),
    "groups": ("try:\n    pass\nexcept* ValueError:\n    pass", "except* is not", "except"),
    "star import": ("from math import *", "import * is not", "the names that you use"),
    "class keyword": ("class A(x=1): pass", "keywords in a class", "base classes"),
    "isinstance of Literal": (
        "from typing import Literal\nisinstance(1, Literal[1])", "Literal is no class", "name one"
    ),
    "attribute in a pattern": (
        "match ImagePatch(image):\n    case ImagePatch(_handle=h): pass", "cannot read '_handle'", "body"
    ),
    "attribute of a number": ("(1).to_bytes(2)", "'to_bytes' is not", "bit_length"),
    "item": ("x = (1,)\nx[0] = 2", "items of a tuple", "lists, dicts"),
    "attribute of a list": ("x = []\nx.y = 2", "attributes of a list", "own classes"),
    "type of a function": ("type(len)", "type() of a builtin", "data"),
}  # fmt: skip
"""What programs may not use: a program, how the refusal names it, and what it says is allowed."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_what_is_allowed(name: str, box: Sandbox) -> None:
    program, what, instead = REFUSED[name]
    failure = box.run(program, args={"image": IMAGE}).failure
    assert failure is not None
    assert failure.kind == "forbidden" or failure.exception == "AttributeError"  # of a module
    assert what in failure.message and instead in failure.message


def test_an_answer_that_cannot_be_sent_says_what_can(box: Sandbox) -> None:
    outcome: Outcome = box.run("from datetime import date\nanswer = date(2020, 1, 1)")
    assert outcome.failure is not None and outcome.failure.kind == "return_type"
    assert "type date cannot be sent; it may hold numbers" in outcome.failure.message
