"""Programs with one edit, similar to the errors of a language model that misreads a query.

`edited_programs` walks the syntax tree, applies each error that a node allows (`_edits`) to a copy,
and prices it. `program_fault` says what is wrong in words.

They are injected as faults, and tried as explanations of a wrong answer.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

from viper.errors import PARSE_ERRORS

_OPPOSITE_NAMES = {
    "max": "min",
    "get_patch_left_of": "get_patch_right_of",
    "get_patch_above_of": "get_patch_below_of",
    "crop_left_of_bbox": "crop_right_of_bbox",
    "crop_above_bbox": "crop_below_bbox",
    "get_video_segment_before_event": "get_video_segment_after_event",
}
_SWAPPED = {**_OPPOSITE_NAMES, **{there: here for here, there in _OPPOSITE_NAMES.items()}}
_OTHER_ORDER = {
    "sort_patches_left_to_right": "sort_patches_bottom_to_top",
    "sort_patches_bottom_to_top": "sort_patches_front_to_back",
    "sort_patches_front_to_back": "sort_patches_left_to_right",
    "horizontal_center": "vertical_center",
    "vertical_center": "horizontal_center",
}
_COMPARED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
}

# Most words of a text that may name an object; longer texts are questions, where an inserted word
# makes no sense.
_LONGEST_NOUN = 4


@dataclass(frozen=True)
class EditedProgram:
    """A program with one edit.

    Attributes:
        kind: ``direction`` (left for right, the first for the last, more for less),
            ``superlative`` (most for least), ``order`` (another axis), ``attribute`` (another word
            of a family), ``filter`` (a condition removed) or ``condition`` (a word inserted).
        program: the edited program.
        cost: cost in nats of the explanation that the original program is wrong and this one was
            meant: ``COSTS`` of the kind, ``WORD_ASKED`` for each removed word that the query
            contains, and ``WORD_USED`` for each inserted word that the program already contains.
    """

    kind: str
    program: str
    cost: float = 0.0


# In nats, against an unknown error of the program (`Weighing.program`, 5): each of these edits is a
# likelier misreading, and another axis the least likely of them.
COSTS: Mapping[str, float] = {
    "direction": 1.5,
    "superlative": 1.5,
    "order": 2.0,
    "attribute": 1.0,
    "filter": 1.0,
    "condition": 1.0,
}
# A program that lacks a word of the query is hardly what was meant; a word that it already contains
# was probably not forgotten elsewhere.
WORD_ASKED = 4.0
WORD_USED = 1.0


@dataclass(frozen=True)
class Vocabulary:
    """Words that may replace each other.

    Attributes:
        families: families of words that exclude each other.
        asked: words that may be inserted. None allows every word of a family in place of another
            one, but no additional words.
    """

    families: Sequence[Sequence[str]]
    asked: frozenset[str] | None = None

    @classmethod
    def of_query(cls, families: Sequence[Sequence[str]], query: str) -> Vocabulary:
        """Build a vocabulary that inserts only words of the query."""
        words = re.findall(r"\w+", query.lower())
        query_words = {*words, *(word.removesuffix("s") for word in words)}
        return cls(families, frozenset(query_words))


def edited_programs(program: str, vocabulary: Vocabulary) -> list[EditedProgram]:
    """Return every program with one edit, in text order; an empty list if it cannot be parsed.

    If two edits lead to the same program, the first one counts.
    """
    try:
        tree = ast.parse(program)
        plain = ast.unparse(tree)
    except PARSE_ERRORS:
        return []
    edits: dict[str, EditedProgram] = {}
    words = _known_words(tree, vocabulary)
    for place, node in enumerate(ast.walk(tree)):
        for kind, field, value in _edits(node, vocabulary):
            changed = copy.deepcopy(tree)
            setattr(list(ast.walk(changed))[place], field, value)
            text = ast.unparse(ast.fix_missing_locations(changed))
            if text != plain:
                now = _known_words(changed, vocabulary)
                asked = vocabulary.asked or frozenset()
                taken = sum(count for word, count in (words - now).items() if word in asked)
                used = sum(count for word, count in (now - words).items() if words[word])
                cost = COSTS[kind] + (WORD_ASKED * taken + WORD_USED * used)
                edits.setdefault(text, EditedProgram(kind, text, cost))
    return list(edits.values())


def _known_words(tree: ast.AST, vocabulary: Vocabulary) -> Counter[str]:
    """Count the words of the families in a program."""
    family_words = set(chain(*vocabulary.families))
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    words = chain(*(value.split() for value in values if isinstance(value, str)))
    return Counter(word for word in words if word in family_words)


def _edits(node: ast.AST, vocabulary: Vocabulary) -> Iterator[tuple[str, str, Any]]:
    """Yield the kinds of errors that this node allows, each with a field and its new value."""
    if isinstance(node, ast.Name | ast.Attribute):
        field = "id" if isinstance(node, ast.Name) else "attr"
        name = getattr(node, field)
        if name in _SWAPPED:
            kind = "superlative" if field == "id" and name in ("max", "min") else "direction"
            yield kind, field, _SWAPPED[name]
        elif name in _OTHER_ORDER:
            yield "order", field, _OTHER_ORDER[name]
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        yield "direction", "ops", [_COMPARED[type(node.ops[0])]()]
    elif isinstance(node, ast.ListComp) and node.generators[0].ifs:
        unfiltered = copy.copy(node.generators[0])
        unfiltered.ifs = []
        yield "filter", "generators", [unfiltered, *node.generators[1:]]
    elif isinstance(node, ast.Subscript):
        index = _number(node.slice)
        if index is not None:
            # first for last, second for second last, and the reverse
            mirrored: ast.expr = ast.Constant(abs(index + 1))
            if index >= 0:
                mirrored = ast.UnaryOp(ast.USub(), mirrored)
            yield "direction", "slice", mirrored
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        for kind, words in _other_words(node.value, vocabulary):
            yield kind, "value", " ".join(words)


def _number(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def _other_words(text: str, vocabulary: Vocabulary) -> Iterator[tuple[str, list[str]]]:
    """Yield texts with a family word exchanged, removed (unless it is last), or inserted."""
    words, query_words = text.split(), vocabulary.asked
    for place, word in enumerate(words):
        families = [family for family in vocabulary.families if word in family]
        for other in chain(*families):
            if query_words is None or other in query_words:
                yield "attribute", [*words[:place], other, *words[place + 1 :]]
        if families and place < len(words) - 1:
            yield "filter", words[:place] + words[place + 1 :]
    if query_words is None or len(words) > _LONGEST_NOUN:
        return
    missing = [f for f in vocabulary.families if not set(f) & set(words)]
    for word in chain(*missing):
        if word in query_words and words and words != [word]:
            yield "condition", [word, *words]


# Description of a fault by the kind of :class:`EditedProgram`.
_PROBLEMS: Mapping[str, str] = {
    "direction": "goes the wrong way",
    "superlative": "takes the wrong extreme",
    "order": "goes by the wrong axis",
    "attribute": "asks for the wrong thing",
    "filter": "leaves a condition out",
    "condition": "asks for more than the query does",
}

# A line is quoted twice in a fault, which becomes part of a prompt.
_LONGEST_LINE = 200


def program_fault(kind: str, right: str, wrong: str) -> str:
    """Describe the wrong line, its fault and its correct form.

    Args:
        kind: kind of the edit.
        right: the right program in any layout.
        wrong: the edited program of :func:`edited_programs`. Line numbers refer to it.
    """
    problem = _PROBLEMS.get(kind, "is wrong")
    with suppress(*PARSE_ERRORS):
        right = ast.unparse(ast.parse(right))  # in the layout of the wrong program
    pairs = zip_longest(right.splitlines(), wrong.splitlines(), fillvalue="")
    for number, (before, after) in enumerate(pairs, start=1):
        if before != after:
            return f"Line {number} {problem}: `{_cut(after)}` should be `{_cut(before)}`"
    return f"The program {problem}"


def _cut(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"
