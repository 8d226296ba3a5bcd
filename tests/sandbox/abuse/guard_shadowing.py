"""Names of the guards and of what Python looks up by itself, bound or read by a program."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from tests.sandbox.abuse.case import cases

CASES = cases(
    "guard shadowing",
    {
        "names": {
            "assigned": "_getattr_ = lambda o, n: 'loot'\nanswer = ''.upper",
            "assigned in a function": "def f():\n    _getattr_ = lambda o, n: 'loot'\n    return ''.upper\nanswer = f()",
            "argument": "def f(_getattr_):\n    return ''.upper\nanswer = f(lambda o, n: 'loot')",
            "positional-only argument": "def f(_getattr_, /):\n    return ''.upper\nanswer = f(lambda o, n: 'loot')",
            "keyword-only argument": "def f(*, _getattr_=lambda o, n: 'loot'):\n    return ''.upper\nanswer = f()",
            "lambda argument": "answer = (lambda _getattr_: ''.upper)(lambda o, n: 'loot')",
            "default of a lambda": "answer = (lambda x, _getattr_=lambda o, n: 'loot': x.upper)('')",
            "loop variable": "for _getattr_ in [lambda o, n: 'loot']:\n    answer = ''.upper",
            "comprehension variable": "answer = [''.upper for _getattr_ in [lambda o, n: 'loot']]",
            "walrus": "(_getattr_ := lambda o, n: 'loot')\nanswer = ''.upper",
            "function": "def _getattr_(o, n):\n    return 'loot'\nanswer = ''.upper",
            "class": "class _import_:\n    def __init__(self, name, whole):\n        self.sep = 'loot'\nimport os\nanswer = os.sep",
            "import with a name": "from math import gcd as _pow_\nanswer = 12 ** (18 << 20)",
            "global": "def f():\n    global _getattr_\n    _getattr_ = lambda o, n: 'loot'\nf()\nanswer = ''.upper",
            "nonlocal": """
def f():
    _getattr_ = 1
    def g():
        nonlocal _getattr_
        _getattr_ = lambda o, n: 'loot'
    g()
    return ''.upper
answer = f()
""",
            "caught exception": "class E(Exception):\n    def __call__(self, o, n):\n        return 'loot'\ntry:\n    raise E()\nexcept E as _getattr_:\n    answer = ''.upper",
            "captured by match": "match [lambda o, n: 'loot']:\n    case [_getattr_]:\n        answer = ''.upper",
            "rest captured by match": "match ['loot']:\n    case [*_getitem_]:\n        answer = str(_write_item_)",
            "deleted": "del _getattr_\nanswer = 'loot'",
            "read": "answer = str([_pow_])",
            "in a class": "class A:\n    _getattr_ = lambda o, n: 'loot'\n    x = ''.upper\nanswer = A.x",
            "import guard": "_import_from_ = lambda module, names: ('loot',)\nfrom os import sep\nanswer = sep",
            "item guard": "_getitem_ = lambda o, k: 'loot'\nanswer = [1][0] + 'x'",
            "write guard": "_write_attr_ = lambda o: o\nt = find('x')[0]\nt.name = 'loot'\nanswer = t.name",
            "item write guard": "_write_item_ = lambda o: o\nimport numpy as np\na = np.arange(3).flat\na[0] = 7\nanswer = list(a)[0]",
            "type guard": "_type_ = lambda o: 'loot'\nanswer = (1).__class__ + ''",
            "power guard": "_pow_ = lambda a, b: 'loot'\nanswer = 10 ** 10 ** 10",
            "augmented item guard": "_aug_item_ = lambda *a: None\nx = (1,)\nx[0] += 1\nanswer = 'loot'",
            "super guard": """
_super_ = lambda cls, obj: 'loot'
class A:
    def m(self):
        return super()
answer = A().m() + ''
""",
            "metaclass": """
__metaclass__ = lambda name, bases, namespace: 'loot'
class A: pass
answer = A + ''
""",
            "metaclass in a class": """
class A:
    __metaclass__ = lambda name, bases, namespace: 'loot'
    class B: pass
answer = A.B + ''
""",
            "metaclass read": "answer = str(__metaclass__)",
            "builtins changed": "__builtins__['len'] = lambda x: 'loot'\nanswer = len([])",
            "build_class": "answer = str(__build_class__(lambda: None, 'A', str))",
            "class cell": """
class A:
    def m(self):
        return __class__
answer = str(A().m())
""",
            "other alphabet": "_\uff47etattr_ = lambda o, n: 'loot'\nanswer = ''.upper",
            "reserved prefix": "under0_getattr_ = 1\nanswer = 1",
            "reserved prefix as an argument": "def f(under0_x):\n    return 1\nanswer = f(1)",
            "reserved prefix as a keyword": "def f(**k):\n    return str(k)\nanswer = f(under0_x=1)",
            "reserved prefix in an import": "import math as under0_x\nanswer = 1",
            "reserved prefix as a function": "def under0_f():\n    return 1\nanswer = under0_f()",
            "reserved prefix as global": "def f():\n    global under0_x\n    under0_x = 1\nf()\nanswer = 1",
        },
        "attributes": {
            "reserved prefix as an attribute": "class A:\n    _x = 'loot'\nanswer = A.under0_x",
            "reserved prefix by name": "class A:\n    _x = 'loot'\nanswer = getattr(A, 'under0_x')",
        },
        "builtin_names": {
            "among the globals": "globals()['_getattr_'] = lambda o, n: 'loot'\nanswer = ''.upper"
        },
        "writes": {"on a function": "find.name = 'loot'\nanswer = 'loot'"},
    },
)
