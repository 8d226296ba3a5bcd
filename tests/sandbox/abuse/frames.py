"""Frames hold the variables of whoever is running, and lead to every module."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from tests.sandbox.abuse.case import cases

CASES = cases(
    "frames",
    {
        "attributes": {
            "of a generator": "g = (x for x in [1])\nanswer = str(g.gi_frame)",
            "of a generator by name": "g = (x for x in [1])\nanswer = str(getattr(g, 'gi_frame'))",
            "of a generator function": "def g():\n    yield 1\nanswer = str(g().gi_frame.f_builtins)[:30]",
            "code of a generator": "g = (x for x in [1])\nanswer = str(g.gi_code)",
            "inner generator": "def f():\n    yield from (x for x in [1, 2])\ng = f()\nnext(g)\nanswer = str(g.gi_yieldfrom)",
            "running generator": "g = (x for x in [1])\nanswer = 'loot' if not g.gi_running else 'held'",
            "caller of a generator": """
def walk():
    yield g.gi_frame.f_back
g = walk()
answer = str([frame for frame in g])
""",
            "caller seen from a comprehension": """
g = (g.gi_frame.f_back.f_back for x in [1])
answer = str([frame for frame in g][0])
""",
            "thrown into a generator": """
def g():
    try:
        yield
    except ValueError:
        yield 'loot'
it = g()
next(it)
answer = it.throw(ValueError())
""",
            "generator in a class": """
class A:
    g = (x for x in [1])
answer = str(A.g.gi_frame)
""",
            "generator kept by an iterator": "from itertools import chain\ng = chain(x for x in [1])\nanswer = str(g.__reduce__())",
        },
        "statements": {
            "coroutine": "async def f():\n    return 1\nc = f()\nanswer = 'loot'",
            "await": "async def f():\n    await g()\nanswer = 'loot'",
            "asynchronous generator": "async def f():\n    yield 1\ng = f()\nanswer = 'loot'",
            "asynchronous loop": "async def f():\n    async for x in g():\n        pass\nanswer = 'loot'",
            "asynchronous with": "async def f():\n    async with g():\n        pass\nanswer = 'loot'",
            "asynchronous comprehension": "async def f():\n    return [x async for x in g()]\nanswer = 'loot'",
        },
        "imports": {
            "sys._getframe": "from sys import _getframe as frame\nanswer = str(frame())",
            "inspect.currentframe": "import inspect\nanswer = str(inspect.currentframe())",
            "all threads": "from sys import _current_frames as frames\nanswer = str(frames())",
            "trace function": """
import sys
seen = []
sys.settrace(lambda frame, event, value: seen.append(frame))
(lambda: 0)()
sys.settrace(None)
answer = str(seen)
""",
            "profile function": """
import sys
seen = []
sys.setprofile(lambda frame, event, value: seen.append(frame))
len('')
sys.setprofile(None)
answer = str(seen)
""",
            "walk of the stack": "import traceback\nanswer = str(list(traceback.walk_stack(None)))",
            "all objects": "import gc\nanswer = len(gc.get_objects())",
            "referrers": "import gc\nanswer = len(gc.get_referrers('answer'))",
            "frame type": "from types import FrameType\nanswer = str(FrameType)",
        },
        "builtin_names": {
            "globals": "answer = len(globals())",
            "locals": "answer = len(locals())",
            "vars": "answer = len(vars())",
            "vars of a class": "class A: pass\nanswer = str(vars(A))",
            "dir": "answer = dir()",
            "breakpoint": "answer = str(breakpoint)",
            "asynchronous iterator": "answer = str(aiter)",
        },
    },
)
