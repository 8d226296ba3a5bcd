"""Programs that try to get out; each must end in a failure and hand nothing over."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

import pytest

from viper.sandbox import Sandbox

ATTEMPTS: dict[str, str] = {
    # attribute walks
    "bases": "answer = ().__class__.__bases__",
    "subclasses": "answer = object.__subclasses__()",
    "mro": "answer = str.mro()",
    "globals of a function": "def f(): pass\nanswer = f.__globals__",
    "code of a function": "def f(): pass\nanswer = f.__code__",
    "self of a builtin": "answer = print.__self__",
    "module of len": "answer = len.__self__",
    "dict of an object": "class A: pass\nanswer = A().__dict__",
    "readable only by list": "answer = find('x')[0].secret",
    "private of a value": "answer = find('x')[0]._call",
    "method's function": "answer = find('x')[0].ask.__func__",
    "class of a class": "class A: pass\nanswer = A.__class__",
    "type of type": "answer = type(type(1))",
    # dunder strings
    "getattr string": "answer = getattr('', '__class__')",
    "getattr on a type": "answer = getattr(str, 'mro')",
    "joined name": "answer = getattr(1, '__' + 'class' + '__')",
    "str subclass as name": "class S(str): pass\nanswer = getattr(1, S('real'))",
    "attrgetter": "from operator import attrgetter\nanswer = attrgetter('__class__')(1)",
    "setattr on a value": "setattr(find('x')[0], 'name', 'y')\nanswer = 1",
    "setattr special": "class A: pass\nsetattr(A, '__array_interface__', {})\nanswer = 1",
    "attribute of a value": "find('x')[0].name = 'y'\nanswer = 1",
    # format strings
    "format attribute": "answer = '{0.__class__}'.format(1)",
    "format nested": "answer = '{0:{1.__class__}}'.format(1, 2)",
    "format unbound": "answer = str.format('{0.__class__}', 1)",
    "format_map attribute": "answer = '{a.__class__}'.format_map({'a': 1})",
    "format value": "answer = '{0.secret}'.format(find('x')[0])",
    "f-string attribute": "answer = f'{(1).__dict__}'",
    "string.Formatter": "import string\nanswer = string.Formatter().format('{0.__class__}', 1)",
    # frames, tracebacks and exceptions
    "generator frame": "g = (x for x in [1])\nanswer = g.gi_frame",
    "generator frame by string": "g = (x for x in [1])\nanswer = getattr(g, 'gi_frame')",
    "traceback": "try:\n    1/0\nexcept Exception as e:\n    answer = e.__traceback__",
    "traceback by method": "try:\n    1/0\nexcept Exception as e:\n    answer = e.with_traceback",
    "AttributeError.obj": "try:\n    [].x\nexcept AttributeError as e:\n    answer = e.obj",
    "NameError.name": "try:\n    zzz\nexcept NameError as e:\n    answer = e.name",
    "own exception obj": (
        "class E(AttributeError): pass\ntry:\n    raise E()\nexcept E as e:\n    answer = e.obj"
    ),
    "own exception traceback": (
        "class E(Exception): pass\ntry:\n    raise E()\nexcept E as e:\n    answer = e.with_traceback"
    ),
    "except star": "try:\n    pass\nexcept* ValueError:\n    pass\nanswer = 1",
    # imports
    "import os": "import os\nanswer = os",
    "import inside try": "try:\n    import subprocess\nexcept ValueError:\n    pass\nanswer = 1",
    "from sys": "from sys import modules\nanswer = modules",
    "import star": "from math import *\nanswer = 1",
    "relative": "from . import os\nanswer = os",
    "statistics.sys": "import statistics\nanswer = statistics.sys",
    "re.enum": "import re\nanswer = re.enum",
    "json.codecs": "import json\nanswer = json.codecs",
    "from json": "from json import codecs\nanswer = codecs",
    "typing.sys": "import typing\nanswer = typing.sys",
    "dataclasses.sys": "import dataclasses\nanswer = dataclasses.sys",
    "update_wrapper": "from functools import update_wrapper\nanswer = update_wrapper",
    "dunder import": "answer = __import__('os')",
    "builtins": "answer = __builtins__",
    "importlib": "import importlib\nanswer = 1",
    "module dict": "import math\nanswer = math.__dict__",
    "facade internals by import": "from math import _members as m\nanswer = m",
    "reserved name by setattr": "class A: pass\nsetattr(A, 'under0__fields__', ('__dict__',))\nanswer = 1",
    "reserved name by getattr": "class A: pass\nanswer = getattr(A(), 'under0__fields__', 0) + ''",
    "facade internals": "import math\nanswer = math._members",
    # hidden builtins
    "eval": "answer = eval('1')",
    "exec": "exec('answer = 1')",
    "compile": "answer = compile('1', '', 'eval')",
    "open": "answer = open('/etc/passwd').read()",
    "globals": "answer = globals()",
    "locals": "answer = locals()",
    "vars": "answer = vars()",
    "dir": "answer = dir()",
    "memoryview": "answer = memoryview(b'1')",
    "input": "answer = input()",
    "breakpoint": "breakpoint()\nanswer = 1",
    # guard shadowing
    "shadow a guard": "_getattr_ = lambda o, n: 1\nanswer = ''.__class__",
    "guard as argument": "def f(_getattr_):\n    return ''.__class__\nanswer = f(1)",
    "global guard": "def f():\n    global _write_item_\n    _write_item_ = 1\nf()\nanswer = _getattr_",
    "reserved prefix": "under0_getattr_ = 1\nanswer = 1",
    "metaclass name": "answer = __metaclass__",
    "import as a guard": "import math as _getattr_\nanswer = (1).__class__.x",
    # class tricks
    "subclass str": "class S(str): pass\nanswer = S('{0.__class__}').format(1)",
    "subclass a value": "class T(Thing): pass\nanswer = 1",
    "metaclass keyword": "class A(metaclass=int): pass\nanswer = 1",
    "three-argument type": "answer = type('X', (str,), {})",
    "type as base": "class M(type(int)): pass\nanswer = 1",
    "super of object": "answer = super(str, 'a')",
    "new": "answer = object.__new__(int)",
    "class pattern": "match find('x')[0]:\n    case Thing(secret=s):\n        answer = s",
    "value pattern": "match 1:\n    case Thing.__init__.__globals__:\n        answer = 1",
    "property getter": "answer = property(lambda s: 1).fget",
    # C helpers and numpy
    "str.join of types": "answer = ''.join.__self__.__class__",
    "partial attributes": "from functools import partial\nanswer = partial(len).func",
    "cmp_to_key obj": "from functools import cmp_to_key\nanswer = cmp_to_key(lambda a, b: 0)(1).obj",
    "lru wrapped": (
        "from functools import lru_cache\n@lru_cache\ndef f(): pass\nanswer = f.__wrapped__"
    ),
    "numpy load": "import numpy as np\nanswer = np.load('/etc/passwd')",
    "numpy fromfile": "import numpy as np\nanswer = np.fromfile('/etc/passwd')",
    "numpy ctypes": "import numpy as np\nanswer = np.zeros(1).ctypes",
    "numpy data": "import numpy as np\nanswer = np.zeros(1).data",
    "numpy base": "import numpy as np\nanswer = np.zeros(4)[1:].base",
    "numpy view": "import numpy as np\nanswer = np.zeros(1).view('O')",
    "numpy dtype assignment": "import numpy as np\na = np.zeros(1)\na.dtype = 'O'\nanswer = a",
    "numpy shape assignment": "import numpy as np\na = np.zeros(4)\na.shape = (9, 9)\nanswer = a",
    "numpy constructor": "import numpy as np\nanswer = np.ndarray((1,), dtype=object)",
    "numpy constructor by type": "import numpy as np\nanswer = type(np.zeros(1))((1,), dtype='O')",
    "numpy tofile": "import numpy as np\nnp.zeros(1).tofile('/tmp/x')\nanswer = 1",
    "numpy frombuffer": "import numpy as np\nanswer = np.frombuffer(b'12345678', dtype='O')",
    "numpy as_strided": "import numpy as np\nanswer = np.lib.stride_tricks.as_strided",
    "numpy f2py": "import numpy as np\nanswer = np.f2py",
    "numpy internals": "from numpy._core import _methods\nanswer = 1",
    "numpy setfield": "import numpy as np\nnp.zeros(1).setfield(1, 'O')\nanswer = 1",
    "numpy flat base": "import numpy as np\nanswer = np.zeros(3).flat.base",
    # not for programs at all
    "async": "async def f(): pass\nanswer = 1",
    "lambda returned": "answer = lambda: 1",
    "class returned": "class A: pass\nanswer = A()",
}


class OneThing:
    """Answers ``find`` with one thing."""

    def call(self, name: str, args: tuple, kwargs: dict, line: int | None) -> list:
        from viper.sandbox import Ref

        return [Ref("thing", ("x", 1.0))]


@pytest.mark.parametrize("name", ATTEMPTS)
def test_attempt_fails(name: str, sandbox: Sandbox) -> None:
    outcome = sandbox.run(ATTEMPTS[name], tools=OneThing())
    assert not outcome.ok
    assert outcome.value is None
    assert outcome.failure is not None
    assert outcome.failure.kind in ("forbidden", "runtime", "syntax", "return_type")
    assert outcome.failure.kind != "runtime" or outcome.failure.exception in (
        "AttributeError",
        "KeyError",
        "NameError",
        "TypeError",
        "ValueError",
    )
