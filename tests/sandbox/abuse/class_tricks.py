"""Bases, metaclasses, special methods, descriptors and assignments to classes."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from tests.sandbox.abuse.case import cases

CASES = cases(
    "class tricks",
    {
        "classes": {
            "subclass of str": "class S(str): pass\nanswer = str(len(S('loot')))",
            "str.format through super": """
class S(str):
    def format(self, *args):
        return super().format(*args)
answer = S('{0.__class__}').format(1)
""",
            "subclass of dict": "class D(dict): pass\nanswer = str(D(a='loot'))",
            "subclass of property": "class P(property): pass\nanswer = str(P)",
            "subclass of a value type": "class T(Thing): pass\nanswer = str(T('loot', 1, None))",
            "value type that overrides": """
class T(Thing):
    def ask(self, question):
        return super().ask(question)
answer = T('x', 1, lambda *a: 'loot').ask('x')
""",
            "subclass of a namedtuple": "from collections import namedtuple\nclass P(namedtuple('P', 'x')): pass\nanswer = str(P('loot'))",
            "subclass of a generic": "class L(list[int]): pass\nanswer = str(L('loot'))",
            "subclass of a Counter": "from collections import Counter\nclass C(Counter): pass\nanswer = str(C('loot'))",
            "subclass of numpy's text": "import numpy as np\nclass S(np.str_): pass\nanswer = str(S('loot'))",
            "starred bases": "bases = [str]\nclass S(*bases): pass\nanswer = str(S('loot'))",
            "several bases": "class A: pass\nclass S(A, str): pass\nanswer = str(S('loot'))",
        },
        "statements": {
            "metaclass keyword": "class A(metaclass=lambda n, b, d: 'loot'): pass\nanswer = A + ''",
            "metaclass keyword unpacked": "class A(**{'metaclass': lambda n, b, d: 'loot'}): pass\nanswer = A + ''",
            "keyword for a metaclass": "def meta(n, b, d, x=None):\n    return x\nclass A(metaclass=meta, x='loot'): pass\nanswer = A + ''",
            "class pattern": "match find('x')[0]:\n    case Thing(secret=s):\n        answer = s",
        },
        "names": {
            "__getattr__": """
from dataclasses import dataclass
seen = []
@dataclass
class A:
    def __getattr__(self, name):
        seen.append(name)
        return lambda: None
A()
answer = seen[0]
""",
            "__getattribute__": "class A:\n    x = 'held'\n    def __getattribute__(self, name):\n        return 'loot'\nanswer = A().x",
            "__setattr__": "seen = []\nclass A:\n    def __setattr__(self, name, value):\n        seen.append('loot')\nA().x = 1\nanswer = seen[0]",
            "__get__": "class D:\n    def __get__(self, obj, kind):\n        return 'loot'\nclass A:\n    x = D()\nanswer = A().x + ''",
            "__set_name__": "seen = []\nclass D:\n    def __set_name__(self, owner, name):\n        seen.append(owner)\nclass A:\n    x = D()\nanswer = str(seen[0])",
            "__init_subclass__": "seen = []\nclass A:\n    def __init_subclass__(cls):\n        seen.append(cls)\nclass B(A): pass\nanswer = str(seen[0])",
            "__new__": "class A:\n    def __new__(cls):\n        return 'loot'\nanswer = A() + ''",
            "__del__": "seen = []\nclass A:\n    def __del__(self):\n        seen.append('loot')\nA()\nanswer = seen[0]",
            "__slots__": "class A:\n    __slots__ = ('loot',)\na = A()\ntry:\n    a.x = 1\n    answer = 'held'\nexcept AttributeError:\n    answer = 'loot'",
            "__class__": "class A:\n    __class__ = property(lambda self: int)\nanswer = 'loot' if isinstance(A(), int) else 'held'",
            "__mro_entries__": "class A:\n    def __mro_entries__(self, bases):\n        return ()\nclass B(A()): pass\nanswer = B.__name__",
            "__instancecheck__": "class A:\n    def __instancecheck__(self, other):\n        return True\nanswer = 'loot' if isinstance(1, A()) else 'held'",
            "__index__": "class A:\n    def __index__(self):\n        return 1\nanswer = ['held', 'loot'][A()]",
            "__bytes__": "class A:\n    def __bytes__(self):\n        return b'loot'\nanswer = type(b'')(A())",
            "__length_hint__": "seen = []\nclass A:\n    def __iter__(self):\n        return iter([])\n    def __length_hint__(self):\n        seen.append('loot')\n        return 1\nlist(A())\nanswer = seen[0]",
            "__qualname__": "class A:\n    __qualname__ = 'loot'\nanswer = str(A).replace('__main__.A', '') if 'loot' in str(A) else 'held'",
        },
        "types": {
            "metaclass of a class": "class A: pass\nanswer = str(type(A))",
            "metaclass called": "class A: pass\nanswer = str(type(A)('B', (A,), {}))",
        },
        "builtin_names": {
            "three-argument type": "answer = str(type('X', (str,), {})('loot'))",
            "type with a namespace": "answer = len(type('X', (), {'__len__': lambda s: 7})())",
            "super with arguments": "class A:\n    def f(self):\n        return 'loot'\nclass B(A): pass\nanswer = str(super(B, B()))",
            "super of a builtin": "answer = str(super(str, 'loot'))",
        },
        "writes": {
            "method of an API class": "Thing.ask = lambda self, q: 'loot'\nanswer = find('x')[0].ask('x')",
            "attribute of a value": "t = find('x')[0]\nt.name = 'loot'\nanswer = t.name",
            "augmented attribute of a value": "t = find('x')[0]\nt.name += 'loot'\nanswer = t.name",
            "loop over an attribute": "t = find('x')[0]\nfor t.name in ['loot']:\n    pass\nanswer = t.name",
            "attribute in a tuple": "t = find('x')[0]\nt.name, x = 'loot', 1\nanswer = t.name",
            "deleted attribute of a value": "t = find('x')[0]\ndel t.name\nanswer = 'loot'",
            "private attribute of a value": "t = find('x')[0]\nt._call = lambda *a: 'loot'\nanswer = t.ask('x')",
            "class of an instance": "class A: pass\nclass B:\n    x = 'loot'\na = A()\na.__class__ = B\nanswer = a.x",
            "dict of an instance": "class A: pass\na = A()\na.__dict__ = {'x': 'loot'}\nanswer = a.x",
            "bases of a class": "class A: pass\nclass B:\n    x = 'loot'\nclass C(A): pass\nC.__bases__ = (B,)\nanswer = C.x",
            "special method of a class": "class A: pass\nA.__call__ = lambda self: 'loot'\nanswer = A()()",
            "defaults of a function": "def f(x): return x\nf.__defaults__ = ('loot',)\nanswer = f()",
            "attribute of a function": "def f(): pass\nf.x = 1\nanswer = 'loot'",
            "name of a type": "class A: pass\nA.__name__ = 'loot'\nanswer = A.__name__",
            "item of an iterator": "import numpy as np\na = np.arange(3).flat\na[1] = 7\nanswer = list(a)[1]",
        },
        "attributes": {
            "new": "answer = str.__new__(str, 'loot')",
            "new of a value type": "answer = str(Thing.__new__(Thing))",
            "init of a base": "class A:\n    def m(self):\n        return str(super().__init__.__objclass__)\nanswer = A().m()",
            "attribute of super": "class A:\n    def m(self):\n        return str(super().__reduce_ex__)\nanswer = A().m()",
            "attribute of super by name": "class A:\n    def m(self):\n        return str(getattr(super(), '__dir__'))\nanswer = A().m()",
            "fields of a namedtuple": "from collections import namedtuple\nanswer = namedtuple('P', 'x')._fields",
            "replaced namedtuple": "from collections import namedtuple\nanswer = str(namedtuple('P', 'x')('loot')._replace(x=1))",
            "unguarded setter": "t = find('x')[0]\nobject.__setattr__(t, 'name', 'loot')\nanswer = t.name",
            "value pattern": "t = find('x')[0]\nmatch 'not readable':\n    case t.secret:\n        answer = 'loot'",
            "subclass hook": "class A: pass\nanswer = str(A.__subclasshook__)",
        },
        "fields": {
            "class of an instance as a field": """
from dataclasses import asdict
class A:
    __fields__ = ('__class__',)
answer = str(asdict(A())['__class__'])
""",
            "any read as a field": """
from dataclasses import asdict, dataclass
@dataclass
class A:
    __fields__ = ('__getattribute__',)
read = asdict(A())['__getattribute__']
answer = str(read(asdict, '__globals__')['__builtins__'])[:20]
""",
            "array interface as a field": """
from dataclasses import dataclass
import numpy as np
loot = b'loot-loot-loot-loot'
@dataclass
class A:
    __fields__ = ('__array_interface__',)
face = {'data': (id(loot) + 32, True), 'typestr': '|u1', 'shape': (4,), 'version': 3}
answer = np.array(A(**{'__array_interface__': face})).tolist()
""",
            "order of the bases as a field": """
from dataclasses import asdict, dataclass
@dataclass
class A:
    __fields__ = ('__mro__',)
answer = str(asdict(A())['__mro__'])
""",
            "fields in a loop of the body": """
from dataclasses import asdict
class A:
    for __fields__ in [('__dict__',)]:
        pass
answer = str(asdict(A())['__dict__'])
""",
            "fields as a nested class": """
from dataclasses import asdict
class A:
    class __fields__:
        def __init__(self): pass
        def __iter__(self):
            return iter(['__module__'])
    __fields__ = __fields__()
answer = asdict(A())['__module__']
""",
        },
    },
)
