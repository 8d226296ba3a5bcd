"""The messages between parent and child: msgpack and raw bytes, nothing that can be executed.

A frame is ``u32 meta length, u32 raw length`` (little endian), the meta (a msgpack map with text
keys), and the raw bytes that arrays point into. The encoding ensures that data can never look like
a reference: every container is a msgpack array whose first item is its tag, so a dict that imitates
a reference stays a dict.

Neither side unpickles or evaluates anything. All lengths are checked against a limit before memory
is allocated for them.

:func:`encode` and :func:`decode` turn values into such data and back, :class:`Channel` sends and
receives frames within a deadline, and the kinds of messages to the zygote stand at the end.
"""

from __future__ import annotations

import math
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack

from viper.sandbox.arrays import HAS_NUMPY, generic, ndarray

if HAS_NUMPY:
    import numpy as np

# Nesting of a value: both sides recurse, and no answer of a program is a deep tree.
MAX_DEPTH = 64
HEADER = struct.Struct("<II")

LIST, TUPLE, DICT, SET, REF, BIG_INT, ARRAY, FROZENSET = range(8)
_CONTAINERS: dict[int, Callable[[list[Any]], Any]] = {
    LIST: list, TUPLE: tuple, DICT: dict, SET: set, FROZENSET: frozenset,
}  # fmt: skip

_DTYPES = frozenset(
    ["|b1", "|u1", "<u2", "<u4", "<u8", "|i1", "<i2", "<i4", "<i8", "<f2", "<f4", "<f8"]
)
Raw = bytes | memoryview

_PLAIN = frozenset([type(None), bool, float, str, bytes])
# What msgpack holds as a whole number; others travel as digits.
_SMALL_INT = range(-(2**63), 2**64)

# A patch has seven fields, the most of all references; its kind is a word.
_MAX_FIELDS = 8
_MAX_KIND = 32

# Pictures have three axes, clips four, batches of clips five.
_MAX_DIMENSIONS = 6

# No side of an array that fits a frame is longer; products of six sides stay small numbers.
_MAX_LENGTH = 2**31

# Hashes of tuples and large numbers can be made to collide: a thousand cost half a million
# comparisons, ten thousand fifty million.
_MAX_RARE_KEYS = 1000

_MAX_BITS = 13_000  # Python prints at most 4,300 digits

# Most frames are smaller and arrive with one call of recv.
_CHUNK = 16384


class WireError(Exception):
    """A frame or value that breaks the rules of the wire."""


class WireClosedError(WireError):
    """The other side has closed the connection."""


class WireTimeoutError(WireError):
    """The deadline passed before a whole frame was transferred."""


@dataclass(frozen=True)
class Ref:
    """A handle of an object in the parent: ``Ref("image", ("image0", 640, 480))``.

    ``fields`` holds at most eight texts and numbers. The parent trusts no reference: it checks it
    like any other argument of an untrusted program.
    """

    kind: str
    fields: tuple[str | int | float, ...]


def encode(
    value: Any, raw: list[memoryview], ref: Callable[[Any], Ref | None] | None = None
) -> Any:
    """Return the value as msgpack-ready data and append the bytes of arrays to ``raw``.

    Args:
        ref: turns an object of another type into a reference, or returns None.

    Raises:
        WireError: a type cannot be encoded, or a value is nested too deeply.
    """
    if type(value) in _PLAIN:
        return value
    return _Encoder(raw, ref).encode(value, 0)


class _Encoder:
    def __init__(self, raw: list[memoryview], ref: Callable[[Any], Ref | None] | None) -> None:
        self.raw, self.ref = raw, ref
        self.offset = sum(part.nbytes for part in raw)

    def encode(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is int:
            if value in _SMALL_INT:
                return value
            if value.bit_length() > _MAX_BITS:
                raise WireError("a number with more than 4,000 digits cannot be sent")
            # in hexadecimal, because the parent must be able to print it
            return [BIG_INT, hex(value)]
        if depth > MAX_DEPTH:
            raise WireError(f"a value nested deeper than {MAX_DEPTH} levels cannot be sent")
        below = depth + 1
        if kind is list:
            return [LIST, *[self.encode(item, below) for item in value]]
        if kind is tuple:
            return [TUPLE, *[self.encode(item, below) for item in value]]
        if isinstance(value, dict):
            _check_keys(value)
            flat: list[Any] = [DICT]
            for key, item in value.items():
                flat += (self.encode(key, below), self.encode(item, below))
            return flat
        reference = value if type(value) is Ref else self.ref(value) if self.ref else None
        if reference is not None:
            _parse_ref([reference.kind, *reference.fields])
            return [REF, reference.kind, *reference.fields]
        if isinstance(value, ndarray):
            array, axes = np.ascontiguousarray(value), value.ndim
            if array.dtype.str not in _DTYPES or axes > _MAX_DIMENSIONS:
                raise WireError(f"an array of type {value.dtype} with {axes} axes cannot be sent")
            start, self.offset = self.offset, self.offset + array.nbytes
            self.raw.append(array.reshape(-1).view(np.uint8).data)
            return [ARRAY, array.dtype.str, start, *value.shape]
        if isinstance(value, generic):
            return self.encode(value.item(), below)
        if isinstance(value, set | frozenset):
            _check_keys(value)
            tag = SET if isinstance(value, set) else FROZENSET
            return [tag, *[self.encode(item, below) for item in value]]
        if isinstance(value, tuple | list):
            plain = list if isinstance(value, list) else tuple
            return self.encode(plain(value), below)
        raise WireError(f"a value of type {kind.__name__} cannot be sent")


def decode(data: Any, raw: Raw, ref: Callable[[Ref], Any] | None = None) -> Any:
    """Return the value that :func:`encode` turned into ``data`` and ``raw``.

    Args:
        ref: turns a reference into a value; by default it stays a :class:`Ref`.

    Raises:
        WireError: the data breaks the rules of the wire.
    """
    if type(data) in _PLAIN or type(data) is int:
        return data
    return _Decoder(memoryview(raw), ref).decode(data, 0)


class _Decoder:
    def __init__(self, raw: memoryview, ref: Callable[[Ref], Any] | None) -> None:
        self.raw, self.ref = raw, ref

    def decode(self, data: Any, depth: int) -> Any:
        kind = type(data)
        if kind in _PLAIN or kind is int:
            return data
        if kind is not list or not data or type(data[0]) is not int:
            raise WireError("malformed value")
        if depth > MAX_DEPTH:
            raise WireError("value nested too deeply")
        tag, items = data[0], data[1:]
        if tag == REF:
            reference = _parse_ref(items)
            return self.ref(reference) if self.ref else reference
        if tag == BIG_INT:
            if len(items) != 1 or type(items[0]) is not str or len(items[0]) > _MAX_BITS // 4 + 4:
                raise WireError("malformed number")
            try:
                return int(items[0], 16)
            except ValueError:
                raise WireError("malformed number") from None
        if tag == ARRAY:
            return self._decode_array(items)
        if tag not in _CONTAINERS:
            raise WireError(f"unknown tag {tag}")
        items = [self.decode(item, depth + 1) for item in items]
        if tag in (LIST, TUPLE):
            return _CONTAINERS[tag](items)
        try:
            if tag != DICT:
                _check_keys(items)
                return _CONTAINERS[tag](items)
            if len(items) % 2:
                raise WireError("a map with a key but no value")
            _check_keys(items[::2])
            return dict(zip(items[::2], items[1::2], strict=True))
        except TypeError:
            raise WireError("an unhashable key or set item") from None

    def _decode_array(self, items: list[Any]) -> ndarray:
        if not 2 <= len(items) <= _MAX_DIMENSIONS + 2 or type(items[0]) is not str:
            raise WireError("malformed array")
        if items[0] not in _DTYPES or not HAS_NUMPY:
            raise WireError("malformed array")
        if any(type(number) is not int or not 0 <= number <= _MAX_LENGTH for number in items[1:]):
            raise WireError("malformed array shape")
        dtype, start, shape = np.dtype(items[0]), items[1], items[2:]
        size = dtype.itemsize * math.prod(shape)
        if start + size > len(self.raw):
            raise WireError("an array reaches past its bytes")
        try:
            array = np.frombuffer(self.raw[start : start + size], dtype=dtype).reshape(shape)
        except ValueError:  # an empty array whose other dimensions are too large together
            raise WireError("malformed array shape") from None
        return array if array.flags.writeable else array.copy()


def _check_keys(keys: Iterable[Any]) -> None:
    """Refuse large sets of keys whose hashes an attacker can make collide at will."""
    odd = (key for key in keys if type(key) not in _PLAIN)
    rare = sum(type(key) is not int or key not in _SMALL_INT for key in odd)
    if rare > _MAX_RARE_KEYS:
        raise WireError("too many keys that are not texts or small numbers")


def _parse_ref(items: list[Any]) -> Ref:
    if not 1 <= len(items) <= _MAX_FIELDS + 1 or type(items[0]) is not str:
        raise WireError("malformed reference")
    if len(items[0]) > _MAX_KIND or any(type(item) not in (str, int, float) for item in items):
        raise WireError("malformed reference")
    return Ref(items[0], tuple(items[1:]))


def _refuse_extension(code: int, data: bytes) -> Any:
    raise WireError(f"extension type {code} is not part of the wire")


class Channel:
    """Sends and receives frames over one stream socket.

    Args:
        max_meta: greatest accepted length of a meta in bytes.
        max_raw: greatest accepted number of raw bytes in a frame.
        patience_s: seconds after which a waiting socket checks its deadline, so that a program is
            ended at most so much late; None never checks, for the side that has no deadlines.

    Attributes:
        received: bytes of all frames so far.
    """

    def __init__(
        self, sock: socket.socket, max_meta: int, max_raw: int, patience_s: float | None = 0.02
    ) -> None:
        self.sock, self.patience_s = sock, patience_s
        if patience_s is not None:
            # Use the kernel's timeouts: a Python timeout costs two more calls each time.
            sock.settimeout(None)
            interval = struct.pack("ll", 0, int(patience_s * 1e6))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, interval)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, interval)
        self.max_meta, self.max_raw = max_meta, max_raw
        self.received = 0
        self._pending = bytearray()

    def send(
        self,
        meta: dict[str, Any] | bytes,
        raw: Sequence[memoryview] = (),
        deadline: float | None = None,
    ) -> None:
        """Send one frame.

        Args:
            meta: as a map, or as :func:`pack` has packed it.
            deadline: in :func:`time.monotonic` seconds.

        Raises:
            WireClosedError: the other side is gone.
            WireTimeoutError: the deadline passed.
            WireError: the meta is not packable.
        """
        packed = meta if isinstance(meta, bytes) else pack(meta)
        total = sum(part.nbytes for part in raw)
        for part in (memoryview(HEADER.pack(len(packed), total) + packed), *raw):
            left = part.cast("B")
            while left:
                try:
                    left = left[self.sock.send(left) :]
                except BlockingIOError:
                    self._wait_on(deadline, select.POLLOUT)
                except OSError as error:
                    raise WireClosedError(f"the other side is gone: {error}") from None

    def receive(self, deadline: float | None = None) -> tuple[dict[str, Any], Raw]:
        """Return the next frame as (meta, raw).

        Raises:
            WireClosedError: the other side is gone.
            WireTimeoutError: the deadline passed.
            WireError: the frame breaks the rules.
        """
        meta_length, raw_length = HEADER.unpack(self._read(HEADER.size, deadline))
        if meta_length > self.max_meta or raw_length > self.max_raw:
            raise WireError(f"a frame of {meta_length} + {raw_length} bytes is above the cap")
        self.received += meta_length + raw_length
        meta = unpack(self._read(meta_length, deadline))
        return meta, self._read_raw(raw_length, deadline) if raw_length else b""

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` and return whether something can be received."""
        if self._pending:
            return True
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def _read(self, count: int, deadline: float | None) -> bytes:
        while (missing := count - len(self._pending)) > 0:
            self._pending += self._received(self.sock.recv, max(_CHUNK, missing), deadline)
        data, self._pending = bytes(self._pending[:count]), self._pending[count:]
        return data

    def _read_raw(self, count: int, deadline: float | None) -> memoryview:
        """Return the next bytes in newly allocated memory, which arrays may keep."""
        # numpy leaves the memory as it is, which saves writing zeros over all of it first.
        room = np.empty(count, np.uint8).data if HAS_NUMPY else memoryview(bytearray(count))
        have = min(len(self._pending), count)
        room[:have], self._pending = self._pending[:have], self._pending[have:]
        while have < count:
            have += self._received(self.sock.recv_into, room[have:], deadline)
        return room

    def _received(self, receive: Callable[[Any], Any], room: Any, deadline: float | None) -> Any:
        """Return what a method of the socket receives, at least one byte.

        Raises:
            WireClosedError: the other side has ended.
        """
        while True:
            try:
                received = receive(room)
            except BlockingIOError:
                self._wait_on(deadline, select.POLLIN)
                continue
            except OSError as error:
                raise WireClosedError(f"the other side is gone: {error}") from None
            if not received:
                raise WireClosedError("the other side is gone")
            return received

    def _wait_on(self, deadline: float | None, event: int) -> None:
        """Return when the socket may be tried again.

        Raises:
            WireTimeoutError: the deadline passed, or passes before anything happens.
        """
        if deadline is None or self.patience_s is None:
            return
        left = deadline - time.monotonic()
        if left > self.patience_s:
            return
        poll = select.poll()
        poll.register(self.sock, event)
        if left <= 0 or not poll.poll(left * 1000):
            raise WireTimeoutError("the deadline passed")


def pack(meta: dict[str, Any]) -> bytes:
    """Return the meta as msgpack.

    Raises:
        WireError: it holds a value that cannot be packed, such as a lone surrogate.
    """
    try:
        return bytes(msgpack.packb(meta, use_bin_type=True))
    except (TypeError, ValueError, OverflowError) as error:
        raise WireError(f"cannot be sent: {error}") from None


def unpack(packed: bytes) -> dict[str, Any]:
    """Return the map that ``packed`` holds.

    Raises:
        WireError: it is not a msgpack map with text keys, or holds extension types.
    """
    length = len(packed)
    try:
        meta = msgpack.unpackb(
            packed,
            raw=False,
            use_list=True,
            strict_map_key=True,
            ext_hook=_refuse_extension,
            max_str_len=length,
            max_bin_len=length,
            max_array_len=length,
            max_map_len=64,
            max_ext_len=0,
        )
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise WireError(f"malformed frame: {error}") from None
    if type(meta) is not dict or any(type(key) is not str for key in meta):
        raise WireError("a frame must be a map with text keys")
    return meta


# Messages between the parent and its zygote, on a stream socket of their own: kind, pid, number.
MESSAGE = struct.Struct("<cqq")

# Request: fork one more child.
FORK = b"F"

# Request: fork a child that maps arrays; ``pid`` bytes about them follow, with ``number``
# descriptors.
SHARE = b"A"

# Request and reply: the wait status of a child that has ended (-1 if unknown).
STATUS = b"S"

# Reply to FORK: a pid, with the descriptors wire, trace and (if the system has them) pidfd.
CHILD = b"C"

# Reply to SHARE, as CHILD.
SHARING = b"R"

# Reply in place of any other: the zygote cannot work; ``pid`` bytes of text follow.
FAILED = b"E"
