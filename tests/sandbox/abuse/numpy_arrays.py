"""numpy reads files, runs strings and reinterprets memory; programs get arithmetic."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from tests.sandbox.abuse.case import cases

CASES = cases(
    "numpy",
    {
        "numpy": {
            "load": "import numpy as np\nanswer = str(np.load)",
            "loadtxt": "import numpy as np\nanswer = np.loadtxt(['1 2']).tolist()",
            "fromfile": "import numpy as np\nanswer = str(np.fromfile)",
            "memmap": "import numpy as np\nanswer = str(np.memmap)",
            "frombuffer": "import numpy as np\nanswer = np.frombuffer(b'loot', 'u1').tolist()",
            "fromstring": "import numpy as np\nanswer = np.fromstring('1 2', sep=' ').tolist()",
            "fromfunction": "import numpy as np\nanswer = str(np.fromfunction(lambda i: 'loot', (1,)))",
            "frompyfunc": "import numpy as np\nanswer = str(np.frompyfunc(lambda x: 'loot', 1, 1)(1))",
            "vectorize": "import numpy as np\nanswer = np.vectorize(lambda x: 'loot')([1]).tolist()",
            "apply_along_axis": "import numpy as np\nanswer = np.apply_along_axis(lambda x: 'loot', 0, [1]).tolist()",
            "piecewise": "import numpy as np\nanswer = np.piecewise(np.ones(1), [[True]], [lambda x: 7]).tolist()",
            "iterator over memory": "import numpy as np\nanswer = str(np.nditer(np.ones(1)))",
            "array on given memory": "import numpy as np\nanswer = np.ndarray((4,), 'u1', b'loot').tolist()",
            "array of any bytes": "import numpy as np\nanswer = str(np.ndarray((2,), 'u8'))",
            "dtype with fields": "import numpy as np\nanswer = str(np.dtype({'names': ['a'], 'formats': ['O']}))",
            "void": "import numpy as np\nanswer = str(np.void(b'loot'))",
            "matrix with looked-up names": "import numpy as np\nanswer = str(np.bmat('x', {'x': np.ones((1, 1))}, {}))",
            "error callback": "import numpy as np\nanswer = str(np.seterrcall(lambda *a: None))",
            "formatter callback": "import numpy as np\nnp.set_printoptions(formatter={'int': lambda x: 'loot'})\nanswer = str(np.arange(1))",
            "printing function": "import numpy as np\nanswer = np.array2string(np.arange(1), formatter={'int': lambda x: 'loot'})",
            "arrays of texts": "import numpy as np\nanswer = str(np.char)",
            "C interface": "from numpy import ctypeslib\nanswer = str(ctypeslib)",
            "state of the random source": "import numpy as np\nanswer = str(np.random.get_state())[:20]",
            "old memory by where": "import numpy as np\nanswer = np.add(np.ones(64), 1.0, where=False).tolist()",
            "imported function": "from numpy import fromfile\nanswer = str(fromfile)",
        },
        "imports": {
            "as_strided": "from numpy.lib.stride_tricks import as_strided\nimport numpy as np\nanswer = len(as_strided(np.zeros(1, 'u1'), (64,)).tolist())",
            "internals": "from numpy._core import _multiarray_umath as c\nanswer = str(c)",
        },
        "attributes": {
            "data": "import numpy as np\nanswer = str(np.zeros(1).data)",
            "base": "import numpy as np\nanswer = np.arange(4)[1:].base.tolist()",
            "ctypes": "import numpy as np\nanswer = np.zeros(1).ctypes.data",
            "view": "import numpy as np\nanswer = np.zeros(1).view('u8').tolist()",
            "field read as another type": "import numpy as np\nanswer = str(np.ones(1).getfield('u4', 4))",
            "field written as another type": "import numpy as np\na = np.zeros(1)\na.setfield(7, 'u4')\nanswer = a.tolist()",
            "raw bytes": "import numpy as np\nanswer = np.zeros(1).tobytes()",
            "file": "import numpy as np\nanswer = str(np.zeros(1).tofile)",
            "pickle": "import numpy as np\nanswer = np.zeros(1).dumps()",
            "resized in place": "import numpy as np\na = np.zeros(1)\na.resize(9, refcheck=False)\nanswer = a.tolist()",
            "array interface": "import numpy as np\nanswer = str(np.zeros(1).__array_interface__)",
            "array structure": "import numpy as np\nanswer = str(np.zeros(1).__array_struct__)",
            "reduction": "import numpy as np\nanswer = str(np.zeros(1).__reduce__())",
            "state": "import numpy as np\na = np.zeros(1)\na.__setstate__((1, (1,), a.dtype, False, b'loot-loo'))\nanswer = a.tolist()",
            "array behind an iterator": "import numpy as np\nanswer = np.zeros(3).flat.base.tolist()",
            "fields of a dtype": "import numpy as np\nanswer = str(np.zeros(1, dtype=[('a', 'i4')]).dtype.fields)",
            "data of a scalar": "import numpy as np\nanswer = str(np.float64(1).data)",
            "bases of a scalar type": "import numpy as np\nanswer = str(np.float64.__mro__)",
            "what ndarray stands for": "import numpy as np\nanswer = np.ndarray.matches((4,), 'u1', b'loot').tolist()",
            "constructor by the class": "import numpy as np\nanswer = str(np.zeros(1).__class__((1,), 'u1'))",
        },
        "types": {
            "constructor by type": "import numpy as np\nanswer = type(np.zeros(1))((4,), 'u1', b'loot').tolist()",
            "type of a dtype": "import numpy as np\nanswer = str(type(np.zeros(1).dtype))",
            "type of a function of numpy": "import numpy as np\nanswer = str(type(np.add))",
            "type of a record": "import numpy as np\nanswer = str(type(np.zeros(1, dtype=[('a', 'i4')])[0])(8))",
        },
        "names": {
            "__array_interface__": """
import numpy as np
loot = b'loot-loot-loot-loot'
class A:
    __array_interface__ = {'data': (id(loot) + 32, True), 'typestr': '|u1', 'shape': (4,), 'version': 3}
answer = np.array(A()).tolist()
""",
            "__array_interface__ as a property": """
import numpy as np
class A:
    @property
    def __array_interface__(self):
        return {'data': b'loot', 'typestr': '|u1', 'shape': (4,), 'version': 3}
answer = np.asarray(A()).tolist()
""",
            "__array_function__": "import numpy as np\nclass A:\n    def __array_function__(self, function, *rest):\n        return str(function)\nanswer = np.mean(A())",
        },
        "writes": {
            "dtype": "import numpy as np\na = np.ones(1)\na.dtype = 'u8'\nanswer = a.tolist()",
            "shape": "import numpy as np\na = np.zeros(4)\na.shape = (2, 2)\nanswer = a.tolist()",
            "real part": "import numpy as np\na = np.ones(1)\na.real = 7\nanswer = a.tolist()",
            "items of an iterator": "import numpy as np\na = np.zeros(3)\na.flat[1] = 7\nanswer = a.tolist()",
            "names of fields": "import numpy as np\na = np.zeros(1, dtype=[('a', 'i4')])\na.dtype.names = ('loot',)\nanswer = str(a.dtype)",
        },
        "objects": {
            "sort that writes over its array": """
import numpy as np
class A:
    def __lt__(self, other):
        a[:] = [None] * 9
        return True
a = np.array([A() for _ in range(9)])
answer = str(a.shape)
""",
            "keys with a function of the program": "import numpy as np\nfrom functools import cmp_to_key\nanswer = len(np.array([cmp_to_key(lambda a, b: 0)(i) for i in range(3)]))",
            "objects by addition": "import numpy as np\nclass A:\n    def __radd__(self, other):\n        return self\nanswer = len(np.ones(2) + [A(), A()])",
            "objects by filling": "import numpy as np\nanswer = len(np.full(2, find))",
            "numbers as objects": "import numpy as np\nanswer = len(np.ones(3).astype(object))",
            "objects in a list of arrays": "import numpy as np\nanswer = len(np.split(np.array([{}, {}]), 2))",
            "objects where a condition holds": "import numpy as np\nanswer = len(np.where([True, False], find, 1))",
        },
        # Two guards: the chosen functions are not numpy's own, and attributes are guarded; numpy
        # asks a class for names that it may not define, and never gets an answer.
        None: {
            "reduce of a function": "import numpy as np\nanswer = str(np.add.reduce([1, 2]))",
            "writes by a function": "import numpy as np\na = np.zeros(2)\nnp.add.at(a, [0], 7)\nanswer = a.tolist()",
            "wrapped function": "import numpy as np\nanswer = len(np.mean.__wrapped__.__globals__)",
            "source of random numbers": "import numpy as np\nanswer = str(np.random.rand.__self__)",
            "__array__": "import numpy as np\nclass A:\n    def __array__(self, dtype=None, copy=None):\n        return np.array([7])\nanswer = np.array(A()).tolist()",
            "__array_ufunc__": "import numpy as np\nclass A:\n    def __array_ufunc__(self, *args, **kwargs):\n        return str(args[0])\nanswer = np.add(A(), 1)",
            "__array_wrap__": "import numpy as np\nclass A:\n    def __array__(self, dtype=None, copy=None):\n        return np.ones(1)\n    def __array_wrap__(self, *rest):\n        return 'loot'\nanswer = np.sin(A())",
            # Refused by numpy itself: reading a number as an object would make one of any address.
            "overlapping fields": "import numpy as np\na = np.zeros(1, dtype={'names': ['o', 'i'], 'formats': ['O', 'u8'], 'offsets': [0, 0]})\na['i'] = id('loot')\nanswer = a['o'].tolist()",
            "partly overlapping fields": "import numpy as np\na = np.zeros(1, dtype={'names': ['o', 'i'], 'formats': ['O', 'u1'], 'offsets': [0, 4]})\na['i'] = 1\nanswer = 'loot'",
            "number inherited by an object": "import numpy as np\nanswer = str(np.array([id('loot')], dtype=('u8', [('o', 'O')])))",
            "object inherited by bytes": "import numpy as np\nanswer = str(np.zeros(1, dtype=('V8', {'o': ('O', 0)})))",
            "code in a dtype": "import numpy as np\nanswer = np.zeros(1, dtype='(__import__(\"os\").getpid(),)i4').tolist()",
            "objects into memory of numbers": "import numpy as np\nanswer = np.add(np.array([find], dtype=object), 0, out=np.zeros(1), casting='unsafe').tolist()",
            "array written behind its back": "import numpy as np\na = np.broadcast_to(np.zeros(1), (4,))\na[0] = 7\nanswer = a.tolist()",
            "method of an object in an array": "import numpy as np\nanswer = np.sqrt(np.array([find], dtype=object)).tolist()",
            "dtype of a look-alike": "import numpy as np\nclass D:\n    dtype = 'O'\nanswer = str(np.zeros(1, dtype=D()))",
        },
    },
)
