"""The ordinary Python that models write runs and means what it means."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from typing import Any

import pytest

from viper.sandbox import Sandbox

PROGRAMS: dict[str, tuple[str, Any]] = {
    "annotations": (
        "from __future__ import annotations\nfrom typing import List\n"
        "def f(a: List[int], *, b: 'Unknown' = 2) -> [str, dict]:\n    c: undefined = a[0]\n"
        "    d: int\n    return c + b\nanswer: int = f([1])",
        3,
    ),
    "f-strings": ("x = 3.14159\nanswer = f'{x:.2f} {x!r:>9} {\"a\" * 2}'", "3.14   3.14159 aa"),
    "str.format": ("answer = '{} {1[k]} {2.real:>3}'.replace('{}', '{0}').format(1, {'k': 2}, 3)", "1 2   3"),
    "format_map": ("answer = '{a}-{b}'.format_map({'a': 1, 'b': 2})", "1-2"),
    "percent": ("answer = '%s has %d' % ('a', 3)", "a has 3"),
    "lambda closure": ("def f(n):\n    return [(lambda k: k + n)(i) for i in range(3)]\nanswer = f(2)", [2, 3, 4]),
    "nested comprehension": (
        "answer = {a: [b for b in range(a) if b % 2] for a in (2, 4)}", {2: [1], 4: [1, 3]}
    ),
    "generator": ("answer = sum(x * x for x in range(4))", 14),
    "generator function": ("def g():\n    yield 1\n    yield from (2, 3)\nanswer = list(g())", [1, 2, 3]),
    "try finally": (
        "log = []\ntry:\n    1 / 0\nexcept ZeroDivisionError as e:\n    log.append(str(e))\n"
        "else:\n    log.append('no')\nfinally:\n    log.append('end')\nanswer = log",
        ["division by zero", "end"],
    ),
    "bare except": ("try:\n    [][0]\nexcept:\n    answer = 'caught'", "caught"),
    "while else": ("n = 3\nwhile n:\n    n -= 1\nelse:\n    answer = n", 0),
    "chained comparison": ("answer = 1 < 2 <= 2 != 3", True),
    "star unpacking": ("a, *b, (c, d) = [1, 2, 3, (4, 5)]\nanswer = [a, b, c, d]", [1, [2, 3], 4, 5]),
    "star call": ("def f(*a, **k):\n    return a, k\nanswer = f(*[1, 2], **{'x': 3})", ((1, 2), {"x": 3})),
    "loop over pairs": ("answer = [k + str(v) for k, v in {'a': 1}.items()]", ["a1"]),
    "augmented name": ("x = [1]\nx += [2]\ny = 3\ny *= 2\ny **= 2\ny <<= 1\nanswer = (x, y)", ([1, 2], 72)),
    "augmented item": ("d = {'a': [1]}\nd['a'][0] += 4\nd['a'] *= 2\nanswer = d", {"a": [5, 5]}),
    "augmented item evaluates its key once": (
        "keys = iter(['a', 'b'])\nd = {'a': 1, 'b': 1}\nd[next(keys)] += 1\nanswer = d", {"a": 2, "b": 1}
    ),
    "slices": ("x = list(range(9))\nx[1:3] = [0]\ndel x[-1], x[0]\nanswer = x[::2]", [0, 4, 6]),
    "global": ("n = 0\ndef f():\n    global n\n    n += 1\nf(); f()\nanswer = n", 2),
    "nonlocal": (
        "def f():\n    n = 1\n    def g():\n        nonlocal n\n        n += 1\n    g()\n    return n\nanswer = f()", 2
    ),
    "walrus": ("answer = [y for x in range(4) if (y := x * 2) > 2]", [4, 6]),
    "match": (
        "def f(x):\n    match x:\n        case 0 | -1:\n            return 'low'\n        case 'a':\n"
        "            return 'text'\n        case [1, *rest]:\n            return rest\n        case None:\n"
        "            return 'none'\n        case other if other == 7:\n            return 'seven'\n"
        "        case _:\n            return 'else'\nanswer = [f(v) for v in (-1, 'a', [1, 2], None, 7, 8)]",
        ["low", "text", [2], "none", "seven", "else"],
    ),
    "arithmetic on large arrays": (
        "import numpy as np\nframe = np.full((480, 640, 3), 9, np.uint8)\n"
        "answer = float(((frame.astype(float) * 2 + 2) / 4).mean())", 5.0
    ),
    "functions of numpy that import late": (
        "import numpy as np\na = np.arange(9) % 3\n"
        "answer = [np.unique(a).tolist(), float(np.percentile(a, 50))]", [[0, 1, 2], 1.0]
    ),
    "underscore names": (
        "_n = 1\n__m = 2\ndef _f(_x, *, _y=3):\n    return _x + _y\nanswer = _f(_n, _y=__m)\n_ = 5", 3
    ),
    "main guard": ("if __name__ == '__main__':\n    answer = 'main'", "main"),
    "class": (
        "class Box:\n    count = 0\n    def __init__(self, w):\n        self._w = w\n        Box.count += 1\n"
        "    @property\n    def area(self):\n        return self._w ** 2\n    @staticmethod\n"
        "    def two():\n        return 2\n    @classmethod\n    def make(cls):\n        return cls(3)\n"
        "    def __eq__(self, o):\n        return self._w == o._w\n    def __repr__(self):\n"
        "        return f'Box({self._w})'\n    def __len__(self):\n        return 9\n"
        "b = Box.make()\nb._w += 1\nanswer = [b.area, Box.two(), Box.count, b == Box(4), str(b), len(b)]",
        [16, 2, 1, True, "Box(4)", 9],
    ),
    "inheritance": (
        "class A:\n    def __init__(self, x):\n        self.x = x\n    def go(self):\n        return 'A'\n"
        "class B(A):\n    def __init__(self, x, y):\n        super().__init__(x)\n        self.y = y\n"
        "    def go(self):\n        return super().go() + 'B'\nb = B(1, 2)\n"
        "answer = [b.x, b.y, b.go(), isinstance(b, A), B.__name__, b.__class__.__name__]",
        [1, 2, "AB", True, "B", "B"],
    ),
    "own exception": (
        "class Odd(ValueError):\n    def __init__(self, n):\n        super().__init__(f'odd {n}')\n"
        "        self.n = n\ntry:\n    raise Odd(3) from None\nexcept ValueError as e:\n"
        "    answer = [str(e), e.n, e.args, type(e).__name__]",
        ["odd 3", 3, ("odd 3",), "Odd"],
    ),
    "dataclass": (
        "from dataclasses import dataclass, field, asdict\n@dataclass(order=True)\nclass P:\n    x: int\n"
        "    y: float = 2.0\n    tags: list = field(default_factory=list)\n    def shift(self):\n"
        "        return self.x + self.y\nclass Q(P):\n    pass\np = P(1, tags=['a'])\n"
        "answer = [str(p), p.shift(), P(1) == P(1), sorted([P(2), P(1)])[0].x, asdict(p), P(3).tags]",
        ["P(x=1, y=2.0, tags=['a'])", 3.0, True, 1, {"x": 1, "y": 2.0, "tags": ["a"]}, []],
    ),
    "namedtuple": (
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\np = P(1, y=2)\n"
        "answer = [p.x, p[1], *p]",
        [1, 2, 1, 2],
    ),
    "sort with key": ("xs = ['bb', 'a']\nxs.sort(key=lambda s: len(s))\nanswer = xs + sorted(xs, key=len, reverse=True)", ["a", "bb", "bb", "a"]),
    "min max key": ("d = {'a': 3, 'b': 1}\nanswer = [max(d, key=d.get), min(d.items(), key=lambda t: t[1])]", ["a", ("b", 1)]),
    "method as key": ("answer = list(map(str.lower, ['A', 'B']))", ["a", "b"]),
    "loop variable after its loop": ("for x in [1, 2]:\n    pass\nanswer = x", 2),
    "type of": ("answer = [type(1) == int, type([]).__name__, type('') is str]", [True, "list", True]),
    "isinstance": (
        "from typing import List\nimport numpy as np\n"
        "answer = [isinstance(1, (int, float)), isinstance([], List), isinstance(np.zeros(2), np.ndarray)]",
        [True, True, True],
    ),
    "getattr": ("class A:\n    b = 1\nanswer = [getattr(A(), 'b'), getattr(A(), 'c', 7), hasattr('', 'upper'), hasattr('', 'nope')]", [1, 7, True, False]),
    "setattr": ("class A:\n    pass\na = A()\nsetattr(a, '_x', 4)\na.y = 1\ndel a.y\nanswer = [a._x, hasattr(a, 'y')]", [4, False]),
    "math": ("import math\nfrom math import sqrt as root\nanswer = [math.floor(2.5), root(9), math.pi > 3]", [2, 3.0, True]),
    "numpy": (
        "import numpy as np\na = np.array([[1, 2], [3, 4]], dtype=float)\na[0, 1] += 1\n"
        "answer = [a.mean(), float(np.linalg.norm(a[1])), (a @ a).shape, a[a > 2].tolist(), int(np.argmax(a)), a.dtype.name]",
        [2.75, 5.0, (2, 2), [3.0, 3.0, 4.0], 3, "float64"],
    ),
    "re": ("import re\nm = re.search(r'(\\d+) (?P<w>\\w+)', 'in 12 days')\nanswer = [m.group(1), m['w'], re.sub('a', lambda m: 'b', 'aa')]", ["12", "days", "bb"]),
    "collections": (
        "from collections import Counter, defaultdict, deque\nd = defaultdict(list)\nd['a'].append(1)\n"
        "c = Counter('aab')\nq = deque([1]); q.appendleft(0)\nanswer = [dict(d), c.most_common(1), list(q)]",
        [{"a": [1]}, [("a", 2)], [0, 1]],
    ),
    "functools": ("from functools import reduce, lru_cache, partial\n@lru_cache(maxsize=None)\ndef f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nanswer = [reduce(lambda a, b: a + b, [1, 2]), f(30), partial(max, 3)(5)]", [3, 832040, 5]),
    "itertools": ("import itertools\nanswer = [list(itertools.combinations([1, 2, 3], 2)), list(itertools.chain([1], [2]))]", [[(1, 2), (1, 3), (2, 3)], [1, 2]]),
    "operator": ("from operator import itemgetter\nanswer = sorted([(2, 'a'), (1, 'b')], key=itemgetter(0))", [(1, "b"), (2, "a")]),
    "statistics": ("import statistics\nanswer = statistics.median([1, 2, 9])", 2),
    "json": ("import json\nanswer = json.loads(json.dumps({'a': [1, None]}))", {"a": [1, None]}),
    "import from an unknown module": ("from image_patch import Thing, find\nanswer = Thing.__name__", "Thing"),
    "final_answer": ("final_answer = 'yes'", "yes"),
    "result": ("result = [1]", [1]),
    "set and bytes": ("answer = ({1, 2} | {3}, b'ab', frozenset([1]))", ({1, 2, 3}, b"ab", {1})),
    "big number": ("answer = 2 ** 100", 2**100),
    "complex expression": ("answer = (lambda *a, k=1: sum(a) * k)(*range(3), k=2) if not [] else None", 6),
    "decorator": ("def twice(f):\n    def g(*a):\n        return f(*a) * 2\n    return g\n@twice\ndef h(x):\n    return x\nanswer = h(4)", 8),
    "assert and del": ("x = 1\nassert x == 1, 'no'\ndel x\nanswer = 'x' in 'xyz'", True),
    "del of a dict key": ("d = {'a': 1, 'b': 2}\ndel d['a']\nanswer = d", {"b": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_ordinary_python_runs(name: str, sandbox: Sandbox) -> None:
    code, expected = PROGRAMS[name]
    outcome = sandbox.run(code)
    assert outcome.failure is None
    assert outcome.value == expected


def test_print_is_collected_in_order(sandbox: Sandbox) -> None:
    code = "def f():\n    print('in', 1, sep='-', end='!')\nprint('out')\nf()\nprint()"
    assert sandbox.run(code).stdout == "out\nin-1!\n"


def test_print_takes_only_text_between(sandbox: Sandbox) -> None:
    code = (
        "class S:\n    def join(self, parts):\n        return 5\n    def __str__(self):\n"
        "        return '+'\nprint(1, 2, sep=S())"
    )
    assert sandbox.run(code).stdout == "1+2\n"


def test_a_run_repeats(sandbox: Sandbox) -> None:
    code = (
        "import random\nimport numpy as np\n"
        "answer = [random.random(), list({'a', 'b', 'c', 'd'}), float(np.random.rand()), hash('x')]"
    )
    assert sandbox.run(code).value == sandbox.run(code).value


def test_programs_share_nothing(sandbox: Sandbox) -> None:
    sandbox.run("import math\nleft_behind = 1\nmath_name = 2")
    outcome = sandbox.run("answer = left_behind")
    assert outcome.failure is not None
    assert outcome.failure.exception == "NameError"
