"""Extracts the program from the reply of a language model.

:func:`extract_code` collects the parts of a reply that may be the program (:func:`_blocks`), tidies
each, and takes the first that parses and defines the entry point, with the helpers that it uses;
else a program of lines (:func:`line_program`), else the longest part.

Source of :func:`line_program`: the replies of VisProg's and CLOVA's models, which number lines as
steps, put a heading before them, and write the next query after them.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence

from viper.errors import PARSE_ERRORS

ENTRY = "execute_command"

FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*$", re.MULTILINE)
_DEFINES_ENTRY = re.compile(rf"^[ \t]*def[ \t]+{ENTRY}\b", re.MULTILINE)
_CONTINUES_ENTRY = re.compile(r"\A\n*[ \t]*[\w ,:\[\].|=*\"']*\)[^\n()]*:")
_LEADING_SPACE = re.compile(r"^[ \t]+", re.MULTILINE)
# Number of lines before a bare entry point that are searched for helpers; each is tried as the
# first line, so a long text would be parsed thousands of times.
_LONGEST_PREAMBLE = 100


def extract_code(text: str) -> str:
    """Return the program in a completion: the best guess, never an error.

    It understands fenced and bare answers, prose around them, several fences (the last that defines
    ``execute_command`` wins, with the helpers that it uses from others; otherwise the longest that
    parses), a fence that never closes, shifted indentation, and a completion that continues the
    prompt's ``def execute_command(``. Calls of the entry point after it are dropped, because the
    sandbox makes that call. If nothing defines the entry point, a program of lines that call
    modules is used, see :func:`line_program`. Text without any program is returned stripped; the
    sandbox then reports its syntax error.
    """
    plain = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "")
    candidates = [block for block in map(tidy, _blocks(plain)) if block]
    for accepts in (is_complete, defines_entry):
        for block in candidates:
            if accepts(block):
                return _without_calls(_with_helpers(block, candidates))
    lines = next(filter(None, map(line_program, [*_fenced(plain), plain])), None)
    if lines is not None:
        return lines
    parsed = filter(syntax_tree, candidates)
    return max(parsed, key=len, default=max(candidates, key=len, default=""))


def _blocks(text: str) -> Iterator[str]:
    """Yield every part of the text that may be the program, the likely ones first."""
    continues_prompt = _CONTINUES_ENTRY.match(text)
    if continues_prompt:
        closing = FENCE.search(text)
        rest = text[: closing.start()] if closing else text
        yield _unfenced_program(f"def {ENTRY}({rest.lstrip()}")
    fences = list(_fenced(text))
    # A model corrects itself in a later fence. After a completion it writes the next query.
    yield from fences if continues_prompt else reversed(fences)
    if not fences:
        yield _unfenced_program(text)


def _fenced(text: str) -> Iterator[str]:
    """Yield the contents of the fences; an unclosed fence extends to the end."""
    opening: re.Match[str] | None = None
    for match in FENCE.finditer(text):
        if opening is None:
            opening = match
        elif match[1].startswith(opening[1]) and not match[2]:
            yield text[opening.end() : match.start()]
            opening = None
    if opening is not None:
        if defines_entry(text[: opening.start()]):
            # The prompt opened the fence, and this mark closes it.
            yield text[: opening.start()]
        yield text[opening.end() :]


def _unfenced_program(text: str) -> str:
    """Return the program in a text without fences: from its first code line to the last that
    parses.
    """
    body = _dedent(text)
    start = _DEFINES_ENTRY.search(body)
    if start is None:
        return body
    preamble = _helpers_before(body[: start.start()])
    code = textwrap.dedent(body[start.start() :])
    second = _DEFINES_ENTRY.search(code, 1)
    if second is not None:
        # A small program writer that does not stop writes the next query: use the first program.
        code = code[: second.start()]
    lines = code.splitlines()
    end = len(lines)
    while end > 1:
        try:
            _parsed("\n".join(lines[:end]))
            return preamble + "\n".join(lines[:end])
        except SyntaxError as error:
            end = min(end, error.lineno or 1) - 1
        except (ValueError, RecursionError, MemoryError):
            break
    return preamble + code


def _helpers_before(text: str) -> str:
    """Return imports, helpers and constants before the entry point, without the prose."""
    lines = text.splitlines()[-_LONGEST_PREAMBLE:]
    for begin in range(len(lines)):
        block = "\n".join(lines[begin:]).strip("\n")
        tree = syntax_tree(block)
        if tree is not None and tree.body and all(isinstance(n, _HELPERS) for n in tree.body):
            return block + "\n"
    return ""


# Statements that define something; anything else before the entry point is prose or a test call.
_HELPERS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)


def _with_helpers(program: str, blocks: Sequence[str]) -> str:
    """Put definitions of other blocks before a program that uses their names."""
    definitions: dict[str, str] = {}
    for block in reversed(blocks):
        tree, lines = syntax_tree(block), block.splitlines()
        for node in tree.body if tree and block != program else ():
            if isinstance(node, _HELPERS):
                first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
                source = "\n".join(lines[first - 1 : node.end_lineno])
                definitions |= dict.fromkeys(used_and_bound(node)[1] - {ENTRY}, source)
    while (tree := syntax_tree(program)) is not None:
        used, bound = used_and_bound(tree)
        missing = sorted(name for name in used - bound if name in definitions)
        if not missing:
            break
        program = f"{definitions[missing[0]]}\n\n\n{program}"
    return program


def used_and_bound(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Return the names that code reads, and those that it binds anywhere."""
    used, bound = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
    return used, bound


def _without_calls(block: str) -> str:
    """Drop statements and comments after the entry point that only use it."""
    tree = syntax_tree(block)
    if tree is None:
        return block
    lines: list[str | None] = list(block.splitlines())
    is_past_entry, last = False, len(lines)
    for node in tree.body:
        end = node.end_lineno or node.lineno
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        only_uses = isinstance(node, ast.Expr) or (
            ENTRY in names and not isinstance(node, ast.FunctionDef | ast.ClassDef)
        )
        if isinstance(node, ast.FunctionDef) and node.name == ENTRY:
            is_past_entry, last = True, end
        elif is_past_entry and only_uses:
            lines[node.lineno - 1 : end] = [None] * (end - node.lineno + 1)
        elif is_past_entry:
            last = end
    return "\n".join(line for line in lines[:last] if line is not None)


def tidy(block: str) -> str:
    """Remove shifted indentation, interpreter prompts and surrounding blank lines."""
    dedented = _dedent(block)
    lines = dedented.splitlines()
    if lines and all(line.startswith((">>>", "...")) for line in lines if line.strip()):
        dedented = _dedent("\n".join(line[4:] for line in lines))
    first, _, rest = dedented.partition("\n")
    shifted = f"{first.lstrip()}\n{textwrap.dedent(rest)}".strip("\n")
    flattened = f"{first.lstrip()}\n{rest}".strip("\n")
    return next(filter(syntax_tree, (dedented, shifted, flattened)), dedented)


def _dedent(text: str) -> str:
    """Remove common indentation, trailing blanks and blank lines at either end."""
    spaced = _LEADING_SPACE.sub(lambda match: match[0].expandtabs(4), text)
    lines = [line.rstrip() for line in spaced.splitlines()]
    return textwrap.dedent("\n".join(lines)).strip("\n")


def is_complete(block: str) -> bool:
    """Return whether a text parses and defines the entry point."""
    return defines_entry(block) and syntax_tree(block) is not None


def defines_entry(block: str) -> bool:
    """Return whether a line of a text begins the entry point."""
    return _DEFINES_ENTRY.search(block) is not None


def syntax_tree(block: str) -> ast.Module | None:
    """Return the syntax tree of a text, or None if it does not parse."""
    try:
        return _parsed(block)
    except PARSE_ERRORS:
        return None


def _parsed(block: str) -> ast.Module:
    with warnings.catch_warnings():
        # The user cannot act on a warning about a stray "\d" in a generated string.
        warnings.simplefilter("ignore")
        return ast.parse(block)


_LEAD = re.compile(
    r"""^\s*(?:>{1,3}\s*|[-*]\s+|\d+\s*[.):]\s*)?
        (?:\**\s*step\s*\d+\s*(?:program)?\s*[.:,)]?\s*\**\s*)?
        (?:\**\s*program\s*:\s*\**\s*)?`?""",
    re.VERBOSE | re.IGNORECASE,
)
_CALL = re.compile(r"^[A-Za-z_]\w*\s*=\s*[A-Z][A-Z_]*\s*\(")
_LAST = re.compile(r"^FINAL_(?:RESULT|ANSWER)\s*=")


def line_program(text: str) -> str | None:
    """Return the first line program in a text, or None if the text has no such line.

    The program ends with its ``FINAL_RESULT`` or ``FINAL_ANSWER``, or where other text follows an
    empty line. Comments and prose between its lines are dropped; each line keeps its text.
    """
    program: list[str] = []
    gap = False
    for line in text.splitlines():
        bare = _LEAD.sub("", line, count=1).rstrip().rstrip("`").rstrip()
        if _CALL.match(bare):
            program.append(bare.rstrip(";"))
            if _LAST.match(bare):
                break
            gap = False
        elif program and not line.strip():
            gap = True
        elif program and gap and not line.lstrip().startswith(("#", "```", "~~~")):
            break
    return "\n".join(program) or None
