"""Names that are made at run time and handed to whatever takes a name."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from tests.sandbox.abuse.case import cases

CASES = cases(
    "dunder strings",
    {
        "attributes": {
            "literal": "answer = str(getattr('', '__class__'))",
            "joined": "answer = str(getattr('', '__' + 'class' + '__'))",
            "from numbers": "answer = str(getattr('', ''.join(map(chr, [95, 95, 99, 108, 97, 115, 115, 95, 95]))))",
            "formatted": "answer = str(getattr('', '{0}class{0}'.format('__')))",
            "decoded": "answer = str(getattr('', b'__class__'.decode()))",
            "from JSON": "import json\nanswer = str(getattr('', json.loads('\"\\\\u005f_class__\"')))",
            "from an error": """
try:
    {}['__class__']
except KeyError as error:
    answer = str(getattr('', error.args[0]))
""",
            "on a type": "answer = len(getattr(str, 'mro')())",
            "with a default": "loot = getattr('', '__class__', None)\nanswer = str(loot) if loot else 'held'",
            "asked for": "answer = 'loot' if hasattr(find('x')[0], 'secret') else 'held'",
            "private name": "answer = str(getattr(find('x')[0], '_call'))",
            "by map": "answer = str(list(map(getattr, [find('x')[0]], ['secret'])))",
            "by starmap": "from itertools import starmap\nanswer = str(list(starmap(getattr, [(find('x')[0], 'secret')])))",
            "by reduce": "from functools import reduce\nanswer = str(reduce(getattr, ['__class__', '__base__'], 1))",
            "by partial": "from functools import partial\nanswer = partial(getattr, find('x')[0])('secret')",
            "as a sort key": """
from functools import partial
names = ['secret', 'name']
names.sort(key=partial(getattr, find('x')[0]))
answer = ''.join(names)
""",
            "as a cached function": "from functools import lru_cache\nanswer = lru_cache(getattr)(find('x')[0], 'secret')",
            "as a property": """
class A:
    loot = property(lambda self: getattr(find('x')[0], 'secret'))
answer = A().loot
""",
            "attrgetter": "from operator import attrgetter\nanswer = str(attrgetter('__class__')(1))",
            "attrgetter with dots": "from operator import attrgetter\nanswer = str(attrgetter('real.__class__')(1))",
            "attrgetter of several": "from operator import attrgetter\nanswer = str(attrgetter('real', 'mro')(int))",
            "attrgetter as a key": "from operator import attrgetter\nanswer = max([find('x')[0]], key=attrgetter('secret')).name",
            "in a comprehension": "found = [getattr(find('x')[0], n, None) for n in ('a', 'secret')]\nanswer = found[1] or 'held'",
            "numpy string": "import numpy as np\nanswer = getattr(find('x')[0], np.str_('secret'))",
            "wide underscores": "answer = str(int._\uff3fmro_\uff3f)",
        },
        "writes": {
            "setattr on a value": "t = find('x')[0]\nsetattr(t, 'name', 'loot')\nanswer = t.name",
            "setattr private": "t = find('x')[0]\nsetattr(t, '_call', lambda *a: 'loot')\nanswer = t.ask('x')",
            "setattr on an API class": "setattr(Thing, 'ask', lambda self, q: 'loot')\nanswer = find('x')[0].ask('x')",
            "setattr special": "class A: pass\nsetattr(A, '__len__', lambda self: 7)\nanswer = len(A())",
            "setattr array interface": """
import numpy as np
class A: pass
loot = b'loot-loot-loot-loot'
setattr(A, '__array_interface__', {'data': (id(loot) + 32, True), 'typestr': '|u1', 'shape': (4,), 'version': 3})
answer = np.array(A()).tolist()
""",
            "setattr by map": "t = find('x')[0]\nlist(map(setattr, [t], ['name'], ['loot']))\nanswer = t.name",
            "renamed name by setattr": "class A:\n    _x = 'held'\nsetattr(A, 'under0_x', 'loot')\nanswer = A._x",
            "delattr on a value": "t = find('x')[0]\ndelattr(t, 'name')\nanswer = 'loot'",
            "delattr special": "class A:\n    def __init__(self): pass\ndelattr(A, '__init__')\nanswer = 'loot'",
        },
    },
)
