"""The wire: what goes in comes out, and nothing malformed gets through."""

from __future__ import annotations

import math
import socket
import struct
import time
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viper.sandbox.wire import (
    HEADER,
    Channel,
    Ref,
    WireClosedError,
    WireError,
    WireTimeoutError,
    decode,
    encode,
    pack,
    unpack,
)


def round_trip(value: Any) -> Any:
    raw: list[memoryview] = []
    meta = unpack(pack({"v": encode(value, raw)}))
    return decode(meta["v"], b"".join(raw))


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**200), 2**200),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.binary(max_size=20),
    st.builds(
        Ref,
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.tuples(st.text("ab"), st.integers(0, 9)),
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(
            st.one_of(st.text("abn", max_size=3), st.integers(0, 9)), inner, max_size=4
        ),
        st.sets(st.integers(), max_size=4),
        st.sets(st.frozensets(st.integers(), max_size=3), max_size=3),
    ),
    max_leaves=20,
)


@given(VALUES)
@settings(max_examples=100, deadline=None)
def test_values_come_back_as_they_were(value: Any) -> None:
    back = round_trip(value)
    assert back == value
    assert type(back) is type(value)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    try:
        meta = unpack(data)
        decode(meta.get("v"), b"")
    except WireError:
        pass


def test_look_alikes_stay_data() -> None:
    value = {"kind": "patch", "fields": [4, "patch", "image0"], "v": [6, "|u1", 0, 9]}
    assert round_trip(value) == value


def test_arrays() -> None:
    image = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    back = round_trip({"a": image, "b": [image[:, ::2], np.float32(1.5), np.bool_(True)]})
    assert np.array_equal(back["a"], image) and back["a"].dtype == np.uint8
    assert np.array_equal(back["b"][0], image[:, ::2])
    assert back["b"][1:] == [1.5, True]
    assert back["a"].flags.writeable


def test_special_floats() -> None:
    back = round_trip([math.inf, -math.inf, math.nan])
    assert back[:2] == [math.inf, -math.inf] and math.isnan(back[2])


@pytest.mark.parametrize(
    "value",
    [object(), len, np.zeros(2, dtype=object), np.zeros((1,) * 7), type, iter([])],
    ids=["object", "function", "object array", "axes", "type", "iterator"],
)
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(WireError):
        encode(value, [])


@pytest.mark.parametrize(
    "data",
    [
        {"a": 1},
        [],
        ["x"],
        [99, 1],
        [True, 1],
        [2, "key"],
        [2, [0], 1],
        [3, [0, 1]],
        [4],
        [4, 7],
        [4, "patch", [0]],
        [4, "k" * 33],
        [4, "patch", *range(9)],
        [5, "zz"],
        [5, "1" * 10_001],
        [6, "|O", 0, 1],
        [6, "|u1", 0, 99],
        [6, "|u1", -1, 1],
        [6, "<f8", 0, 1 << 62, 1 << 62],
        [6, "|u1", 0, *[1] * 7],
        [6, "<f8", 0, 0, 1 << 31, 1 << 31, 1 << 31],
        [3, *[[5, hex((2**61 - 1) * k)] for k in range(2, 1200)]],
    ],
)
def test_malformed_values_are_refused(data: Any) -> None:
    with pytest.raises(WireError):
        decode(data, b"0123456789")


def test_nesting_is_bounded() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [0, deep]
    with pytest.raises(WireError, match="nested"):
        decode(deep, b"")


@pytest.mark.parametrize(
    "packed",
    [
        msgpack.packb([1]),
        msgpack.packb({1: 2}),
        msgpack.packb({"a": msgpack.ExtType(4, b"x")}),
        msgpack.packb({"a": msgpack.Timestamp(1, 1)}),
        b"\xc1",
        msgpack.packb({"a": 1}) + b"x",
        b"\xdd\xff\xff\xff\xff",
        b"\x91" * 5000,
        b"",
    ],
)
def test_malformed_frames_are_refused(packed: bytes) -> None:
    with pytest.raises(WireError):
        unpack(packed)


def channel_pair(max_meta: int = 1000, max_raw: int = 1000) -> tuple[socket.socket, Channel]:
    ours, theirs = socket.socketpair()
    return ours, Channel(theirs, max_meta, max_raw)


def test_frames_in_pieces_and_in_a_row() -> None:
    ours, channel = channel_pair()
    sender = Channel(ours, 1, 1)
    sender.send({"n": 1}, [memoryview(b"abc")])
    sender.send({"n": 2})
    assert channel.receive() == ({"n": 1}, b"abc")
    assert channel.receive() == ({"n": 2}, b"")


def test_oversized_frames_are_refused_before_memory_is_taken() -> None:
    ours, channel = channel_pair()
    ours.sendall(struct.pack("<II", 10, 1 << 31))
    with pytest.raises(WireError, match="above the cap"):
        channel.receive()


def test_a_silent_sender_times_out() -> None:
    ours, channel = channel_pair()
    ours.sendall(HEADER.pack(10, 0) + b"abc")
    with pytest.raises(WireTimeoutError):
        channel.receive(time.monotonic() + 0.01)
    ours.close()
    with pytest.raises(WireClosedError):
        channel.receive()
