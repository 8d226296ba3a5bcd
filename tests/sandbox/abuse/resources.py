"""Programs that use up something; each must end soon, and say what it used up.

A guard here is a limit. Most programs are chosen so that they fail under the tight limits
of the suite and end well under generous ones.
"""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from tests.sandbox.abuse.case import LANGUAGE, cases
from viper.sandbox import Limits

TIGHT = Limits(time_s=20, memory_mb=48, calls=3, output_kb=1, source_kb=4, result_kb=16)
HASTY = Limits(time_s=0.12, memory_mb=64)
GENEROUS = Limits(time_s=60, memory_mb=2048)

_GROUP = "resources"

CASES = (
    *cases(
        _GROUP,
        {
            "time": {
                "loop that swallows errors": """
for i in range(8_000_000):
    try:
        answer = i
    except:
        pass
""",
                "regular expression": "import re\nanswer = str(re.match('(a+)+$', 'a' * 24 + 'b'))",
                "big numbers": "x = 3 ** 200000\nfor i in range(4):\n    x = x * x\nanswer = x.bit_length()",
                "comparison in a sort": """
class Slow:
    def __lt__(self, other):
        return sum(range(200_000)) < 0
answer = len(sorted([Slow() for i in range(150)]))
""",
                "keys that collide": "answer = len({k * (2 ** 61 - 1): 0 for k in range(8000)})",
            },
            # These never end.
            None: {
                "text of an error": "class E(Exception):\n    def __str__(self):\n        while True:\n            pass\nraise E()",
                "iteration of a token": "import numpy as np\nanswer = len([x for x in np.ndarray if False])",
            },
        },
        frozenset(["timeout"]),
    ),
    *cases(
        _GROUP,
        {
            "memory": {
                "repeated list": "answer = len([0] * (16 << 20))",
                "width of a format": "answer = len('{:>100000000}'.format(1))",
                "array": "import numpy as np\nanswer = int(np.zeros(100 << 20, np.uint8).sum())",
                "comprehension": "answer = len([(i,) for i in range(700_000)])",
            },
            None: {
                "swallowed": "xs = ['x' * 1000]\nwhile True:\n    try:\n        xs = xs + xs\n    except ValueError:\n        pass"
            },
        },
        frozenset(["memory"]),
    ),
    *cases(
        _GROUP,
        {
            "output": {
                "printed in a finally": """
def f():
    for i in range(9):
        try:
            print('x' * 500)
        finally:
            continue
    return 1
answer = f()
""",
                "answer": "answer = 'x' * 20_000",
            }
        },
        frozenset(["output"]),
    ),
    *cases(
        _GROUP,
        {
            "output": {"argument": "find('x' * 20_000)\nanswer = 1"},
            "source": {"long source": "#" * 5000 + "\nanswer = 1"},
            "bounded": {
                "shift": "answer = (1 << (1 << 21)).bit_length()",
                "power of a name": "x = 2\nx **= 1 << 21\nanswer = x.bit_length()",
                "power by a function": "answer = pow(2, 1 << 21).bit_length()",
            },
            None: {
                "tower": "answer = 10 ** 10 ** 10",
                "nested source": "answer = " + "[" * 150 + "]" * 150,
            },
        },
        LANGUAGE,
    ),
    *cases(
        _GROUP,
        {
            "calls": {
                "calls that are swallowed": "for i in range(9):\n    try:\n        find(i)\n    except:\n        pass\nanswer = 1"
            }
        },
        frozenset(["tool_budget"]),
    ),
    *cases(
        _GROUP,
        {
            None: {
                "recursion": "def f(n):\n    return f(n + 1)\nanswer = f(0)",
                "recursion of generators": """
def wrap(inner):
    for x in inner:
        yield x
g = [1]
for i in range(5000):
    g = wrap(g)
answer = list(g)
""",
            }
        },
        frozenset(["recursion"]),
    ),
    *cases(
        _GROUP,
        {
            None: {
                "stack of the processor": "t = ()\nfor i in range(300_000):\n    t = (t,)\nanswer = hash(t)"
            }
        },
        frozenset(["crash"]),
    ),
)
