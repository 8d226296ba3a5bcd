"""From an object at hand, attribute by attribute, to one that is not for programs."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from tests.sandbox.abuse.case import cases

CASES = cases(
    "attribute walks",
    {
        "attributes": {
            "bases": "answer = str(().__class__.__bases__)",
            "mro": "answer = str(int.__mro__)",
            "mro method": "answer = str(str.mro())",
            "subclasses": "answer = len(object.__subclasses__())",
            "globals of a function": "def f(): pass\nanswer = len(f.__globals__)",
            "builtins of a function": "def f(): pass\nanswer = str(f.__builtins__)[:20]",
            "code of a function": "def f(): return 'loot'\nanswer = f.__code__.co_consts",
            "closure": "def f(x):\n    return lambda: x\nanswer = f('loot').__closure__[0].cell_contents",
            "defaults": "def f(x='loot'): pass\nanswer = f.__defaults__",
            "dict of an instance": "class A: pass\nanswer = str(A().__dict__)",
            "dict of a class": "class A: pass\nanswer = str(A.__dict__)",
            "self of a bound method": "answer = str(print.__self__)",
            "self of a builtin": "answer = str(len.__self__)",
            "self of a string's method": "answer = ''.join.__self__ + 'loot'",
            "function of a method": "class A:\n    def m(self): pass\nanswer = str(A().m.__func__)",
            "object behind a value's method": "answer = find('x')[0].ask.__self__.secret",
            "attribute that is not listed": "answer = find('x')[0].secret",
            "private attribute of a value": "answer = str(find('x')[0]._call)",
            "dict of a value": "answer = str(find('x')[0].__dict__)",
            "closure of a tool": "answer = str(find.__closure__)",
            "globals of a value's constructor": "answer = len(Thing.__init__.__globals__)",
            "unguarded read": "answer = object.__getattribute__(find('x')[0], 'secret')",
            "reduction of an iterator": "answer = str(iter([1]).__reduce__()[0])",
            "wrapped function": "answer = str(staticmethod(len).__wrapped__)",
            "getter of a property": "answer = str(property(len).fget)",
            "origin of a generic": "answer = str(list[int].__origin__)",
            "arguments of a union": "answer = str((int | str).__args__)",
            "mapping behind a view": "answer = str({'a': 1}.keys().mapping)",
            "class of super": "class A:\n    def m(self):\n        return str(super().__thisclass__)\nanswer = A().m()",
            "what a token stands for": "import typing\nanswer = str(typing.List.matches)",
            "subclasses of a program's class": "class A: pass\nanswer = str(A.__subclasses__())",
            "swallowed": """
loot = None
try:
    loot = find('x')[0].secret
except Exception:
    pass
answer = 'held' if loot is None else loot
""",
            "swallowed in a bare except": """
loot = None
for name in ('a', 'b'):
    try:
        loot = find('x')[0].secret
    except:
        continue
answer = 'held' if loot is None else loot
""",
            "kept through finally": """
def take():
    loot = 'held'
    try:
        loot = find('x')[0].secret
    finally:
        return loot
answer = take()
""",
            "printed on the way": "print('LOOT' + find('x')[0].secret)\n1 / 0",
            "in an error's message": "raise ValueError('LOOT' + find('x')[0].secret)",
        },
        "types": {
            "type of a type": "answer = str(type(type(1)))",
            "type of a function": "answer = str(type(find))",
            "class of a lambda": "answer = str((lambda: 0).__class__)",
            "type of a generator": "answer = str(type(x for x in []))",
            "type of a module": "import math\nanswer = str(type(math))",
            "class of a class": "class A: pass\nanswer = str(A.__class__)",
        },
        "items": {
            "field of a dtype": "import numpy as np\nanswer = str(np.zeros(1, dtype=[('a', 'i4')]).dtype['a'])",
            "item of a record": "import numpy as np\nanswer = str(np.zeros(1, dtype=[('a', 'i4')])[0]['a'])",
            "item of an iterator": "import numpy as np\nanswer = str(np.arange(3).flat[1])",
        },
    },
)
