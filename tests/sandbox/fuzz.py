"""Feeds the wire decoder and the policy with what nobody would write.

    python -m tests.sandbox.fuzz --minutes 10 [--seed 0]

``test_fuzz.py`` runs the same properties briefly. What must hold: a decoder answers or
raises WireError; ``compile_program`` answers or raises PolicyError; and whatever it
answers holds no instruction that reads an attribute or imports past a guard.
"""

from __future__ import annotations

import argparse
import ast
import dis
import keyword
import random
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import msgpack

from tests.sandbox.test_language import PROGRAMS
from viper.sandbox.policy import PolicyError, compile_program
from viper.sandbox.wire import (
    ARRAY,
    BIG_INT,
    DICT,
    LIST,
    REF,
    SET,
    TUPLE,
    WireError,
    decode,
    encode,
    pack,
    unpack,
)

UNGUARDED = frozenset(
    ["LOAD_ATTR", "LOAD_METHOD", "IMPORT_NAME", "IMPORT_FROM", "IMPORT_STAR", "BINARY_SUBSCR",
     "BINARY_SLICE", "MATCH_CLASS", "LOAD_SUPER_ATTR"]
)  # fmt: skip
"""Instructions that reach into an object without asking; none is left after the policy."""

GUARDED_STORES = frozenset(["STORE_ATTR", "DELETE_ATTR"])

_PIECES = """
answer = ( ) [ ] { } : , . ; == != < > <= >= + - * / // % ** << >> & | ^ ~ @ := -> ... _ __
__class__ __dict__ __globals__ __builtins__ _getattr_ under0 under0_x under0__fields__ __metaclass__
__import__ x y f self cls 0 1 1.5 1j 10**9 'a' "b" f'{x}' f'{x.y!r:>{y}}' b'c' None True False
if else elif for while break continue def return lambda class try except finally raise with as
import from in is not and or global nonlocal yield await async pass assert del match case print
\\n \\t \\x00 é ℯ ﹍ # type: ignore @dataclass *args **kwargs
"""
PIECES = tuple(_PIECES.split())


def sources(rng: random.Random) -> Iterator[str]:
    """Programs made of good ones: spliced, cut, shuffled, and strewn with odd pieces."""
    corpus = [program for program, _ in PROGRAMS.values()]
    while True:
        text = rng.choice(corpus)
        for _ in range(rng.choice([1, 1, 2, 3])):
            text = rng.choice(_MUTATIONS)(rng, text, corpus)
        yield text


def _splice(rng: random.Random, text: str, corpus: list[str]) -> str:
    other = rng.choice(corpus)
    return text[: rng.randint(0, len(text))] + other[rng.randint(0, len(other)) :]


def _strew(rng: random.Random, text: str, corpus: list[str]) -> str:
    place = rng.randint(0, len(text))
    piece = rng.choice(PIECES).encode().decode("unicode_escape", "replace")
    return f"{text[:place]} {piece} {text[place:]}"


def _swap_words(rng: random.Random, text: str, corpus: list[str]) -> str:
    words = text.split(" ")
    place = rng.randrange(len(words))
    words[place] = rng.choice(PIECES)
    return " ".join(words)


def _swap_lines(rng: random.Random, text: str, corpus: list[str]) -> str:
    lines = text.split("\n") + rng.choice(corpus).split("\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return "\n".join(lines)


def _rename(rng: random.Random, text: str, corpus: list[str]) -> str:
    names = [
        word for word in text.replace("(", " ").replace(".", " ").split() if word.isidentifier()
    ]
    if not names:
        return text
    piece = rng.choice([p for p in PIECES if p.isidentifier()])
    return text.replace(rng.choice(names), piece)


def _graft(rng: random.Random, text: str, corpus: list[str]) -> str:
    """Odd names in the syntax tree, and expressions of one program in place of another's."""
    try:
        tree, other = ast.parse(text), ast.parse(rng.choice(corpus))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last: parser too deep
        return text
    nodes, donors = list(ast.walk(tree)), list(ast.walk(other))
    words = [p for p in PIECES if p.isidentifier() and not keyword.iskeyword(p)]
    for node in rng.sample(nodes, min(len(nodes), rng.randint(1, 8))):
        for name, value in ast.iter_fields(node):
            if isinstance(value, str) and value.isidentifier():
                setattr(node, name, rng.choice(words))
            elif isinstance(value, ast.expr) and isinstance(value, _PLACED):
                setattr(node, name, rng.choice([n for n in donors if isinstance(n, _PLACED)]))
    try:
        return ast.unparse(tree)
    except (ValueError, TypeError, RecursionError, AttributeError):
        return text


_PLACED = (ast.Name, ast.Call, ast.Constant, ast.Attribute, ast.Subscript, ast.BinOp, ast.Lambda)


def _nest(rng: random.Random, text: str, corpus: list[str]) -> str:
    depth = rng.choice([3, 30, 300])
    left, right = rng.choice([("(", ")"), ("[", "]"), ("f(", ")"), ("not ", ""), ("-", "")])
    return f"{text}\nanswer = {left * depth}1{right * depth}"


_MUTATIONS: list[Callable[[random.Random, str, list[str]], str]] = [
    _splice, _strew, _strew, _swap_words, _swap_lines, _rename, _nest,
    _graft, _graft, _graft
]  # fmt: skip


def check_source(source: str) -> str:
    """What came of a source: ``compiled``, ``syntax`` or ``forbidden``.

    Raises:
        AssertionError: an instruction that reaches past the guards.
    """
    try:
        program = compile_program(source, "<fuzz>")
    except PolicyError as error:
        assert error.kind in ("syntax", "forbidden")
        return error.kind
    for code in _codes(program.code):
        instructions = list(dis.get_instructions(code))
        names = {instruction.opname for instruction in instructions}
        # A sequence pattern takes items of what it has found to be a builtin sequence.
        forbidden = UNGUARDED - ({"BINARY_SUBSCR"} if "MATCH_SEQUENCE" in names else set())
        forbidden -= {"MATCH_CLASS"} if _guarded_patterns(instructions) else set()
        for instruction in instructions:
            assert instruction.opname not in forbidden, (instruction.opname, source)
            if instruction.opname in GUARDED_STORES:
                name = str(instruction.argval)
                assert name == "_" or not name.startswith("_"), (instruction, source)
    return "compiled"


def _guarded_patterns(instructions: list[dis.Instruction]) -> bool:
    """Return whether every class pattern names a class that a guard has checked or made."""
    places = [at for at, each in enumerate(instructions) if each.opname == "MATCH_CLASS"]
    return all(str(instructions[at - 2].argval).startswith("_match") for at in places)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def frames(rng: random.Random) -> Iterator[tuple[bytes, bytes]]:
    """(meta, raw) of frames: valid ones, then with bytes changed, cut or repeated."""
    while True:
        parts: list[memoryview] = []
        if rng.random() < 0.5:
            packed = pack({"v": encode(_value(rng, 0), parts)})
        else:
            packed = msgpack.packb({"v": _wild(rng, 0)}, use_bin_type=True)
        raw = b"".join(parts) + rng.randbytes(rng.choice([0, 0, 1, 8, 64]))
        for _ in range(rng.randint(0, 4)):
            packed = _damaged(rng, packed)
        yield packed, raw


def _damaged(rng: random.Random, data: bytes) -> bytes:
    if not data:
        return rng.randbytes(3)
    place = rng.randrange(len(data))
    kind = rng.randrange(4)
    if kind == 0:
        return data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]
    if kind == 1:
        return data[:place]
    if kind == 2:
        return data[:place] + data[rng.randrange(len(data)) :]
    return data[:place] + rng.randbytes(rng.randint(1, 5)) + data[place:]


def _value(rng: random.Random, depth: int) -> Any:
    import numpy as np

    if depth < 4 and rng.random() < 0.6:
        items = [_value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
        return rng.choice([items, tuple(items), {str(i): item for i, item in enumerate(items)}])
    array = np.zeros([rng.randint(0, 3) for _ in range(rng.randint(0, 3))], np.uint8)
    return rng.choice([None, True, 0, -1, 2**80, 1.5, float("nan"), "x", b"y", {1, 2}, array])


def _wild(rng: random.Random, depth: int) -> Any:
    """Data with the tags of the wire in places where they do not belong."""
    leaf = [None, True, "x", b"y", 1.5, "|u1", "<f8", "O", -1, 0, 1, 7, 2**31, 2**62, 2**64 - 1]
    tags = [LIST, TUPLE, DICT, SET, REF, BIG_INT, ARRAY, 99, -1]
    if depth < 5 and rng.random() < 0.7:
        return [rng.choice(tags), *[_wild(rng, depth + 1) for _ in range(rng.randint(0, 5))]]
    if rng.random() < 0.05:
        return {rng.choice(["a", "t"]): _wild(rng, depth + 1)}
    return rng.choice(leaf)


def check_frame(packed: bytes, raw: bytes) -> str:
    """What came of a frame: ``decoded`` or ``refused``."""
    try:
        decode(unpack(packed).get("v"), raw)
    except WireError:
        return "refused"
    return "decoded"


def main() -> None:
    """Fuzzes until the time is over; prints what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng, found = random.Random(given.seed), Counter[str]()
    end = time.monotonic() + 60 * given.minutes
    made_sources, made_frames = sources(rng), frames(rng)
    warnings.simplefilter("ignore", SyntaxWarning)  # most of what is made deserves one
    while time.monotonic() < end:
        for _ in range(20):
            found[f"program {check_source(next(made_sources))}"] += 1
        for _ in range(100):
            found[f"frame {check_frame(*next(made_frames))}"] += 1
    for name, count in sorted(found.items()):
        print(f"{name:<20} {count:>10}")


if __name__ == "__main__":
    main()
