"""Pickles of lists and dicts load; others are refused before anything is imported or called."""

from __future__ import annotations

import collections
import copyreg
import datetime
import os
import pickle
import struct
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data import miniature
from viper.data import plain_pickle
from viper.data.plain_pickle import load_plain
from viper.data.source import SourceFile
from viper.errors import DataError

MARKER = "viper_pickle_was_here"

TOUCH = f"open('{MARKER}', 'w')".encode()


def loads_plain(data: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "refs.p").write_bytes(data)
        return load_plain(SourceFile(Path(folder), "refs.p", "the authors"))


class Reduces:
    def __init__(self, *how: Any) -> None:
        self.how = how

    def __reduce__(self) -> Any:
        return self.how


def short(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


EVAL = b"c__builtin__\neval\n"
ARGUMENT = b"U" + bytes([len(TOUCH)]) + TOUCH

HOSTILE = {
    "os.system, protocol 0": pickle.dumps(Reduces(os.system, (f"touch {MARKER}",)), 0),
    "os.system, protocol 2": pickle.dumps(Reduces(os.system, (f"touch {MARKER}",)), 2),
    "os.system, protocol 4": pickle.dumps(Reduces(os.system, (f"touch {MARKER}",)), 4),
    "eval, protocol 5": pickle.dumps(Reduces(eval, (TOUCH.decode(),)), 5),
    "nested in a list of dicts": pickle.dumps([{"a": Reduces(eval, (TOUCH.decode(),))}], 2),
    "as a key": pickle.dumps({Reduces(eval, (TOUCH.decode(),)): 1}, 2),
    "GLOBAL and REDUCE": EVAL + b"(" + ARGUMENT + b"tR.",
    "GLOBAL and TUPLE1": EVAL + ARGUMENT + b"\x85R.",
    "GLOBAL alone, then popped": EVAL + b"0N.",
    "GLOBAL in the memo": EVAL + b"q\x000h\x00" + ARGUMENT + b"\x85R.",
    "STACK_GLOBAL": b"\x80\x04"
    + short("builtins")
    + short("eval")
    + b"\x93"
    + ARGUMENT
    + b"\x85R.",
    "INST": b"(" + ARGUMENT + b"i__builtin__\neval\n.",
    "OBJ": b"(" + EVAL + ARGUMENT + b"o.",
    "NEWOBJ": b"c__builtin__\nobject\n)\x81.",
    "NEWOBJ_EX": b"\x80\x04" + EVAL + b")}\x92.",
    "BUILD of a dict": b"}U\x01aU\x01bsb.",
    "BUILD with a setstate": EVAL + b"}U\x0c__setstate__" + EVAL + b"sb" + ARGUMENT + b"b.",
    "EXT1": b"\x80\x02\x82\x01.",
    "EXT2": b"\x80\x02\x83\x01\x00.",
    "EXT4": b"\x80\x02\x84\x01\x00\x00\x00.",
    "PERSID": b"Pwhatever\n.",
    "BINPERSID": b"U\x01aQ.",
    "NEXT_BUFFER": b"\x80\x05\x97.",
    "READONLY_BUFFER": b"\x80\x05C\x01a\x98.",
    "BYTEARRAY8": b"\x80\x05\x96\x01\x00\x00\x00\x00\x00\x00\x00a.",
    "REDUCE of a text": b"U\x09os.system)R.",
    "set with a text": b"c__builtin__\nset\n" + ARGUMENT + b"\x85R.",
    "bytes of a length": b"c__builtin__\nbytes\nJ\xff\xff\xff\x7f\x85R.",
    "codec other than latin1": b"c_codecs\nencode\nU\x01aU\x03zip\x86R.",
    "codecs by another name": b"c_codecs\nlookup\nU\x01a\x85R.",
    "dotted name": b"\x80\x04cos\nsystem.__call__\n.",
    "a bare name": b"c__builtin__\nset\n.",
    "a set": pickle.dumps({1}, 4),
    "a tuple": pickle.dumps((1, 2), 2),
    "bytes": pickle.dumps(b"a", 4),
    "POP of an empty stack": b"0.",
    "a class instance": pickle.dumps(datetime.date(2020, 1, 1), 2),
    "an OrderedDict": pickle.dumps(collections.OrderedDict(a=1), 2),
    "a complex number": pickle.dumps(1j, 2),
    "a mark alone": b"(.",
    "nothing on the stack": b".",
    "no STOP": b"N",
    "empty": b"",
    "text": b"hello, this is not a pickle\n",
    "JSON": b'{"a": 1}',
    "unknown opcode": b"\xff.",
    "a later protocol": b"\x80\x09N.",
    "append to a dict": b"}Na.",
    "items of a list": b"]NNs.",
    "items of a text": b"U\x01aNNs.",
    "odd items": b"}(Nu.",
    "get before put": b"h\x05.",
    "a list that holds itself": b"]q\x00h\x00a.",
    "a list that holds itself deeply": b"]q\x00]h\x00aa.",
    "a list as a key": b"}]Ns.",
    "number off": b"Iabc\n.",
    "digits without end": b"I" + b"9" * 5000 + b"\n.",
    "long number": b"\x8b" + struct.pack("<i", 5000) + b"\x01" * 5000 + b".",
    "text off": b"\x8c\x01\xff.",
    "text without quotes": b"Sabc\n.",
}


@pytest.fixture(autouse=True)
def nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / MARKER).exists()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_is_refused_in_one_line(name: str) -> None:
    loaded = set(sys.modules)
    with pytest.raises(DataError, match="refs.p: ") as raised:
        loads_plain(HOSTILE[name])
    assert set(sys.modules) == loaded
    said = str(raised.value)
    assert said and "\n" not in said and len(said) < 250


def test_the_cases_would_do_harm_in_an_ordinary_unpickler(tmp_path: Path) -> None:
    for name in ("GLOBAL and REDUCE", "STACK_GLOBAL", "INST", "nested in a list of dicts"):
        pickle.loads(HOSTILE[name])
        (tmp_path / MARKER).unlink()


def test_a_cached_extension_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The C unpickler would give the cached object without asking ``find_class``."""
    copyreg.add_extension("builtins", "eval", 250)
    try:
        assert pickle.loads(b"\x80\x02\x82\xfa.") is eval
        with pytest.raises(DataError, match="EXT1"):
            loads_plain(b"\x80\x02\x82\xfa.")
    finally:
        copyreg.remove_extension("builtins", "eval", 250)


BOMBS = {
    "length of a text": b"X\xff\xff\xff\x7fabc",
    "length of bytes": b"\x8e\xff\xff\xff\xff\xff\xff\x00\x00abc",
    "length beyond 64 bits' sign": b"\x8e" + b"\xff" * 8,
    "negative length": b"T\xff\xff\xff\xffabc",
    "frame": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f",
    "index of the memo": b"Nr\xff\xff\xff\xff",
    "nested lists": b"]" * 100_000 + b"a" * 99_999 + b".",
    "opcodes that make lists": b"]" * 500_000,
    "opcodes that make marks": b"(" * 500_000,
    "opcodes that fill the memo": b"N" + b"\x94" * 500_000,
    "values without end in one list": b"](N" + b"q\x00" + b"h\x00" * 150_000 + b"e.",
    "nested tuples": b"N" + b"\x85" * 100_000 + b".",
    "marks": b"(" * 100_000 + b"t" * 100_000 + b".",
    "doubling lists": b"]" + b"q\x00(h\x00h\x00l" * 200 + b".",
    "doubling tuples": b")" + b"q\x002\x86" * 60 + b".",
    "doubling tuples as a key": b"}N" + b"2\x86" * 60 + b"Ns.",
    "doubling tuples in a set": b"\x8f(N" + b"2\x86" * 60 + b"\x90.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_costs_little(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MAX_BYTES", 1_000_000)
    monkeypatch.setattr(plain_pickle, "MAX_OPCODES", 300_000)
    monkeypatch.setattr(plain_pickle, "MAX_VALUES", 100_000)
    tracemalloc.start()
    started = time.process_time()
    try:
        with pytest.raises(DataError):
            loads_plain(BOMBS[name])
        assert tracemalloc.get_traced_memory()[1] < 60e6
        assert time.process_time() - started < 20
    finally:
        tracemalloc.stop()


PLAIN: list[Any] = [
    None,
    True,
    -1,
    2**70,
    -(2**300),
    1.5,
    float("inf"),
    "text\nwith 'quotes' \u00e9 \U0001f600",
    [1, [2, {"a": [3, None]}]],
    {1: [], "b": {1.5: {}}},
    list(range(3000)),
    {str(number): number for number in range(3000)},
    [["shared"]] * 2,
]


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("value", PLAIN, ids=lambda value: repr(value)[:20])
def test_plain_data_come_back(value: Any, protocol: int) -> None:
    found = loads_plain(pickle.dumps(value, protocol))
    assert found == value and type(found) is type(value)


scalars = st.none() | st.booleans() | st.integers() | st.text()
plain = st.recursive(
    scalars | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(scalars, inner),
    max_leaves=20,
)


@settings(deadline=None)
@given(plain, st.integers(0, 5))
def test_any_plain_data_come_back(value: Any, protocol: int) -> None:
    assert loads_plain(pickle.dumps(value, protocol)) == value


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_read_or_refused(data: bytes) -> None:
    try:
        loads_plain(data)
    except DataError as error:
        assert "\n" not in str(error)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_pickle_is_read_or_refused(data: st.DataObject) -> None:
    good = bytearray(pickle.dumps(miniature.refs(), 2))
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] = data.draw(st.integers(0, 255))
    try:
        loads_plain(bytes(good[: data.draw(st.integers(at, len(good)))]))
    except DataError as error:
        assert "\n" not in str(error)


def test_python_2_texts_are_read_as_latin_1() -> None:
    as_python_2_writes = (
        b"\x80\x02]q\x00(U\x04sentq\x01X\x05\x00\x00\x00caf\xc3\xa9q\x02U\x01\xe9e."
    )
    assert loads_plain(as_python_2_writes) == ["sent", "caf\u00e9", "\u00e9"]
    assert loads_plain(b"(lp0\nS'it\\'s \\xe9'\np1\naI01\naL5L\naVcaf\\u00e9\na.") == [
        "it's \u00e9",
        True,
        5,
        "caf\u00e9",
    ]


def test_a_file_is_named_in_the_refusal(tmp_path: Path) -> None:
    path = tmp_path / "refs(unc).p"
    path.write_bytes(HOSTILE["INST"])
    with pytest.raises(DataError, match=r"refs\(unc\)\.p: holds the opcode INST, .*; get it again"):
        load_plain(SourceFile(tmp_path, path.name, "the authors"))
    path.unlink()
    with pytest.raises(DataError, match="no such file; it comes from the authors"):
        load_plain(SourceFile(tmp_path, path.name, "the authors"))
