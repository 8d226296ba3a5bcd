"""Static analysis of a turn's code: names that it reads and assigns, tools that it calls.

`view` parses a turn and collects its names (`names_of`, statement by statement) and its tools;
`constants_after` follows constants from turn to turn.

No code is run. Variables of comprehensions, loops, lambdas and functions count as local: for the
turns of an agent they are neither read nor assigned outside.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from viper.errors import PARSE_ERRORS
from viper.prompting.exploring import FINAL

_SAME = (
    *("find", "exists", "verify_property", "best_text_match", "simple_query", "compute_depth"),
    *("complex_query", "llm_query", "select_answer", "best_image_match", "ocr", "caption_video"),
    *("best_description_from_options", "image_search", "text_search"),
)

# API names that call a model, and the names of these calls in traces.
TOOLS = {name: name for name in _SAME} | {
    "caption": "caption_image",
    "sort_patches_front_to_back": "compute_depth",
    "get_video_segment_of_event": "locate_event",
    "get_video_segment_before_event": "locate_event",
    "get_video_segment_after_event": "locate_event",
}

# Calls that only convert a constant.
_CONVERTERS = frozenset({"bool_to_yesno", "bool_to_yn", "str", "int", "float", "bool"})

# Names that hold an answer, not an intermediate result.
CANDIDATES = frozenset(("answer", "result", FINAL))


@dataclass(frozen=True)
class CodeView:
    """Names in a piece of code.

    Attributes:
        stored, sure, loaded: see :class:`Names`.
        tools: called tools of :data:`TOOLS` in order of evaluation, inner calls first.
        gives: name that the last statement assigns; "" for an expression, None otherwise.
    """

    stored: frozenset[str] = frozenset()
    sure: frozenset[str] = frozenset()
    loaded: frozenset[str] = frozenset()
    tools: tuple[str, ...] = ()
    gives: str | None = None

    @property
    def is_candidate(self) -> bool:
        """Return whether the last statement stores an answer.

        A value that is only shown may be an intermediate one.
        """
        return self.gives in CANDIDATES


@lru_cache(maxsize=4096)
def view(code: str) -> CodeView | None:
    """Return the names of some code, or None if it does not parse."""
    try:
        tree = ast.parse(code)
        names = names_of(tree.body)
        called = [node.func for node in _evaluated(tree) if isinstance(node, ast.Call)]
    except PARSE_ERRORS:
        return None
    named = [node.attr if isinstance(node, ast.Attribute) else _plain(node) for node in called]
    last = tree.body[-1] if tree.body else None
    gives = "" if isinstance(last, ast.Expr) else None
    if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name):
        gives = last.targets[0].id
    return CodeView(
        frozenset(names.stored),
        frozenset(names.sure),
        frozenset(names.loaded),
        tuple(TOOLS[name] for name in named if name in TOOLS),
        gives,
    )


@dataclass(frozen=True)
class Constant:
    """A constant that code spells out, and the place of the turn with this code."""

    value: Any
    place: int


def constants_after(
    code: str, before: Mapping[str, Constant], place: int
) -> tuple[dict[str, Constant], Constant | None]:
    """Return the names that hold constants after some code, and the constant of its last statement.

    A constant remains a constant under another name and after conversions such as ``str`` and
    ``bool_to_yesno``. Code that does not parse changes nothing.

    Args:
        before: names that hold constants before the code.
        place: index of the code's turn.
    """
    constants, value = dict(before), None
    try:
        tree = ast.parse(code)
        for statement in tree.body:
            value = _constant(statement, constants, place)
            for name in names_of([statement]).stored:
                constants.pop(name, None)
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            target = statement.target if isinstance(statement, ast.AnnAssign) else target
            if value is not None and isinstance(target, ast.Name):
                constants[target.id] = value
    except PARSE_ERRORS:
        return dict(before), None
    return constants, value


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes within a node in order of evaluation, each after its parts."""
    parts = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        parts = [*node.generators, *(part for part in parts if part not in node.generators)]
    elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        parts = sorted(parts, key=lambda part: part is not node.value)
    for part in parts:
        yield from _evaluated(part)
    yield node


def _plain(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _constant(
    statement: ast.stmt, constants: Mapping[str, Constant], place: int
) -> Constant | None:
    """Return the constant that a statement assigns or shows."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr):
        return None
    value = statement.value
    while isinstance(value, ast.Call):
        if len(value.args) != 1 or value.keywords or _plain(value.func) not in _CONVERTERS:
            return None
        value = value.args[0]
    if isinstance(value, ast.Name):
        return constants.get(value.id)
    if isinstance(value, ast.UnaryOp) and isinstance(value.operand, ast.Constant):
        return Constant(ast.unparse(value), place)
    if isinstance(value, ast.Constant) and value.value is not None:
        return Constant(value.value, place)
    return None


@dataclass
class Names:
    """Names in a section of code.

    Attributes:
        stored: names that it assigns, perhaps only in a branch.
        sure: names that it assigns in every branch.
        loaded: names that it reads before it has surely assigned them.
    """

    stored: set[str] = field(default_factory=set)
    sure: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)

    def read(self, names: Iterable[str]) -> None:
        """Add names that the next code reads."""
        self.loaded |= set(names) - self.sure

    def store(self, names: Iterable[str]) -> None:
        """Add names that the next code surely assigns."""
        assigned = set(names)
        self.stored |= assigned
        self.sure |= assigned

    def branch(self, *branches: Names) -> None:
        """Add branches of which one is run. Names that all branches assign are sure."""
        for branch in branches:
            self.read(branch.loaded)
            self.stored |= branch.stored
        self.sure |= set.intersection(*(branch.sure for branch in branches))


def names_of(statements: Sequence[ast.stmt], bound: frozenset[str] = frozenset()) -> Names:
    """Return the names of consecutive statements.

    Args:
        bound: variables of enclosing loops and functions.
    """
    names = Names()
    for statement in statements:
        _statement(statement, bound, names)
    return names


def _statement(node: ast.stmt, bound: frozenset[str], names: Names) -> None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        inside, outside = bound, list[ast.expr | None](node.decorator_list)
        if isinstance(node, ast.ClassDef):
            outside += node.bases
        else:
            outside += [*node.args.defaults, *node.args.kw_defaults]
            inside |= _parameters(node.args)
        names.read(_read(outside, bound))
        inner = names_of(node.body, inside)
        names.read(inner.loaded - inner.stored)
        names.store({node.name} - bound)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
        if isinstance(node, ast.While):
            head, inside = node.test, bound
        else:
            head, inside = node.iter, bound | _targets([node.target])
        names.read(_read([head], bound))
        names.branch(names_of(node.body, inside), Names())
        names.branch(names_of(node.orelse, inside), Names())
    elif isinstance(node, ast.If):
        names.read(_read([node.test], bound))
        names.store(_walrus(node.test) - bound)
        names.branch(names_of(node.body, bound), names_of(node.orelse, bound))
    elif isinstance(node, ast.Try):
        handlers = [names_of(handler.body, bound) for handler in node.handlers]
        names.branch(names_of([*node.body, *node.orelse], bound), *handlers, Names())
        for statement in node.finalbody:
            _statement(statement, bound, names)
    elif isinstance(node, ast.With | ast.AsyncWith):
        names.read(_read([item.context_expr for item in node.items], bound))
        named = [item.optional_vars for item in node.items if item.optional_vars is not None]
        names.store(_targets(named) - bound)
        for statement in node.body:
            _statement(statement, bound, names)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        names.store({(alias.asname or alias.name).split(".")[0] for alias in node.names} - bound)
    else:
        names.read(_read([node], bound))
        if isinstance(node, ast.AugAssign):
            names.read(_targets([node.target]) - bound)
        targets = _targets([node]) | _walrus(node)
        names.store(targets - bound)


def _read(nodes: Iterable[ast.AST | None], bound: frozenset[str]) -> set[str]:
    """Return the names that expressions read, without variables of comprehensions and lambdas."""
    names: set[str] = set()
    for node in nodes:
        if node is None:
            continue
        if isinstance(node, ast.Name):
            names |= {node.id} - bound if isinstance(node.ctx, ast.Load) else set()
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            inside = bound
            for generator in node.generators:
                names |= _read([generator.iter], inside)
                inside |= _targets([generator.target])
                names |= _read(generator.ifs, inside)
            last = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            names |= _read(last, inside)
        elif isinstance(node, ast.Lambda):
            names |= _read([*node.args.defaults, *node.args.kw_defaults], bound)
            names |= _read([node.body], bound | _parameters(node.args))
        else:
            names |= _read(ast.iter_child_nodes(node), bound)
    return names


def _targets(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names that assignments and loops assign.

    Variables of expressions do not count.
    """
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            names |= {node.id} if isinstance(node.ctx, ast.Store) else set()
        elif isinstance(node, ast.Tuple | ast.List | ast.Starred):
            names |= _targets(ast.iter_child_nodes(node))
        elif isinstance(node, ast.Assign):
            names |= _targets(node.targets)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign):
            names |= _targets([node.target])
    return frozenset(names)


def _walrus(node: ast.AST) -> set[str]:
    return {part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr)}


def _parameters(arguments: ast.arguments) -> frozenset[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return frozenset(argument.arg for argument in every)
