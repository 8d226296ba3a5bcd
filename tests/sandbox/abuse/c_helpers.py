"""Functions written in C, or by others, that call, read or build things on their own."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from tests.sandbox.abuse.case import cases

CASES = cases(
    "C helpers",
    {
        "attributes": {
            "function of a partial": "from functools import partial\nanswer = str(partial(find).func.__globals__)[:20]",
            "object of a comparison key": "from functools import cmp_to_key\nanswer = cmp_to_key(lambda a, b: 0)('loot').obj",
            "function behind a cache": "from functools import lru_cache\n@lru_cache\ndef f(): pass\nanswer = str(f.__wrapped__)",
            "parameters of a cache": "from functools import lru_cache\n@lru_cache\ndef f(): pass\nanswer = str(f.cache_parameters())",
            "closure of a replaced helper": "from functools import wraps\nanswer = str(wraps.__code__)",
            "globals of a replaced helper": "from copy import deepcopy\nanswer = len(deepcopy.__globals__)",
            "globals of a library's function": "import heapq\nanswer = len(heapq.nlargest.__globals__)",
            "factory of a defaultdict": "from collections import defaultdict\nanswer = str(defaultdict(find).default_factory)",
            "missing key by hand": "from collections import Counter\nanswer = Counter.__missing__(Counter(), 'loot')",
            "reduction of a deque": "from collections import deque\nanswer = str(deque('loot').__reduce__())",
            "scanner of a pattern": "import re\nanswer = str(re.compile('a').scanner('loot'))",
            "state of a random source": "import random\nanswer = str(random.Random(1).getstate())[:20]",
            "source behind a function": "import random\nanswer = str(random.choice.__self__)",
            "number from bytes": "answer = int.from_bytes(b'loot')",
            "bytes from text": "answer = type(b'').fromhex('6c6f6f74')",
            "code of a comprehension": "answer = str((lambda: [x for x in 'loot']).__code__.co_consts)",
            "reduce over a path": "from functools import reduce\nanswer = str(reduce(getattr, ['ask', '__func__', '__globals__'], find('x')[0]))[:20]",
            "attrgetter in accumulate": "from itertools import accumulate\nanswer = str(list(accumulate([find('x')[0], 'secret'], getattr))[1])",
            "attrgetter in groupby": "from itertools import groupby\nfrom operator import attrgetter\nanswer = [k for k, g in groupby(find('x'), attrgetter('secret'))]",
            "filter by a hidden attribute": "from operator import attrgetter\nanswer = len(list(filter(attrgetter('secret'), find('x')))) or 'held'",
            "iterator's callback": "answer = str(iter(lambda: 1, 2).__reduce__())",
            "bound method of a class": "answer = str(dict.fromkeys.__self__)",
        },
        "imports": {
            "object_hook": "import json\nanswer = json.loads('{\"a\": 1}', object_hook=lambda d: 'loot')",
            "encoder class": "import json\nanswer = str(json.JSONEncoder)",
            "parse_constant": "import json\nanswer = json.loads('NaN', parse_constant=lambda text: 'loot')",
            "re.Scanner": "from re import Scanner\nanswer = str(Scanner([('a', lambda s, t: s)]))",
            "singledispatch": "from functools import singledispatch\nanswer = str(singledispatch(find))",
            "wraps": "from functools import wraps\ndef g(): pass\ng2 = wraps(find)(g)\nanswer = g2.__name__ if g2.__name__ == 'find' else 'held'",
            "setitem": "from operator import setitem\nanswer = str(setitem)",
            "index": "from operator import call\nanswer = call(lambda: 'loot')",
            "ChainMap": "from collections import ChainMap\nanswer = str(ChainMap({'a': 'loot'}))",
            "renamed fields": "from collections import namedtuple\nanswer = str(namedtuple('P', ['__class__'], rename=True))",
            "module of a namedtuple": "from collections import namedtuple\nanswer = str(namedtuple('P', 'x', module='os'))",
            "SystemRandom": "from random import SystemRandom\nanswer = str(SystemRandom)",
            "forward reference": "from typing import ForwardRef\nanswer = str(ForwardRef('find'))",
            "made dataclass": "from dataclasses import make_dataclass\nanswer = str(make_dataclass('P', ['x']))",
            "dataclass of an API class": "from dataclasses import dataclass\nanswer = str(dataclass(Thing))",
        },
        "builtin_names": {
            "eval by map": "answer = list(map(eval, ['6 * 7']))",
            "eval as a key": "answer = max(['1', '6 * 7'], key=eval)",
            "exec by filter": "answer = [list(filter(exec, ['x = 1'])), 'loot'][1]",
            "compile by partial": "from functools import partial\nanswer = str(partial(compile, mode='eval', filename='')('1'))",
            "vars by map": "class A: pass\nanswer = str(list(map(vars, [A])))",
            "file of print": "seen = []\nclass W:\n    def write(self, text):\n        seen.append(text)\nprint('loot', file=W())\nanswer = seen[0]",
            "input by iter": "answer = str(iter(input, ''))",
        },
        "writes": {
            "setattr by partial": "from functools import partial\nt = find('x')[0]\npartial(setattr, t, 'name')('loot')\nanswer = t.name",
            "setattr by starmap": "from itertools import starmap\nt = find('x')[0]\nlist(starmap(setattr, [(t, 'name', 'loot')]))\nanswer = t.name",
            "setattr in a replacement": "import re\nt = find('x')[0]\nre.sub('a', lambda m: setattr(t, 'name', 'loot') or '', 'a')\nanswer = t.name",
        },
        # Refused by Python's own checks, which are no guard of ours: they stand here so that a
        # change of Python shows.
        None: {
            "code in a field name": "from collections import namedtuple\nanswer = str(namedtuple('P', ['x=find', 'y']))",
            "code in a class name": "from collections import namedtuple\nanswer = str(namedtuple('P(): pass\\nx = 1', 'x'))",
            "keyword as a field": "from collections import namedtuple\nanswer = str(namedtuple('P', ['def']))",
            "text of numpy as a field": "import numpy as np\nfrom collections import namedtuple\nclass T:\n    def __str__(self):\n        return np.str_('x')\nanswer = str(namedtuple('P', [T()]))",
            "special field": "from collections import namedtuple\nanswer = str(namedtuple('P', ['__class__']))",
            "attribute protocol of int": "class A:\n    def __call__(self):\n        return 1\nanswer = int.bit_length(A())",
            "foreign method": "answer = str.join(b'', ['loot'])",
            "insertion into a tuple": "import bisect\nt = (1, 3)\nbisect.insort(t, 2)\nanswer = str(t)",
            "shuffled tuple": "import random\nt = (1, 3)\nrandom.shuffle(t)\nanswer = str(t)",
        },
    },
)
