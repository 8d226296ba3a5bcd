"""Programs that call the guarded numpy with arguments that nobody would choose.

    python benchmarks/soak.py --numpy-minutes 10 [--seed 0]

``test_fuzz.py`` runs a few. Every function that programs have gets odd shapes, types, options and
objects that change an array while numpy reads it. What must hold: the process does not crash, no
array of objects and no old memory is handed out, and what the parent shares stays as it is.
"""

from __future__ import annotations

import random

import numpy as np

from viper.sandbox import Outcome
from viper.sandbox.numpy_facade import wide_numpy_members
from viper.sandbox.readable import ARRAY_METHODS

FRAME = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)

# Freed before the calls; whoever gets it back reads old memory.
_MARK = "1.2345678912345678e+123"

_BEGIN = f"""
import numpy as np
frame = shared('image0')
a = np.arange(24.0).reshape(2, 3, 4)
b = np.arange(12, dtype='i4')[::-2]
c = np.broadcast_to(np.float32(2.5), (3, 4))
d = np.array([True, False, True])
e = np.zeros((0, 3), 'u1')
f = np.array([1 + 2j, np.nan, np.inf])
g = np.array(['a', 'bcd', ''])
h = np.lib.stride_tricks.sliding_window_view(np.arange(9), 4)
k = np.array(7, 'f2')

class Odd:
    def __len__(self):
        return 3
    def __getitem__(self, at):
        change()
        if at >= 3:
            raise IndexError(at)
        return a
    def __iter__(self):
        change()
        return iter([1, self, 2])
    def __bool__(self):
        change()
        return True
    def __add__(self, other):
        change()
        return other
    def __lt__(self, other):
        change()
        return True
    def __call__(self, *args, **kwargs):
        change()
        return self

changes = 0
def change():
    global changes, a, b
    changes += 1
    if changes < 20:
        b.sort()
        a = np.zeros(changes)

found = []
def check(name, result):
    for part in result if type(result) in (list, tuple) else [result]:
        if isinstance(part, np.ndarray):
            if 'O' in str(part.dtype) or 'object' in str(part.dtype):
                found.append('objects from ' + name)
            if str(part.dtype) == 'float64' and bool((part == {_MARK}).any()):
                found.append('old memory from ' + name)
            str(part)
for size in (1, 2, 3, 4, 6, 9, 12, 24, 64):
    for _ in range(8):
        mark = np.full(size, {_MARK})
        del mark
"""

_VALUE_TEXT = """
a b c d e f g h k frame frame[0] a.T a[:,::-1] a[...,None] b[::-1] a[0,0] np.float64(3) np.uint8(9)
0 1 -1 2 3 7 2**31 2**63 2**64 -2**63 1e308 -0.0 np.nan np.inf 1j True None 'a' '' b'ab' 'i4,O' 'V9'
[] [[]] [1,[2]] [a,b] [[1,2],[3,4]] (3,4) (2,-1) (0,) (10**6,10**6) range(5) slice(1,None,-2) ...
Odd() [Odd()] [Odd(),1] Odd change {1:2} {'a'} [None,None] [a,a] [0,1,1] (b,) lambda*x:x
[('a','O')] [('a','i4'),('b','f8')] np.float32 np.int8 np.str_ float object list np.ndarray
'ij,jk' 'ij->ji' 'i...->...' 'wrap' 'valid' 'constant' 'full' 'edge' 'auto'
"""
_VALUES = _VALUE_TEXT.split()

_OPTIONS = {
    "out": "a b c d e f frame k a.T np.zeros(3) np.zeros(24) np.zeros((3,4)) (a,) Odd() None",
    "dtype": "'f8' 'i1' 'O' 'M8[s]' 'U3' 'V7' 'c16' object float [('a','O')] np.uint8 None",
    "axis": "0 1 -1 2 99 None (0,1) (0,0) Odd() -2**63 'a' True",
    "order": "'C' 'F' 'K' 'A' 'x' None [0,1]",
    "where": "d True False np.zeros((2,3,4),bool) Odd() None",
    "casting": "'unsafe' 'no' 'same_kind' 'x'",
    "mode": "'wrap' 'clip' 'raise' 'reflect' 'constant' 'empty' 'x'",
    "kind": "'quicksort' 'stable' 'heapsort' 'x' Odd()",
    "keepdims": "True False Odd()",
    "initial": "0 a Odd() None",
    "copy": "True False None",
    "subok": "True False",
    "like": "a Odd()",
    "ndmin": "0 5 32 64 99 -1",
    "minlength": "0 9 2**40 -1",
    "indexing": "'ij' 'xy'",
    "signature": "'dd->d' 'OO->O' 'x'",
    "axes": "[0,1] [(0,1),(0,1)] 1 Odd()",
    "shape": "(2,3) -1 (0,) (2**40,)",
    "bins": "5 a -1 'auto' [1,0] Odd()",
}


def _functions() -> list[str]:
    names = []
    for name, member in wide_numpy_members().items():
        if isinstance(member, dict):
            names += [f"{name}.{each}" for each, it in member.items() if callable(it)]
        elif callable(member):
            names.append(name)
    return names


_FUNCTIONS = _functions()
_METHODS = sorted(ARRAY_METHODS)


def _call(rng: random.Random) -> tuple[str, str]:
    """Return the name of what is called, and the call."""
    arguments = [rng.choice(_VALUES) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4]))]
    for option in rng.sample(sorted(_OPTIONS), rng.choice([0, 0, 1, 1, 2])):
        arguments.append(f"{option}={rng.choice(_OPTIONS[option].split())}")
    given = ", ".join(arguments)
    kind = rng.random()
    if kind < 0.75:
        name = rng.choice(_FUNCTIONS)
        return f"np.{name}", f"np.{name}({given})"
    array = rng.choice(["a", "b", "c", "e", "f", "g", "h", "k", "frame", "a.T"])
    if kind < 0.92:
        name = rng.choice(_METHODS)
        return f"array.{name}", f"{array}.{name}({given})"
    return "item", f"{array}[{rng.choice(_VALUES)}]"


def program(rng: random.Random, calls: int = 25) -> str:
    """Return one program; its answer lists what it found, and is empty where all holds."""
    lines = [_BEGIN]
    for _ in range(calls):
        name, call = _call(rng)
        lines.append(f"try:\n    check({name!r}, {call})\nexcept Exception:\n    pass")
        if rng.random() < 0.1:
            array, at, value = rng.choice("abdefk"), rng.choice(_VALUES), rng.choice(_VALUES)
            lines.append(f"try:\n    {array}[{at}] = {value}\nexcept Exception:\n    pass")
    return "\n".join([*lines, "answer = found"])


def fault(outcome: Outcome) -> str | None:
    """Return what must not happen and did, or None."""
    if outcome.failure is not None and outcome.failure.kind == "crash":
        return outcome.failure.message
    if outcome.ok and outcome.value != []:
        return str(outcome.value)
    return None
