"""Checks a program before it runs and compiles it with a guard at every access.

It builds on RestrictedPython's transformer, which refuses every syntax node that it does not know.
The guards decide by type. A program can reach an object only through attribute access, subscripts,
item and attribute assignment, class creation, imports and its predefined names. Iteration and
unpacking need no guard, because the objects that they yield can again be used only through these
accesses.

Source: RestrictedPython 9 (Zope), ``RestrictingNodeTransformer``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from types import CodeType
from typing import Any, cast

from RestrictedPython.transformer import (
    INSPECT_ATTRIBUTES,
    IOPERATOR_TO_STR,
    RestrictingNodeTransformer,
)

from viper.sandbox.prepass import CLASS_METHODS, FastTransformer, Prepass, PrepassError, authored

# Variable that holds the value of the last statement of a turn.
SHOWN = "shown_value"


class PolicyError(Exception):
    """The program does not run: ``kind`` is ``syntax`` or ``forbidden``."""

    def __init__(self, kind: str, message: str, line: int | None) -> None:
        self.kind, self.message, self.line = kind, message, line
        super().__init__(message)


@dataclass(frozen=True)
class Program:
    """A compiled program.

    Attributes:
        functions: names of the functions that its outermost statements define.
    """

    code: CodeType
    source: str
    functions: frozenset[str]

    @cached_property
    def tree(self) -> ast.Module:
        """Return the syntax tree of the program as written, to look up names after a failure."""
        return ast.parse(self.source)

    @cached_property
    def assigned(self) -> frozenset[str]:
        """Return the names that the top level assigns, also under conditions and by ``global``."""
        names: set[str] = set()
        pending: list[ast.AST] = list(self.tree.body)
        while pending:
            node = pending.pop()
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
                inner = [part for part in ast.walk(node) if isinstance(part, ast.Global)]
                names.update(*(part.names for part in inner))
                continue
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            pending.extend(ast.iter_child_nodes(node))
        return frozenset(names)

    def defines(self, name: str) -> bool:
        """Return whether the top level defines or assigns ``name``, so that it may be callable."""
        return name in self.functions or name in self.assigned or name in _defined(self.tree)

    def names_on(self, line: int) -> set[str]:
        """Return the names that are read on a line."""
        return {
            node.id
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and node.lineno <= line <= (node.end_lineno or node.lineno)
        }


def compile_program(
    source: str, filename: str, max_source: int = 64 * 1024, *, shows: bool = False
) -> Program:
    """Compile the program to run in a namespace that holds the guards.

    Args:
        max_source: greatest length of the source in bytes.
        shows: store the value of the last statement in :data:`SHOWN`, as a notebook does. The
            statement must be an expression or an assignment to a single name.

    Raises:
        PolicyError: it does not parse, is too large, or uses something that is not allowed.
    """
    size = len(source.encode("utf-8", "replace"))
    if size > max_source:
        raise PolicyError(
            "forbidden", f"the program has {size} bytes, the limit is {max_source}", 1
        )
    try:
        tree = ast.parse(source, filename)
    except (SyntaxError, ValueError) as error:
        raise _syntax_error(error) from None
    except (RecursionError, MemoryError):
        raise PolicyError("syntax", "the program is nested too deeply", None) from None
    functions = frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    if shows and tree.body:
        last = tree.body[-1]
        target = ast.copy_location(ast.Name(SHOWN, ast.Store()), last)
        if isinstance(last, ast.Expr):
            tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
        elif isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name):
            last.targets.append(target)
    try:
        rewritten = Prepass().visit(tree)
    except PrepassError as error:
        raise PolicyError("forbidden", str(error), error.line) from None
    policy = ProgramPolicy()
    policy.visit(rewritten)
    if policy.violations:
        line, message = policy.violations[0]
        raise PolicyError("forbidden", authored(message), line)
    try:
        code = compile(rewritten, filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise _syntax_error(error) from None
    return Program(code, source, functions)


def _syntax_error(error: SyntaxError | ValueError) -> PolicyError:
    if isinstance(error, SyntaxError):
        return PolicyError("syntax", authored(error.msg), error.lineno)
    return PolicyError("syntax", str(error), None)


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif not isinstance(node, ast.ClassDef):
            yield from _defined(node)


class ProgramPolicy(FastTransformer, RestrictingNodeTransformer):
    """RestrictedPython's rules with our guards; ``violations`` lists ``(line, message)``."""

    def __init__(self) -> None:
        FastTransformer.__init__(self)
        self.violations: list[tuple[int | None, str]] = []
        self._first_arguments: list[str | None] = [None]
        self._class_depth: list[bool] = [False]
        self._matched: list[ast.stmt] = []
        self._match_names = count()

    generic_visit = RestrictingNodeTransformer.generic_visit
    node_contents_visit = FastTransformer.visit_children

    def error(self, node: ast.AST, info: str) -> None:
        self.violations.append((getattr(node, "lineno", None), info))

    def not_allowed(self, node: ast.AST) -> None:
        what, instead = _STATEMENTS.get(type(node).__name__, (type(node).__name__, _PLAIN))
        self.error(node, f"{what} is not allowed; {instead}")

    def check_name(self, node: Any, name: str | None, allow_magic_methods: bool = False) -> None:
        if name is None or not name.startswith("_") or name == "_":
            return
        if allow_magic_methods and self._class_depth[-1] and name in CLASS_METHODS:
            return
        self.error(node, f"the name {name!r} is not allowed; begin it with a letter")

    # Names, attributes, subscripts

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.check_name(node, node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.ctx, ast.Load):
            # safe stand-ins for ``x.__class__``, ``x.__name__`` and ``super().__init__``
            if node.attr == "__class__":
                return _call("_type_", node, self.visit(node.value))
            if node.attr == "__name__":
                return _call("_name_of_", node, self.visit(node.value))
            if node.attr == "__init__" and _is_bare_super(node.value) and self._first_arguments[-1]:
                return _call("_super_init_", node, *self._super_arguments())
        self._check_attribute(node, node.attr)
        node = self.node_contents_visit(node)
        if isinstance(node.ctx, ast.Load):
            return _call("_getattr_", node, node.value, ast.Constant(node.attr))
        node.value = _call("_write_attr_", node, node.value)
        return node

    def _check_attribute(self, node: ast.AST, name: str) -> None:
        if name.startswith("_") and name != "_" or name in INSPECT_ATTRIBUTES:
            self.error(
                node,
                f"the attribute {name!r} is not allowed; of the special ones programs may use "
                "x.__class__, f.__name__ and super().__init__",
            )

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node = self.node_contents_visit(node)
        if isinstance(node.ctx, ast.Load):
            return _call("_getitem_", node, node.value, node.slice)
        node.value = _call("_write_item_", node, node.value)
        return node

    # Calls and operators

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _is_bare_super(node) and self._first_arguments[-1]:
            return _call("_super_", node, *self._super_arguments())
        return self.node_contents_visit(node)

    def _super_arguments(self) -> list[ast.expr]:
        names = ("__class__", cast(str, self._first_arguments[-1]))
        return [ast.Name(name, ast.Load()) for name in names]

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        node = self.node_contents_visit(node)
        guard = _BOUNDED.get(type(node.op))
        return _call(guard, node, node.left, node.right) if guard else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        target, op = node.target, ast.Constant(IOPERATOR_TO_STR[type(node.op)])
        if isinstance(target, ast.Name):
            guard = _BOUNDED.get(type(node.op))
            node = self.node_contents_visit(node)
            if guard is None:
                return node
            read = ast.Name(target.id, ast.Load())
            value = _call(guard, node, read, node.value)
            return _place(ast.Assign(targets=[node.target], value=value), node)
        owner, value = self.visit(target.value), self.visit(node.value)
        if isinstance(target, ast.Attribute):
            self._check_attribute(node, target.attr)
            change = _call("_aug_attr_", node, owner, ast.Constant(target.attr), op, value)
        else:
            change = _call("_aug_item_", node, owner, self.visit(target.slice), op, value)
        return _place(ast.Expr(change), node)

    # Imports become calls, so programs never reach the real import machinery. What they may import
    # is in modules.py.

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        assignments: list[ast.stmt] = []
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self.check_name(node, name)
            whole = ast.Constant(alias.asname is not None)
            value = _call("_import_", node, ast.Constant(alias.name), whole)
            target = _place(ast.Name(name, ast.Store()), node)
            assignments.append(_place(ast.Assign(targets=[target], value=value), node))
        return assignments

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if any(alias.name == "*" for alias in node.names):
            self.error(node, "import * is not allowed; import the names that you use")
        targets, names = [], []
        for alias in node.names:
            self.check_name(node, alias.asname or alias.name)
            targets.append(_place(ast.Name(alias.asname or alias.name, ast.Store()), node))
            names.append(_place(ast.Constant(alias.name), node))
        module = ast.Constant("." * node.level + (node.module or ""))
        value = _call("_import_from_", node, module, ast.Tuple(names, ast.Load()))
        target = _place(ast.Tuple(targets, ast.Store()), node)
        return _place(ast.Assign(targets=[target], value=value), node)

    # Statements that RestrictedPython wraps or refuses but that need no wrapping here

    def guard_iter(self, node: Any) -> Any:
        if getattr(node, "is_async", 0):
            self.error(node, "async is not allowed; write an ordinary loop")
        return self.node_contents_visit(node)

    visit_Assign = visit_With = visit_Module = FastTransformer.visit_children

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> ast.AST:
        for name in node.names:
            self.check_name(node, name)
        return node

    visit_Nonlocal = visit_Global

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.check_name(node, node.name, allow_magic_methods=True)
        self.check_function_argument_names(node)
        first = self._first_arguments[-1]
        if self._class_depth[-1]:  # a method
            arguments = [*node.args.posonlyargs, *node.args.args]
            first = arguments[0].arg if arguments else None
        self._first_arguments.append(first)
        self._class_depth.append(False)
        node = self.node_contents_visit(node)
        self._first_arguments.pop()
        self._class_depth.pop()
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.check_name(node, node.name)
        if node.keywords:
            self.error(
                node, "keywords in a class statement are not allowed; name the base classes alone"
            )
        self._class_depth.append(True)
        node = self.node_contents_visit(node)
        self._class_depth.pop()
        metaclass = _place(ast.Name("__metaclass__", ast.Load()), node)
        node.keywords = [_place(ast.keyword("metaclass", metaclass), node)]
        return node

    # match: a class pattern reads attributes, and a value pattern may name one, without a guard.
    # Both become patterns of a class that a guard checks, or makes, before the match begins.

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        around, self._matched = self._matched, []
        node.subject = self.visit(node.subject)
        for case in node.cases:
            case.pattern = self.visit(case.pattern)
        before, self._matched = self._matched, around
        for case in node.cases:
            case.guard = self.visit(case.guard) if case.guard else None
            case.body = self._visit_items(case.body)
        return [*before, node]

    visit_MatchOr = visit_MatchSequence = visit_MatchSingleton = FastTransformer.visit_children

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.AST:
        if all(isinstance(part, _LITERAL) for part in ast.walk(node.value)):
            return node
        value = _call("_match_value_", node, self.visit(node.value))
        return _place(ast.MatchClass(self._before_match(value), [], [], []), node)

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        for name in node.kwd_attrs:
            self._check_attribute(node, name)
        names = ast.Tuple([_place(ast.Constant(n), node) for n in node.kwd_attrs], ast.Load())
        positions = ast.Constant(len(node.patterns))
        node.cls = self._before_match(
            _call("_match_class_", node, self.visit(node.cls), positions, names)
        )
        node.patterns = self._visit_items(node.patterns)
        node.kwd_patterns = self._visit_items(node.kwd_patterns)
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        self.check_name(node, node.rest)
        if not all(isinstance(p, _LITERAL) for key in node.keys for p in ast.walk(key)):
            self.error(node, "a key in a pattern must be a literal")
        node.patterns = self._visit_items(node.patterns)
        return node

    def _before_match(self, value: ast.expr) -> ast.expr:
        """Compute a value before the match; return the name that its pattern reads."""
        name = f"_match{next(self._match_names)}_"
        target = _place(ast.Name(name, ast.Store()), value)
        self._matched.append(_place(ast.Assign(targets=[target], value=value), value))
        return _place(ast.Name(name, ast.Load()), value)

    def visit_MatchAs(self, node: ast.MatchAs) -> ast.AST:
        self.check_name(node, node.name)
        return self.node_contents_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> ast.AST:
        self.check_name(node, node.name)
        return node


# Operators whose result can be exponentially larger than its operands.
_BOUNDED: dict[type[ast.operator], str] = {ast.Pow: "_pow_", ast.LShift: "_shift_"}
_LITERAL = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop)
_PLAIN = "write it with ordinary statements"
_STATEMENTS = {
    "AsyncFunctionDef": ("async def", "write an ordinary function"),
    "Await": ("await", "call the function"),
    "AsyncFor": ("async for", "write an ordinary loop"),
    "AsyncWith": ("async with", "write an ordinary with"),
    "TryStar": ("except*", "write except"),
}


def _is_bare_super(node: ast.AST) -> bool:
    match node:
        case ast.Call(ast.Name("super"), [], []):
            return True
    return False


def _call(guard: str, where: ast.AST, *parts: ast.expr | None) -> ast.Call:
    """Return a call of a guard at the source position of ``where``; new arguments get it too.

    None stands for a part that was refused; such a program never runs.
    """
    arguments = [ast.Constant(None) if part is None else part for part in parts]
    for argument in arguments:
        if not hasattr(argument, "lineno"):
            _place(argument, where)
    function = _place(ast.Name(guard, ast.Load()), where)
    return _place(ast.Call(func=function, args=arguments, keywords=[]), where)


def _place(node: Any, where: Any) -> Any:
    node.lineno, node.col_offset = where.lineno, where.col_offset
    node.end_lineno, node.end_col_offset = where.end_lineno, where.end_col_offset
    return node
