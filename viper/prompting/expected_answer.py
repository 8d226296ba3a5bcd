"""The kind of answer that a question asks for, read from its words.

:func:`expected_answer` looks for the beginning of a question in each clause (``_HEADS``) and then
for alternatives (:func:`_expected`). Chat prompts state the kind, and an answer of another kind is
a ``wrong_type`` failure. The rules err on the side of silence: a question that can be read in two
ways expects nothing in particular.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from viper.agreement import normalise_answer

Kind = Literal["yes/no", "number", "color", "either", "two", "time", "thing"]

_HELLO = (
    r"(?:hey|hi|hello|ok|okay|so|well|please|um|hmm|and|now|then|(?:have|take) a look)(?: there)?\b"
    r"[\s,.!:-]*"
)
_ADD = "(?:count|sum|add up|(?<=mind )counting)"
_YOU = r"(?:can|could|would|will|do|did) (?:you|we|any(?:one|body)|some(?:one|body))\b"
_TELL = (
    r"(?:(?:tell|say|nam|describ|check|know|giv|calculat|explain)(?:e|ing)?|point out|"
    r"(?:figur|work|find)(?:e|ing)? out|see(?= what colou?r| which| where| how)|"
    r"mind|happen to|please|for|me|us)\b"
)
_WONDER = r"(?:i wonder|i(?:'d| would)? (?:like|want) to know)\b"
_REQUEST = rf"(?:(?:{_YOU}\s*)?{_TELL}(?:\s+{_TELL})*\s*|{_WONDER}\s*|{_YOU}\s+(?={_ADD}))?"
# Words before the question itself.
_OPENING = re.compile(rf"(?:{_HELLO})*{_REQUEST}(?:please\s+)?")

# Pauses after which a question may begin: ``of all the cubes, which is red?``
_CLAUSE = re.compile(r"[,;:.?!]\s+|\s-\s")

_VERB = r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)(?:n't|nt)?\b"
_WHICH = "(?:what|which)"
_NO_REMARK = "(?! about\\b| do you think,)"
_NOT_OPEN = rf"(?! (?:{_WHICH}|how)\b| you(?:$| help\b))"
_PLACED = "(?:(?:at|in|on|into|to|towards?|from|of|by|with|near|under|behind) )?"
# Beginnings of clauses that ask, the first that matches counts.
_HEADS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("number", re.compile(rf"how many\b|{_ADD}\b|(?:what(?:'s| is) )?the (?:number|count) of\b")),
    ("color", re.compile(rf"{_WHICH}(?:'s| is| are)?(?: the| its)? colou?rs?\b|the colou?r of")),
    ("time", re.compile(rf"when\b(?!.*,)|(?:at|in) {_WHICH} (?:time|second|moment|frame)\b")),
    ("two", re.compile(rf"(?:{_WHICH}|who)(?:'re| are)?(?: the)? two\b")),
    ("thing", re.compile(rf"(?:{_PLACED}{_WHICH}{_NO_REMARK}|whose?|whom|where|why)(?:'s|'re)?\b")),
    ("yes/no", re.compile(rf"{_VERB}{_NOT_OPEN}|whether\b|(?<=me |ow |ck |ut )if\b|true or")),
)

# A question within a clause: the leftmost cube is what color?
_LATER = re.compile(r"\b(?:(how many)|(?:what|which) colou?r)\b")

_MAY_MEAN_EITHER_OR_ANY = re.compile(
    r"^(?:do|does|did|has|have|had|can|could|will|would|should)|^\w+ (?:there|it true|this true)\b|"
    r"\b(?:any|some|every|all|each|both|either|no|none|nothing|\w+thing|\w+one)\b|\bor not\b"
)
# Of ``is one there, and where?`` and ``count both: which are more?`` any part may be answered.
_SECOND_QUESTION: dict[Kind, re.Pattern[str]] = {
    "yes/no": re.compile(r"\band (?:if so,? )?(?:what|which|who|where|how many)\b"),
    "number": re.compile(r"[,;:.] (?:is|are|do|does|which)\b"),
}

# Alternatives that name nothing: *true or false* and *one or more* ask for yes or no.
_TRUTH = re.compile(r"\btrue or false\b|\bor (?:more|less|fewer|higher|lower)$")

_NAMED = re.compile(r"([\w'-]+),? or (?:is (?:it|that) |are they )?((?:[\w'-]+ ?){1,4})$")
# The two named things of ``is it A or B`` and of ``which is bigger, A or B``.
_COMPARED = re.compile(r"[,:] (?:is it |are they )?([^,:]+?),? or ([^,:]+)$")


# Words that state how many; *none* and *no* are zero.
_COUNT = re.compile(r"\d+(?:\.0+)?|no|none|never|dozen")
# Answers that fit any two alternatives.
_NEITHER = {"both", "neither", "none", "same", "equal", "equally", "0"}
# Words of alternatives that name neither.
_SMALL_WORDS = {"more", "rather"}
# Words of alternatives that an answer may name otherwise: *the left one* is *the yellow cube*.
_IN_OTHER_WORDS = {"it", "to", "of", "on", "in", "one", "under"}

_COLOR = re.compile(
    "(?:red|green|blue|yellow|purple|cyan|brown|gray|grey|black|white|orange|pink|violet|magenta|"
    "turquoise|teal|aqua|beige|tan|gold|silver|maroon|navy|olive|lime|indigo|crimson|scarlet|"
    "lavender|ivory|cream|khaki|coral|salmon|peach|amber|bronze|copper|blond|brunette|azure|"
    "emerald|lilac|plum|rose|mint|rust|charcoal|fuchsia|burgundy|mustard|transparent|clear|"
    "colorless|colorful|multicolored|rainbow|dark|light|bright|pale|same|different)"
    "(?:d?ish|en|e)?"
)


@dataclass(frozen=True)
class ExpectedAnswer:
    """The kind of answer that a question asks for.

    Attributes:
        alternatives: the things that an ``either`` question names.
    """

    kind: Kind
    alternatives: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Return what is expected, such as ``a whole number``."""
        if self.kind == "either":
            return " or ".join(repr(text) for text in self.alternatives)
        return _WORDS[self.kind]

    def fits(self, value: Any, synonym: Callable[[str], str] = str) -> bool:
        """Return True if a value (text, a truth value or a number) is of this kind.

        Args:
            synonym: returns a text with each word replaced by the one that stands for its synonyms.
        """
        text = normalise_answer(value)
        words = text.split()
        is_truth = words[:1] in (["yes"], ["no"])
        if self.kind == "yes/no":
            return is_truth
        if self.kind == "number":
            return any(_COUNT.fullmatch(word) for word in words)
        if self.kind == "color":
            return any(_COLOR.fullmatch(word) for word in words)
        if self.kind == "either":
            named = _stems(synonym(normalise_answer(" ".join(self.alternatives))))
            return bool(_stems(synonym(text)) & ((named - _SMALL_WORDS) | _NEITHER))
        if self.kind == "two":
            return re.search(r"\b(?:and|two)\b|[,;&/]", str(value)) is not None
        return not is_truth


_WORDS = {
    "yes/no": "yes or no",
    "number": "a whole number, 0 or more",
    "color": "a color",
    "two": "two things",
    "time": "a time",
    "thing": "a thing, not yes or no",
}


@lru_cache(maxsize=1024)
def expected_answer(question: str) -> ExpectedAnswer | None:
    """Return the kind of answer that a question asks for, or None if its words leave it open."""
    text = " ".join(question.lower().replace("’", "'").split()).rstrip(" ?.!")
    for clause in (0, *(pause.end() for pause in _CLAUSE.finditer(text))):
        opening = _OPENING.match(text, clause)
        start = opening.end() if opening else clause
        for kind, head in _HEADS:
            if head.match(text, start):
                return _expected(kind, text[start:])
    later = _LATER.search(text)
    return None if later is None else ExpectedAnswer("number" if later.group(1) else "color")


def _expected(kind: Kind, clause: str) -> ExpectedAnswer | None:
    """Return what a clause that begins with a head asks for."""
    second = _SECOND_QUESTION.get(kind)
    if second is not None and second.search(clause):
        return None
    if kind not in ("yes/no", "thing") or " or " not in clause or _TRUTH.search(clause):
        return ExpectedAnswer(kind)
    named = (_COMPARED if kind == "thing" else _NAMED).search(clause)
    compares = re.search(r"\b(?:more|fewer|less)\b", clause) is not None
    is_open = kind == "yes/no" and _MAY_MEAN_EITHER_OR_ANY.search(clause) and not compares
    if named is None or is_open:
        return ExpectedAnswer("thing") if kind == "thing" else None
    alternatives = (named.group(1), named.group(2).strip())
    if set(" ".join(alternatives).split()) & _IN_OTHER_WORDS:
        return ExpectedAnswer("thing")
    return ExpectedAnswer("either", alternatives)


def _stems(text: str) -> set[str]:
    return {word.removesuffix("s") for word in text.split()}
