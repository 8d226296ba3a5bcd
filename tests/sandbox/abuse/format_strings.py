"""Field names inside format strings read attributes and items by themselves."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from tests.sandbox.abuse.case import cases

CASES = cases(
    "format strings",
    {
        "formatter": {
            "attribute": "answer = '{0.__class__}'.format(1)",
            "attribute without a number": "answer = '{.__class__}'.format(1)",
            "attribute of a keyword": "answer = '{a.__class__}'.format(a=1)",
            "attribute that is not listed": "answer = '{0.secret}'.format(find('x')[0])",
            "attribute behind an item": "answer = '{0[0].secret}'.format([find('x')[0]])",
            "attribute behind a key": "answer = '{0[a].secret}'.format({'a': find('x')[0]})",
            "item of what has no items for programs": "import numpy as np\nanswer = '{0[a]}'.format(np.zeros(1, dtype=[('a', 'i4')])[0])",
            "nested in the format": "answer = '{0:{1.__doc__:.1}>5}'.format(1, 2)",
            "in the width": "answer = '{0:{1.secret!r:.0}>9}'.format('loot', find('x')[0])",
            "from a mapping": "answer = '{a.__class__}'.format_map({'a': 1})",
            "from a mapping of the program's own": """
class Map:
    def __getitem__(self, key):
        return find('x')[0]
    def __contains__(self, key):
        return True
answer = '{any.secret}'.format_map(Map())
""",
            "frame of a generator": "answer = '{0.gi_frame}'.format(x for x in [])",
            "method got by name": "answer = getattr('{0.__class__}', 'format')(1)",
            "method got by attrgetter": "from operator import attrgetter\nanswer = attrgetter('format')('{0.__class__}')(1)",
            "method kept for later": "doors = ['{0.__class__}'.format]\nanswer = doors[0](1)",
            "method by map": "answer = list(map('{0.secret}'.format, find('x')))",
            "method by partial": "from functools import partial\nanswer = partial('{0.__class__}'.format, 1)()",
            "method as a replacement": "import re\nanswer = re.sub('a', '{0.re.scanner}'.format, 'a')",
            "template put together": "answer = ('{0.__cl' + 'ass__}').format(1)",
            "template from data": "import json\nanswer = json.loads('[\"{0.__class__}\"]')[0].format(1)",
            "swallowed": """
try:
    answer = '{0.secret}'.format(find('x')[0])
except:
    answer = 'held'
""",
            "printed": "print('LOOT {0.secret}'.format(find('x')[0]))\n1 / 0",
        },
        "attributes": {
            "unbound": "answer = str.format('{0.__class__}', 1)",
            "unbound format_map": "answer = str.format_map('{a.__class__}', {'a': 1})",
            "unbound by map": "answer = list(map(str.format, ['{0.__class__}'], [1]))",
            "unbound by name": "answer = getattr(str, 'format')('{0.__class__}', 1)",
            "numpy string": "import numpy as np\nanswer = np.str_('{0.__class__}').format(1)",
            "f-string": "answer = f'{(1).__dir__()}'",
            "f-string format": "answer = f'{1:{find(\"x\")[0].secret!r:.0}>3}'",
            "f-string with equals": "t = find('x')[0]\nanswer = f'{t.secret=}'",
        },
        "imports": {
            "string.Formatter": "import string\nanswer = str(string.Formatter)",
            "imported Formatter": "from string import Formatter\nanswer = str(Formatter())",
            "string.Template": "from string import Template\nanswer = str(Template)",
            "parser of field names": "from string import _string as parser\nanswer = str(parser)",
        },
    },
)
