"""Arrays that a locked child maps: sealed, read-only, and bounded; and what NumPy it gets."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viper.errors import UsageError
from viper.sandbox import Prelude, Sandbox
from viper.sandbox.arrays import MOST, MOST_BYTES, fitting, header_of, mapped, sealed

PICTURE = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with Sandbox(prelude=Prelude("tests.sandbox.toy_prelude")) as made:
        yield made


def test_what_is_sealed_cannot_be_written_grown_or_cut() -> None:
    descriptor = sealed(PICTURE)
    try:
        for attempt in (
            lambda: os.pwrite(descriptor, b"x", 0),
            lambda: os.ftruncate(descriptor, 1),
            lambda: os.ftruncate(descriptor, 4096),
            lambda: mmap.mmap(descriptor, PICTURE.nbytes, mmap.MAP_SHARED, mmap.PROT_WRITE),
        ):
            with pytest.raises(OSError, match=r"not permitted|Permission"):
                attempt()
        (array,) = mapped(header_of({"a": PICTURE}), [descriptor]).values()
        assert (array == PICTURE).all() and not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
    finally:
        os.close(descriptor)


def test_a_copy_is_shared_not_the_array_itself(box: Sandbox) -> None:
    own = PICTURE.copy()
    with box.session(arrays={"image0": own}) as session:
        own[:] = 0
        assert session.run("answer = int(shared('image0').sum())").value == int(PICTURE.sum())


def test_a_program_reads_what_is_shared_and_one_without_has_none(box: Sandbox) -> None:
    read = "array = shared('image0')\nanswer = (array.shape, int(array[3, 4, 2]), str(array.dtype))"
    assert box.run(read, arrays={"image0": PICTURE}).value == ((4, 5, 3), 59, "uint8")
    alone = box.run(read)
    assert alone.failure is not None and alone.failure.exception == "KeyError"


WRITES = """
array[0, 0, 0] = 1
array += 1; answer = int(shared('image0')[0, 0, 0]); answer = None if answer == 0 else answer
array.fill(3)
array.sort()
array.put(0, 9)
array.setflags(write=True)
array.flags.writeable = True
array.view()
array.base
array.data
array.ctypes
array.tofile('x')
array.dump('x')
array.__array_interface__
array.resize((1,), refcheck=False)
np.copyto(array, 1)
np.add(array, 1, out=array)
np.put(array, [0], [7])
np.place(array, array >= 0, [7])
np.putmask(array, array >= 0, 7)
np.fill_diagonal(array[:3, :3, 0], 7)
np.put_along_axis(array, np.zeros((1, 5, 3), int), 7, axis=0)
np.clip(array, 5, 6, out=array)
np.random.shuffle(array)
np.lib.stride_tricks.as_strided(array, (10**6,))
np.lib.stride_tricks.sliding_window_view(array, (2, 2, 3), writeable=True)[0] = 1
np.lib.format
np.lib.npyio
np.fft.fft2.__globals__
np.fft.helper
np.linalg.linalg
np.load('x')
np.memmap('x')
np.fromfile('x')
np.frombuffer(array)
np.frompyfunc(len, 1, 1)
np.vectorize(len)
np.ndarray((9,), buffer=array)
np.insert(array, 0, object)
np.select([array > 0], [object()])
np.choose([0, 1], [[object()], [object()]])
np.block([[object()]])
"""


@pytest.mark.parametrize("line", WRITES.strip().splitlines())
def test_no_way_to_write_to_it_or_around_it(box: Sandbox, line: str) -> None:
    program = f"import numpy as np\nfrom numpy import fft\narray = shared('image0')\n{line}"
    outcome = box.run(program, arrays={"image0": PICTURE})
    if outcome.failure is not None:
        assert outcome.failure.kind in ("forbidden", "runtime", "syntax")
    else:
        assert outcome.value is None
    again = box.run("answer = int(shared('image0').sum())", arrays={"image0": PICTURE})
    assert again.value == int(PICTURE.sum())


BOMBS = """
np.zeros((10**6, 10**6))
np.lib.stride_tricks.sliding_window_view(array, (2, 2, 3)).repeat(10**9)
np.resize(array, 10**11)
np.indices((10**5, 10**5))
np.fft.fft(array, 10**10)
np.vander(np.arange(10**5), 10**6)
np.tri(10**7)
np.unpackbits(np.tile(array.ravel(), 10**9))
"""


@pytest.mark.parametrize("line", BOMBS.strip().splitlines())
def test_a_bomb_is_contained(box: Sandbox, line: str) -> None:
    program = f"import numpy as np\narray = shared('image0')\n{line}\nanswer = 'through'"
    outcome = box.run(program, arrays={"image0": PICTURE})
    assert outcome.failure is not None
    assert outcome.failure.kind in ("memory", "timeout", "runtime", "crash"), outcome.failure


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("abs(np.fft.fft2(array[..., 0])[0, 0]) == array[..., 0].sum()", True),
        ("np.convolve([1, 2, 3], [1, 1]).tolist()", [1, 3, 5, 3]),
        ("len(np.linalg.svd(array[..., 0])[1])", 4),
        ("np.lib.stride_tricks.sliding_window_view(array, (2, 2, 3)).shape", (3, 4, 1, 2, 2, 3)),
    ],
)
def test_numpy_is_larger_where_arrays_are_shared(box: Sandbox, expression: str, value: Any) -> None:
    program = f"import numpy as np\narray = shared('image0')\nanswer = {expression}"
    if value is True:
        program = program.replace("answer = ", "answer = bool(") + ")"
    assert box.run(program, arrays={"image0": PICTURE}).value == value
    small = f"import numpy as np\narray = np.ones((4, 5, 3))\nanswer = {expression}"
    assert box.run(small).failure is not None


def test_processes_of_both_kinds_come_from_one_sandbox(box: Sandbox) -> None:
    for number in range(6):
        arrays = {"image0": np.full((2, 2, 3), number, np.uint8)} if number % 2 else None
        program = "answer = int(shared('image0').max())" if number % 2 else f"answer = {number}"
        assert box.run(program, arrays=arrays).value == number


def test_the_layers_are_the_same(box: Sandbox) -> None:
    with box.session(arrays={"image0": PICTURE}):
        shared = box.layers()
    assert [layer.name for layer in shared if layer.holds][-2:] == ["landlock", "seccomp"]


def test_what_cannot_be_mapped_is_refused_before_a_process_starts(box: Sandbox) -> None:
    for arrays, said in (
        ({str(n): PICTURE for n in range(MOST + 1)}, "at most 16 arrays of 256 MiB"),
        ({"a": np.empty((0, 3), np.uint8)}, "not empty"),
        ({"a": np.array([object()])}, "of numbers"),
    ):
        with pytest.raises(UsageError, match=said):
            box.run("answer = 1", arrays=arrays)
    assert box.run("answer = 1", arrays={}).value == 1


def test_only_what_fits_is_mapped() -> None:
    large = np.broadcast_to(np.uint8(0), (MOST_BYTES - 10,))
    assert list(fitting({"a": PICTURE[0], "b": large, "c": PICTURE[1]})) == ["a", "c"]
    assert len(fitting({str(n): PICTURE for n in range(MOST + 5)})) == MOST


def test_no_descriptor_is_left_open(box: Sandbox) -> None:
    box.run("answer = 1", arrays={"image0": PICTURE})
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        box.run("answer = 1", arrays={"image0": PICTURE})
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
