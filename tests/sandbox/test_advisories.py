"""RestrictedPython's published advisories, replayed against the sandbox.

The policy is built on RestrictedPython's transformer, so whatever got past it once is tried
here as it was published, except that the program leaves in ``answer`` what it reached.
All are fixed in the version in use; the guards of this sandbox would stop them without
that, and each advisory is also shown to get through where the guard that stops it is
taken away.

- CVE-2023-37271: a generator reads its own frame and walks up the stack out of the
  restricted code.
- CVE-2023-41039: the field names of ``str.format`` and ``format_map`` read attributes.
- CVE-2024-47532: ``AttributeError.obj`` and the ``string`` module hand out objects that
  the guards had refused.
- CVE-2025-22153: ``except*`` confuses types in CPython 3.11 to 3.13.1.
- CVE-2026-55830: a positional-only parameter shadows a guard.
- CVE-2026-76825: ``string.Formatter`` resolves fields past the guards and returns what it
  finds.
"""

from __future__ import annotations

import pytest

from tests.sandbox.abuse.case import Case, breach, cases
from tests.sandbox.abuse.stage import Stage

ADVISORIES = (
    *cases(
        "CVE-2023-37271",
        {
            "attributes": {
                "stack of a generator": """
def walk():
    yield g.gi_frame.f_back.f_back
g = walk()
frames = [frame for frame in g]
answer = str(frames[0].f_globals)[:50]
""",
                "stack of a generator expression": """
g = (g.gi_frame.f_back.f_back.f_builtins for x in [1])
answer = str([found for found in g][0])[:50]
""",
                "stack walked to its end": """
def walk():
    frame = g.gi_frame.f_back
    while frame.f_back:
        frame = frame.f_back
    yield frame
g = walk()
answer = str([frame.f_code for frame in g])
""",
            }
        },
    ),
    *cases(
        "CVE-2023-41039",
        {
            "formatter": {
                "format": "answer = '{0.__class__.__base__.__subclasses__}'.format('')",
                "format of a function": "def f(): pass\nanswer = '{0.__globals__}'.format(f)[:50]",
                "format_map": "answer = '{x.__class__.__mro__}'.format_map({'x': ''})",
            },
            "attributes": {
                "format of the class": "answer = str.format('{0.__class__}', '')",
                "format_map of the class": "answer = str.format_map('{x.__class__}', {'x': ''})",
            },
            "imports_and_attributes": {
                "string.Formatter": """
import string
answer = string.Formatter().format('{0.__class__.__mro__}', '')
"""
            },
        },
    ),
    *cases(
        "CVE-2024-47532",
        {
            "attributes": {
                "object of an error": """
try:
    find('x')[0].ask.gone
except AttributeError as error:
    answer = str(error.obj.__globals__)[:50]
""",
                "module of an error": """
import string
try:
    string.gone
except AttributeError as error:
    answer = str(error.obj)
""",
            },
            "imports_and_attributes": {
                "modules behind string": """
import string
answer = str(string._re.enum.sys.modules)[:50]
"""
            },
        },
    ),
    *cases(
        "CVE-2025-22153",
        {
            "statements": {
                "except star that matches everything": """
class Every(Exception):
    def __eq__(self, other):
        return True
try:
    raise ValueError('x')
except* ValueError as group:
    answer = str(group)
""",
                "except star in a function": """
def take():
    found = 'held'
    try:
        raise KeyError('loot')
    except* (KeyError, TypeError) as group:
        found = str(group)
    return found
answer = take()
""",
            }
        },
    ),
    *cases(
        "CVE-2026-55830",
        {
            "names": {
                "attribute guard": """
def f(_getattr_, /):
    return ''.upper
answer = f(lambda obj, name: 'loot')
""",
                "item guard": """
def f(_getitem_, /):
    return [1][0]
answer = f(lambda obj, key: 'loot') + ''
""",
                "write guard": """
def f(_write_attr_, t, /):
    t.name = 'loot'
    return t.name
answer = f(lambda obj: obj, find('x')[0])
""",
                "default in a nested function": """
def outer():
    def inner(t, _write_attr_=lambda obj: obj, /):
        t.name = 'loot'
        return t.name
    return inner(find('x')[0])
answer = outer()
""",
                "lambda": """
answer = (lambda _getattr_, /: ''.upper)(lambda obj, name: 'loot')
""",
            }
        },
    ),
    *cases(
        "CVE-2026-76825",
        {
            "imports_and_attributes": {
                "get_field": """
import string
found, first = string.Formatter().get_field('0.ask.__func__.__globals__', (find('x')[0],), {})
answer = len(found)
""",
                "vformat": """
from string import Formatter
answer = Formatter().vformat('{0.secret}', (find('x')[0],), {})
""",
                "get_field of the class": """
from string import Formatter
answer = Formatter.get_field(Formatter(), 'a.secret', (), {'a': find('x')[0]})[0]
""",
            },
            "formatter": {
                "field of str.format": "answer = '{0.ask.__self__.secret}'.format(find('x')[0])"
            },
        },
    ),
)


@pytest.mark.parametrize("case", ADVISORIES, ids=str)
def test_the_advisory_is_harmless(case: Case, stage: Stage) -> None:
    outcome = stage.held(case)
    assert breach(outcome) is None
    assert outcome.failure is not None and outcome.failure.kind in case.kinds


@pytest.mark.parametrize("case", ADVISORIES, ids=str)
def test_it_would_show_without_its_guard(case: Case, stage: Stage) -> None:
    assert breach(stage.opened(case)) is not None
