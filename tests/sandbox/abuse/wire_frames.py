"""Bytes on the wire that the parent must refuse, from a child that has broken out.

A child may answer what it likes, so only frames that break the rules count here: those
that the parent takes for an answer all the same. They are sent by ``hostile_prelude``.
"""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

import re
import struct
from typing import Any

import msgpack

from tests.sandbox.abuse.case import Case, cases
from viper.sandbox import Limits

SMALL = Limits(time_s=5, calls=100, output_kb=1, result_kb=16)
HASTY = Limits(time_s=0.12)
GENEROUS = Limits(time_s=20)

_GROUP = "wire"


def frame(meta: Any, raw: bytes = b"", lengths: tuple[int, int] | None = None) -> bytes:
    """A frame; ``meta`` may also be ready-made bytes, ``lengths`` what its header claims."""
    packed = meta if type(meta) is bytes else msgpack.packb(meta)
    return struct.pack("<II", *(lengths or (len(packed), len(raw)))) + packed + raw


def done(value: Any, raw: bytes = b"", **other: Any) -> bytes:
    """An answer as a child would send it."""
    return frame({"t": "done", "ok": True, "v": value, "o": "", **other}, raw)


def call(**changed: Any) -> bytes:
    """A call as a child would send it, with some of its parts changed."""
    return frame({"t": "call", "n": "find", "a": [], "k": [], "l": 1, **changed})


def _nested(depth: int, start: Any = 1) -> Any:
    value = start
    for _ in range(depth):
        value = [0, value]
    return value


def _literal(data: bytes) -> str:
    """The bytes as an expression, with a long repetition written as a product."""
    found = re.search(rb"(.{1,3}?)\1{300,}", data, re.DOTALL)
    if found is None:
        return repr(data)
    unit, count = found[1], len(found[0]) // len(found[1])
    return f"{data[: found.start()]!r} + {unit!r} * {count} + {data[found.end() :]!r}"


def _sent(frames: dict[str, bytes]) -> dict[str, str]:
    return {name: f"send_raw({_literal(data)})" for name, data in frames.items()}


_CAPS = {
    "meta above the cap": done("x" * 90_000),
    "raw bytes above the cap": done([6, "|u1", 0, 20_000], bytes(20_000)),
}
_TOO_LONG = {
    "meta of a gigabyte": frame(b"", lengths=(1 << 30, 0)),
    "raw bytes of four gigabytes": frame({"t": "done"}, lengths=(6, 2**32 - 1)),
    "header of ones": b"\xff" * 64,
}
_UNPACK = {
    "empty": frame(b""),
    "not a map": frame([1, 2]),
    "key that is a number": frame({1: 2, "t": "done", "ok": True, "v": 1}),
    "key that is bytes": frame({b"t": b"done", b"ok": True, b"v": 1}),
    "extension type": done(msgpack.ExtType(5, b"loot")),
    "timestamp": done(msgpack.Timestamp(1, 1)),
    "text that is not UTF-8": frame(b"\x83\xa1t\xa4done\xa2ok\xc3\xa1v\xa2\xff\xfe"),
    "bytes after the map": frame(msgpack.packb({"t": "done", "ok": True, "v": 1}) + b"x"),
    "code without meaning": frame(b"\x81\xa1t\xc1"),
    "array of four billion": frame(b"\x81\xa1t\xdd\xff\xff\xff\xff"),
    "too many keys": frame({str(i): 1 for i in range(70)} | {"t": "done", "ok": True, "v": 1}),
    "ten thousand brackets": frame(b"\x81\xa1t" + b"\x91" * 10_000 + b"\x01"),
}
_DECODE = {
    "bare map": done({"a": 1}),
    "bare list": done([]),
    "tag that is a text": done(["4", "patch", "image0"]),
    "tag that is a truth value": done([True, 1]),
    "tag below zero": done([-1, 1]),
    "tag that is unknown": done([99, 1]),
    "key without a value": done([2, "a"]),
    "key that is a list": done([2, [0], 1]),
    "set of lists": done([3, [0, 1]]),
    "nested too deeply": done(_nested(100)),
    "numbers whose hashes collide": done([3, *[[5, hex((2**61 - 1) * k)] for k in range(2, 1200)]]),
    "reference without a kind": done([4]),
    "reference with a number for a kind": done([4, 7, "image0"]),
    "reference with a long kind": done([4, "k" * 40, "image0"]),
    "reference with a list inside": done([4, "patch", ["image0"]]),
    "reference with too many fields": done([4, "patch", *range(9)]),
    "number without digits": done([5, "0x"]),
    "number that is too long": done([5, "f" * 10_001]),
    "two numbers in one": done([5, "1", "2"]),
    "array of objects": done([6, "|O", 0, 1], b"12345678"),
    "array of texts": done([6, "<U1", 0, 1], b"1234"),
    "array with a list for a type": done([6, ["<f8"], 0, 1], b"12345678"),
    "array past its bytes": done([6, "|u1", 4, 8], b"12345678"),
    "array without its bytes": done([6, "|u1", 0, 8]),
    "array that begins below zero": done([6, "|u1", -4, 4], b"12345678"),
    "array with a length below zero": done([6, "|u1", 0, -1], b"12345678"),
    "array of overflowing size": done([6, "<f8", 0, 1 << 62, 1 << 62]),
    "array of no size": done([6, "|u1", 0, 0, 1 << 62, 1 << 62]),
    "array with a fraction of a length": done([6, "|u1", 0, 1.5], b"12345678"),
    "array with many axes": done([6, "|u1", 0, *[1] * 7], b"1"),
}
_STATE = {
    "no type": frame({"v": 1}),
    "type that is unknown": frame({"t": "x", "v": 1}),
    "type that is a list": frame({"t": ["done"], "v": 1}),
    "ready again": frame({"t": "ready", "layers": [], "v": 1}),
    "run from the child": frame({"t": "run", "code": "answer = 1", "args": [2], "v": 1}),
    "result from the child": frame({"t": "result", "v": 1}),
}
_CALL = {
    "call without a name": call(n=None),
    "call with a number for a name": call(n=7),
    "call with a map of arguments": call(a={"0": 1}),
    "call with a text for arguments": call(a="ab"),
    "call with a map of keywords": call(k={"a": 1}),
    "call with half a keyword": call(k=[["a"]]),
    "call with a number for a keyword": call(k=[[1, 1]]),
    "call with a malformed argument": call(a=[[99]]),
    "call with a malformed keyword": call(k=[["a", {"b": 1}]]),
}
_EMPTY = {
    "empty calls in a map": done(1, e={"a": 1}),
    "empty calls without marks": done(1, e=[[1]]),
    "empty calls by name": done(1, e=[["find", True]]),
    "too many empty calls": done(1, e=[[0, True]] * 10_001),
}
_FAILURES = {
    "failure of no kind": frame({"t": "done", "ok": False, "f": {}}),
    "failure of an unknown kind": frame({"t": "done", "ok": False, "f": {"kind": "timeout"}}),
    "failure with a list for a kind": frame({"t": "done", "ok": False, "f": {"kind": []}}),
    "failure with a map for a kind": frame({"t": "done", "ok": False, "f": {"kind": {}}}),
    "failure that is a text": frame({"t": "done", "ok": False, "f": "x"}),
    "neither well nor failed": frame({"t": "done", "ok": 1, "v": 1}),
    "done and nothing else": frame({"t": "done"}),
}
_TRACES = {
    "line with many digits": b'File "<program", line ' + b"9" * 5000 + b" in f\n",
    "line that is not there": b'File "<program", line 99999 in f\n',
    "name of any length": b'File "<program", line 1 in ' + b"x" * 30_000 + b"\n",
    "bytes that are no text": b'File "<program", line 1 in \xff\xfe\n',
    "full pipe": b"x" * 60_000,
}

CASES: tuple[Case, ...] = (
    *cases(
        _GROUP,
        {
            "caps": _sent(_CAPS),
            "unpack": _sent(_UNPACK),
            "decode": _sent(_DECODE),
            "state": _sent(_STATE),
            "call": {name: f"{sent}\nreceive()" for name, sent in _sent(_CALL).items()},
            "empty calls": _sent(_EMPTY),
            # There would be no answer without these checks either: the parent would wait for
            # the bytes, or report a failure of another kind.
            None: _sent(_TOO_LONG | _FAILURES),
        },
        frozenset(["protocol"]),
    ),
    *cases(
        _GROUP,
        {
            "traffic": {
                # It waits for the answers: a child that had gone would be a crash.
                "many calls": f"for i in range(20):\n    send_raw({_literal(call(a=['x' * 12_000]))})"
                "\nfor i in range(20):\n    receive()"
            }
        },
        frozenset(["output"]),
    ),
    *cases(
        _GROUP,
        {
            None: {
                "end inside a header": "send_raw(b'\\x01\\x00')\nexit(0)",
                "end inside a frame": f"send_raw({done(1)[:20]!r})\nexit(0)",
                "end without an answer": "exit(0)",
            }
        },
        frozenset(["crash"]),
    ),
    *cases(
        _GROUP,
        {
            None: {
                "silence inside a frame": f"send_raw({done(1)[:20]!r})\nwhile True:\n    pass",
                "waiting for nothing": "receive()",
            }
            | {
                name: f"write_trace({_literal(data)})\nwhile True:\n    pass"
                for name, data in _TRACES.items()
            }
        },
        frozenset(["timeout"]),
    ),
)
