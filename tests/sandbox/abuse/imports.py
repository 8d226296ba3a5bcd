"""Modules, and modules inside modules."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from tests.sandbox.abuse.case import cases

CASES = cases(
    "imports",
    {
        "imports": {
            "os": "import os\nanswer = os.sep",
            "subprocess in a try": "try:\n    import subprocess\n    answer = str(subprocess.Popen)\nexcept ValueError:\n    pass",
            "swallowed": "try:\n    from os import sep as answer\nexcept ImportError:\n    answer = 'held'",
            "dotted with a name": "import os.path as p\nanswer = str(p.join)",
            "dotted": "import urllib.request\nanswer = str(urllib)",
            "in a function": "def f():\n    from shutil import rmtree\n    return str(rmtree)\nanswer = f()",
            "in a class": "class A:\n    from pathlib import Path as p\nanswer = str(A.p)",
            "one of several": "import math, socket\nanswer = str(socket.AF_INET)",
            "one name of several": "from math import pi, floor\nfrom io import StringIO, FileIO\nanswer = str(FileIO)",
            "relative": "from .os import sep\nanswer = sep",
            "modules of sys": "from sys import modules\nanswer = len(modules)",
            "rest of sys": "import sys\nanswer = str(sys.executable)",
            "importlib": "import importlib\nanswer = str(importlib.import_module)",
            "builtins": "import builtins\nanswer = str(builtins.eval)",
            "interactive interpreter": "import code\nanswer = str(code.InteractiveInterpreter)",
            "main module": "import __main__ as m\nanswer = str(m)",
            "C functions": "from ctypes import CDLL\nanswer = str(CDLL)",
            "pickle": "from pickle import loads\nanswer = str(loads)",
            "processes": "import multiprocessing\nanswer = str(multiprocessing.Process)",
            "types": "from types import CodeType, FunctionType\nanswer = str(CodeType)",
            "evaluated annotations": "from typing import get_type_hints\nanswer = str(get_type_hints)",
            "the sandbox itself": "from viper.sandbox import child\nanswer = str(child)",
            "the guards": "import viper.sandbox.guards as g\nanswer = str(g.Guards)",
            "the prelude": "import viper.api.prelude as p\nanswer = str(p.decode)",
            "statistics.sys": "import statistics\nanswer = str(statistics.sys)",
            "re.enum": "import re\nanswer = str(re.enum)",
            "json.codecs": "import json\nanswer = str(json.codecs)",
            "from json": "from json import codecs\nanswer = str(codecs)",
            "typing.sys": "import typing\nanswer = str(typing.sys)",
            "dataclasses.sys": "import dataclasses\nanswer = str(dataclasses.sys)",
            "random's os": "from random import _os as os\nanswer = str(os)",
            "numpy.f2py": "import numpy\nanswer = str(numpy.f2py)",
            "part of numpy with a name": "import numpy.ctypeslib as c\nanswer = str(c)",
            "functools.update_wrapper": """
from functools import update_wrapper
def f(): pass
def g(): pass
answer = str(update_wrapper(f, g, assigned=(), updated=('__globals__',)))
""",
            "operator.methodcaller": "from operator import methodcaller\nanswer = str(methodcaller('mro')(int))",
        },
        "attributes": {
            "class of a module": "import math\nanswer = str(math.__class__)",
            "members of a module": "import math\nanswer = str(math._members)[:50]",
            "member list by name": "import math\nanswer = str(getattr(math, '_members'))[:50]",
            "label of a module": "import math\nanswer = math._label",
        },
        "names": {
            "__import__": "answer = str(__import__('os'))",
            "__builtins__": "answer = len(__builtins__)",
            "__builtins__ in a class": "class A:\n    b = len(__builtins__)\nanswer = A.b",
            "__build_class__": "answer = str(__build_class__)",
        },
        "builtin_names": {
            "eval": "answer = eval('6 * 7')",
            "exec": "exec('answer = 42')",
            "exec in a dict": "d = {}\nexec('x = 42', d)\nanswer = d['x']",
            "compile": "answer = str(compile('1', '', 'eval'))",
            "open": "answer = str(open)",
            "input": "answer = str(input)",
            "memoryview": "answer = str(memoryview)",
            "bytearray": "answer = str(bytearray(b'loot'))",
        },
        # There is no rewritten import that could take all names of a module.
        None: {"star": "from math import *\nanswer = floor(2.5)"},
    },
)
