"""What an exception carries: frames, live objects, other exceptions; and which can be caught."""

# ruff: noqa: E501 - a program is easier to read on its line
from __future__ import annotations

from tests.sandbox.abuse.case import cases

_GROUP = "exceptions"

_LANGUAGE = cases(
    _GROUP,
    {
        "attributes": {
            "traceback": "try:\n    1 / 0\nexcept Exception as e:\n    answer = str(e.__traceback__)",
            "traceback by name": "try:\n    1 / 0\nexcept Exception as e:\n    answer = str(getattr(e, '__traceback__'))",
            "frame of a traceback": "try:\n    1 / 0\nexcept Exception as e:\n    answer = str(e.__traceback__.tb_frame.f_globals)[:50]",
            "traceback put in": "answer = str(ValueError('x').with_traceback(None))",
            "traceback of an own exception": """
class E(Exception): pass
try:
    raise E()
except E as e:
    answer = str(e.with_traceback(None))
""",
            "frames inside trusted code": """
try:
    find(lambda: 1)
except TypeError as e:
    answer = str(e.__traceback__.tb_next.tb_frame.f_locals)[:50]
""",
            "object of an AttributeError": "try:\n    [].x\nexcept AttributeError as e:\n    answer = str(e.obj)",
            "object by name": "try:\n    getattr([], 'x')\nexcept AttributeError as e:\n    answer = str(getattr(e, 'obj'))",
            "object of a raised one": "answer = AttributeError('x', name='y', obj='loot').obj",
            "name of a NameError": "try:\n    zzz\nexcept NameError as e:\n    answer = e.name",
            "name of an ImportError": "try:\n    import zzz\nexcept ImportError as e:\n    answer = str(e.path) + str(e.name)",
            "bytes of a UnicodeError": "try:\n    b'\\xff'.decode()\nexcept ValueError as e:\n    answer = e.object",
            "file of a SyntaxError": "answer = str(SyntaxError('x', ('loot', 1, 2, 'text')).filename)",
            "file of an OSError": "answer = OSError(2, 'x', 'loot').filename",
            "context": """
try:
    try:
        1 / 0
    except ZeroDivisionError:
        [][0]
except IndexError as e:
    answer = str(e.__context__)
""",
            "cause": "try:\n    raise ValueError() from KeyError('loot')\nexcept ValueError as e:\n    answer = str(e.__cause__)",
            "notes": "try:\n    1 / 0\nexcept Exception as e:\n    e.add_note('loot')\n    answer = 'loot'",
            "dict": "try:\n    1 / 0\nexcept Exception as e:\n    answer = str(e.__dict__)",
            "reduction": "answer = str(ValueError('x').__reduce__())",
            "state": "e = ValueError('x')\ne.__setstate__({'a': 'loot'})\nanswer = e.a",
            "bases of a caught type": "try:\n    1 / 0\nexcept Exception as e:\n    answer = str(type(e).__mro__)",
            "subclasses of a caught type": "try:\n    1 / 0\nexcept Exception as e:\n    answer = len(type(e).mro()[-2].__subclasses__())",
            "inside of a tool's error": "try:\n    find(lambda: 1)\nexcept Exception as e:\n    answer = str(e.__init__.__self__)",
            "function named by an error of numpy": """
import numpy as np
try:
    np.add(np.array(['a']), np.array([1]))
except TypeError as e:
    answer = str(e.args[0].types)
""",
            "super of an own exception": """
class E(Exception):
    def take(self):
        return super().with_traceback
answer = str(E().take())
""",
        },
        "classes": {
            "subclass of AttributeError": "class E(AttributeError): pass\nanswer = str(E('loot'))",
            "subclass of OSError": "class E(OSError): pass\nanswer = str(E(2, 'loot'))",
            "subclass of StopIteration": "class E(StopIteration): pass\nanswer = E('loot').value",
            "subclass of a caught type": """
try:
    [].x
except Exception as e:
    class E(type(e)): pass
answer = str(E('loot'))
""",
        },
        "builtin_names": {
            "everything caught": "try:\n    1 / 0\nexcept BaseException:\n    answer = 'loot'",
            "SystemExit": "try:\n    raise SystemExit\nexcept SystemExit:\n    answer = 'loot'",
            "KeyboardInterrupt": "try:\n    raise KeyboardInterrupt\nexcept KeyboardInterrupt:\n    answer = 'loot'",
            "GeneratorExit": "answer = str(GeneratorExit)",
            "group of exceptions": "answer = str(ExceptionGroup('x', [ValueError('loot')]).args)",
            "group of everything": "answer = str(BaseExceptionGroup)",
            "OSError by another name": "answer = str(EnvironmentError)",
        },
        "statements": {
            "except star": "try:\n    raise ValueError('x')\nexcept* ValueError:\n    answer = 'loot'",
            "except star in a function": "def f():\n    try:\n        pass\n    except* (ValueError, TypeError) as e:\n        pass\n    return 'loot'\nanswer = f()",
        },
        "imports": {
            "exc_info": "import sys\ntry:\n    1 / 0\nexcept Exception:\n    answer = str(sys.exc_info()[2])",
            "last traceback": "import traceback\nanswer = str(traceback.TracebackException)",
            "traceback type": "from types import TracebackType\nanswer = str(TracebackType)",
            "hook": "import sys\nanswer = str(sys.excepthook)",
        },
    },
)

_TOOLS = cases(
    _GROUP,
    {
        "attributes": {
            "origin of a tool's error": "try:\n    find('refused')\nexcept Exception as e:\n    answer = e.origin"
        },
        # What a program says of a tool is taken for what it is: something a program says.
        None: {
            "forged tool error": """
try:
    find('refused')
except Exception as e:
    kind = type(e)
raise kind('no such thing', 'another tool', 99)
""",
            "tool error with objects inside": """
try:
    find('refused')
except Exception as e:
    kind = type(e)
raise kind('no such thing', [find], find)
""",
        },
    },
    frozenset(["tool", "forbidden"]),
)

CASES = _LANGUAGE + _TOOLS
