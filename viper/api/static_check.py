"""Static check of a generated program against the API, before it runs.

It reads the syntax tree; nothing of the program is imported or run. It reports a line only if the
sandbox would refuse it whenever it runs, so a misuse in dead code is reported too. (Routines over a
list refuse a wrong argument only if the list has items.) Programs that may expect their errors,
with ``try``, or that ask for types and attributes by name are not checked.

Variables are followed by name, in any order and scope. The return annotations of a user's routines
are trusted; their parameter annotations are not, as Python code often accepts more.

:func:`api_misuse` rewrites the tree as the sandbox does, collects what each name is bound to
(:class:`_Check`), and returns the first misuse of the entry point, a name, an attribute or a call.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from viper.api import registry
from viper.api.library import Library
from viper.api.prelude import READABLE
from viper.api.sets import OWNERS
from viper.errors import PARSE_ERRORS
from viper.sandbox import Limits, entry, modules, policy, prepass, readable
from viper.sandbox.names import BUILTIN_NAMES

ENTRY = "execute_command"
# Names of every run: the arguments and their aliases, and the pictures of line programs.
_GLOBALS = {*entry.ALIASES, "IMAGE", "LEFT", "RIGHT", "super", prepass.hidden("__name__")}
_GLOBALS |= {f"IMAGE{number}" for number in range(1, 1000)}
# A program that asks for types or attributes by name may expect what it does not find.
_REFLECTION = re.compile("type|isinstance|(has|get|set)attr|[.]?(attrgetter|namedtuple|dataclass)")
# Calls that may put other items into a list, after which its type says nothing.
_GROWTH = re.compile("[.]?(append(left)?|extend(left)?|insert|heap(push.*|replace)|insort.*)")

_TEXT = readable.STRING | {"format", "format_map"}
# Attributes that programs may read, by the types that are followed.
_READABLE = {owner.__name__: READABLE[owner] for owner in OWNERS} | {"str": _TEXT}
_ITEMS = {f"{outer}[{item}]": item for outer in ("list", "Iterator") for item in _READABLE}
_READABLE |= {kind: readable.BUILTIN[list] for kind in _ITEMS if kind.startswith("list")}

_LITERALS = {ast.List: list, ast.ListComp: list, ast.JoinedStr: str}
# Types of literals that a parameter refuses, by its annotation.
_REFUSED: Mapping[str, tuple[type, ...]] = {
    "str": (int, float, list),
    "ImagePatch": (str, int, float, list),
    "Sequence[str]": (int, float),
    "Sequence[ImagePatch]": (str, int, float),
}

# Routines that accept more than their annotations.
_LENIENT = {"coerce_to_numeric", "EVAL", "SELECT"}

# Node and message of a misuse, a name that may be misspelled, and the names that it may mean.
_Finding = tuple[Any, str, str, Iterable[str]]


class Misuse(NamedTuple):
    """A line that cannot run; ``function`` is the function of the program that it is in."""

    message: str
    line: int
    source_line: str
    function: str | None


class _Callee(NamedTuple):
    """What programs call; ``signature`` is None for an attribute that is no method."""

    signature: inspect.Signature | None
    returns: str = ""
    is_strict: bool = False


class _Api(NamedTuple):
    names: frozenset[str]
    attributes: frozenset[str]
    callees: Mapping[tuple[str, str], _Callee]


def api_misuse(program: str, library: Library) -> Misuse | None:
    """Return the first misuse in the source of a program with an entry point, or None.

    A program that does not parse or is too large gives None, as the sandbox reports that.
    """
    try:
        if len(program.encode()) > Limits().source_kb * 1024:
            return None
        tree = prepass.Prepass().visit(ast.parse(program))
        check = _Check(tree, _api(library, registry.REGISTRY.all()))
        found = [*check.entry(program), *check.misuses()] if check.is_plain else []
    except (*PARSE_ERRORS, prepass.PrepassError):
        return None
    if not found:
        return None
    node, message, name, names = min(found, key=lambda f: (f[0].end_lineno, f[0].end_col_offset))
    # Stricter than difflib's 0.6, since a wrong suggestion leads the next trial astray.
    close = get_close_matches(name, sorted(set(names)), 1, cutoff=0.7)
    message = prepass.authored(message + (f"; did you mean {close[0]}?" if close else ""))
    line, functions = node.end_lineno, [n for n in check.nodes if type(n) is ast.FunctionDef]
    around = [n for n in functions if n.lineno <= line <= (n.end_lineno or 0)]
    function = max(around, key=lambda n: n.lineno).name if around else None
    return Misuse(message, line, "".join(program.splitlines()[line - 1 : line]), function)


@lru_cache(maxsize=8)
def _api(library: Library, shipped: tuple[registry.Routine, ...]) -> _Api:
    """Return what programs may name, read and call."""
    own = [item for file in library.files for item in file.routines]
    callees = {
        ("", item.name): _callee(item.function, item not in own) for item in (*shipped, *own)
    }
    for owner in OWNERS:
        callees["", owner.__name__] = _Callee(inspect.signature(owner), owner.__name__)
        for name in READABLE[owner]:
            member = getattr(owner, name)
            is_method = inspect.isfunction(member)
            callees[owner.__name__, name] = _callee(member) if is_method else _Callee(None)
    facades = modules.build_facades(getattr, getattr, lambda *_: None).values()
    attributes = {*_TEXT, *readable.ARRAY_METHODS, *readable.EXCEPTION_ATTRIBUTES}
    for table in (readable.BUILTIN, readable.ON_TYPES, READABLE):
        attributes.update(*table.values())
    attributes.update(*(facade._members for facade in facades))
    sources = [file.source.text for file in library.files if file.source]
    attributes.update(*(re.findall(r"\w+", text) for text in sources))
    names = BUILTIN_NAMES | _GLOBALS | {name for owner, name in callees if not owner}
    return _Api(names, frozenset(attributes), callees)


def _callee(function: Any, is_strict: bool = True) -> _Callee:
    """Return a function, or an unbound method, with the parameters that programs pass."""
    signature = inspect.signature(function, follow_wrapped=False)
    parameters = [*signature.parameters.values()]
    if parameters and parameters[0].name in registry.HIDDEN:
        del parameters[0]
    returns = registry.annotation_text(signature.return_annotation).removesuffix(" | None")
    is_strict = is_strict and function.__name__ not in _LENIENT
    return _Callee(signature.replace(parameters=parameters), returns, is_strict)


def _refusal(callee: _Callee, call: ast.Call) -> str:
    """Return why a call cannot run, or ""; one with ``*`` or ``**`` is not judged."""
    keywords: dict[Any, Any] = {keyword.arg: keyword.value for keyword in call.keywords}
    if None in keywords or any(type(value) is ast.Starred for value in call.args):
        return ""
    if callee.signature is None:
        return "is a value; write it without ()"
    parameters = callee.signature.parameters
    try:
        values = callee.signature.bind(*call.args, **keywords).arguments
    except TypeError as error:
        plural, count = "s" * (len(parameters) != 1), len(call.args) + len(keywords)
        takes = f"takes {len(parameters)} argument{plural} ({', '.join(parameters)})"
        return f"{takes}, got {count}: {error}"
    for name, value in values.items() if callee.is_strict else ():
        annotation = registry.annotation_text(parameters[name].annotation)
        kind = _LITERALS.get(type(value)) or type(getattr(value, "value", None) or None)
        if issubclass(kind, _REFUSED.get(annotation.removesuffix(" | None"), ())):
            return f"takes {annotation} for {name}, got {ast.unparse(value)[:60]}"
    return ""


class _Check:
    """One program: its names, the types of its variables, its misuses.

    Attributes:
        sources: expressions that a name is bound to (None: not followed); attributes it assigns.
        is_plain: it neither catches errors nor asks for types or attributes by name.
        grows: it may put items into a list that came from the API.
    """

    def __init__(self, tree: ast.Module, api: _Api) -> None:
        self.nodes: list[Any] = [n for n in ast.walk(tree) if type(n) not in prepass.LEAVES]
        self.api, self.memo, self.is_plain, self.grows = api, dict[Any, str](), True, False
        self.sources: dict[str, list[Any]] = defaultdict(list)
        values: dict[Any, Any] = {}
        for node in self.nodes:
            match node:
                case ast.Name(name, ast.Load()):
                    self._mention(name)
                case ast.Attribute(_, name, ast.Load()):
                    self._mention("." + name)
                case ast.Name(name) | ast.Attribute(_, name):
                    self.sources[name].append(values.get(node))
                case ast.Assign([ast.Name() as target], value) | ast.NamedExpr(target, value):
                    values[target] = value
                case ast.For(target, value) | ast.comprehension(target, value):
                    values[target] = ast.Subscript(value, ast.Constant(0))
                case ast.arg(name) | ast.FunctionDef(name) | ast.ClassDef(name):
                    self.sources[name].append(None)
                case ast.MatchAs(_, str(name)) | ast.MatchStar(str(name)):
                    self.sources[name].append(None)
                case ast.alias(name, alias):
                    self._mention(name)
                    if alias or ("", name) not in api.callees or name in api.attributes:
                        self.sources[alias or name.partition(".")[0]].append(None)
                case ast.AugAssign(value=value):
                    self.grows |= not isinstance(getattr(value, "value", None), int | float)
                case ast.Subscript(ctx=ast.Store()):
                    self.grows = True
                case ast.Try():
                    self.is_plain = False

    def _mention(self, name: str) -> None:
        self.is_plain &= _REFLECTION.fullmatch(name) is None
        self.grows |= _GROWTH.fullmatch(name) is not None

    def _type(self, *nodes: Any) -> str:
        """Return the type that all of these have, except those that are None, or "" if unknown."""
        for node in nodes:
            if node not in self.memo:
                self.memo[node] = ""  # for variables that depend on themselves
                self.memo[node] = self._infer(node)
        types = {self.memo[node] for node in nodes} - {"None"}
        return types.pop() if len(types) == 1 else ""

    def _infer(self, node: Any) -> str:
        match node:
            case ast.Constant(None):
                return "None"
            case ast.Name(name) if name in self.sources and name not in self.api.names:
                return self._type(name)
            case str():
                return self._type(*self.sources[node])
            case ast.BoolOp(_, values):
                return self._type(*values)
            case ast.IfExp(_, value, other):
                return self._type(value, other)
            case ast.NamedExpr(_, value) | ast.Subscript(value, ast.Slice()):
                return self._type(value)
            case ast.List([_, *_] as items):
                return f"list[{self._type(*items)}]"
            case ast.ListComp(item):
                return f"list[{self._type(item)}]"
            case ast.Subscript(value) if not self.grows or isinstance(value, ast.Call):
                return _ITEMS.get(self._type(value), "")
            case ast.Call(function) if callee := self._callee(function):
                return callee.returns
        return ""

    def _callee(self, function: Any) -> _Callee | None:
        """Return the function of the API, or the method of a value of known type, or None."""
        match function:
            case ast.Name(name) if name not in self.sources:
                return self.api.callees.get(("", name))
            case ast.Attribute(value, name) if kind := self._type(value):
                return self.api.callees.get((kind, name))
        return None

    def entry(self, program: str) -> Iterator[_Finding]:
        """Yield the misuses in how the program defines its entry point."""
        is_single = len(self.sources.get(ENTRY, ())) == 1
        match [n for n in self.nodes[0].body if getattr(n, "name", "") == ENTRY]:
            case []:
                module = policy.Program(compile("", "", "exec"), program, frozenset())
                if not module.defines(ENTRY) and module.assigned.isdisjoint(entry.ANSWER_NAMES):
                    start = ast.Pass(end_lineno=1, end_col_offset=0)
                    yield start, f"the program defines no {ENTRY}()", "", ()
            case [ast.FunctionDef(_, ast.arguments([]) as takes, decorator_list=[])] if is_single:
                passed = {*chain(*entry.ALIASES.values(), _GLOBALS)}
                for node in takes.args[1 : len(takes.args) - len(takes.defaults)]:
                    if node.arg not in passed:
                        yield node, f"no run passes {node.arg!r} to {ENTRY}()", node.arg, passed

    def misuses(self) -> Iterator[_Finding]:
        """Yield the misuses of names, attributes and calls, in no order."""
        for node in self.nodes:
            match node:
                case ast.Name(name, ast.Load()):
                    if name not in self.sources and name not in self.api.names:
                        names = chain(self.sources, self.api.names)
                        yield node, f"the name {name!r} is not defined", name, names
                case ast.Attribute(value, name, ast.Load()) if not name.startswith("_"):
                    kind = self._type(value)
                    if kind in _READABLE and name not in _READABLE[kind]:
                        is_of_item = name in _READABLE.get(_ITEMS.get(kind, ""), ())
                        hint = "; its items have it" if is_of_item else ""
                        message = f"{kind} has no method or attribute {name!r}{hint}"
                        yield node, message, name, _READABLE[kind]
                    elif name not in self.api.attributes and name not in self.sources:
                        names = chain(self.sources, self.api.attributes)
                        yield node, f"no value has a method or attribute {name!r}", name, names
                case ast.Call(function) if callee := self._callee(function):
                    if refusal := _refusal(callee, node):
                        called = ast.unparse(function).rpartition(".")[2]
                        yield function, f"{called} {refusal}", "", ()
