"""The kind of answer that a question asks for, read from its words.

:func:`expected_answer` looks for the beginning of a question in each clause (``_HEADS``) and then
for alternatives (:func:`_expected`). Chat prompts state the kind, and an answer of another kind is
a ``wrong_type`` failure, which the setting ``on_misfit`` turns into a warning. The rules err on the
side of silence: a question that can be read in two ways, or that asks two things, expects nothing
in particular.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal

from viper.agreement import normalise_answer

Kind = Literal["yes/no", "number", "color", "either", "two", "time", "thing"]

_HELLO = (
    r"(?:hey|hi|hello|ok|okay|so|well|please|um|hmm|and|now|then|(?:have|take) a look)(?: there)?\b"
    r"[\s,.!:-]*"
)
# "Can you count more cubes than balls?" asks for no number.
_ADD = (
    "(?:count|sum|add up|(?<=mind )counting)"
    "(?! (?:(?:more|fewer|less)\\b.*\\bthan\\b|at (?:least|most) ))"
)
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

# Longer texts ask for more than one thing, and the patterns would take long.
LONGEST_QUESTION = 1_000

# Ends of sentences; a second question may follow.
_SENTENCE = re.compile(r"[.?!]+\s+")

# Pauses after which a question may begin: ``of all the cubes, which is red?``
_CLAUSE = re.compile(r"[,;:.?!]\s+|\s-\s")

_VERB = r"(?:am|is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)(?:n't|nt)?\b"
_WHICH = "(?:what|which)"
_NO_REMARK = "(?! about\\b| do you think,)"
_IN_WORDS = (
    "(?:read|write|translate|transcribe|describe|caption|list|name|summari[sz]e|explain|guess|"
    "give me)"
)
_NOT_OPEN = rf"(?! (?:{_WHICH}|how)\b| you(?:$| help\b| (?:please )?{_IN_WORDS}\b))"
_PLACED = "(?:(?:at|in|on|into|to|towards?|from|of|by|with|near|under|behind) )?"
# Beginnings of clauses that ask, the first that matches counts.
_BEGINNINGS: Mapping[Kind, str] = {
    "number": rf"how many\b|{_ADD}\b|(?:(?:what(?:'s| is) )?the )?(?:number|count) of\b",
    "color": rf"{_WHICH}(?:'s| is| are)?(?: the| its)? colou?rs?\b|(?:the )?colou?rs? of|"
    rf"{_WHICH}(?:'s| is| are) [^,]*\bcolou?r$",
    "time": rf"when\b(?!.*,)|(?:at|in) {_WHICH} (?:time|second|moment|frame)\b",
    "two": rf"(?:{_WHICH}|who)(?:'re| are)?(?: the)? two\b",
    "thing": rf"(?:{_PLACED}{_WHICH}{_NO_REMARK}|{_PLACED}who(?:se|m)?|where|why|how)(?:'s|'re)?\b",
    "yes/no": rf"{_VERB}{_NOT_OPEN}|whether\b|(?<=me |ow |ck |ut )if\b|true or|"
    r"any(?! (?:chance|clue|guess|help|hint|idea|thought))\b|"
    r"(?:(?:the )?same|(?:more|fewer|less) .*\bthan) ",
}
_HEADS = {kind: re.compile(beginning) for kind, beginning in _BEGINNINGS.items()}

# A question within a clause: the leftmost cube is what color?
_LATER = re.compile(r"\b(?:(how many)|(?:what|which) colou?r)\b|^(?:[\w'-]+ ){1,3}colou?r$")

# Requests that are no questions but want words.
_WANTS_WORDS = re.compile(
    rf"(?:{_HELLO})*(?:{_YOU}\s*)?(?:please )?(?:{_IN_WORDS}|tell me about|"
    "(?:the )?(?:brand|price|names?|text|words?|title|date) (?:of|on|in|at))\\b"
)

_MAY_MEAN_EITHER_OR_ANY = re.compile(
    r"^(?:do|does|did|has|have|had|can|could|will|would|should)|^\w+ (?:there|it true|this true)\b|"
    r"\b(?:any|some|every|all|each|both|either|no|none|nothing|\w+thing|\w+one)\b|\bor not\b|"
    r"\b(?:one|two|\d+) or (?:two|three|\d+)\b"
)
# Of ``is one there, and where?`` and ``count both: which are more?`` any part may be answered.
_SECOND_QUESTION = re.compile(
    rf".+\band (?:if so,? )?(?:{_PLACED}(?:what|which|who|where)|how|is|are|do|does|has|have)\b"
)
_SECOND_COUNT = re.compile(r"[,;:.] (?:is|are|do|does|which)\b")

# Alternatives that name nothing: *true or false* and *one or more* ask for yes or no.
_TRUTH = re.compile(r"\btrue or false\b|\bor (?:more|less|fewer|higher|lower)$")

_NAMED = re.compile(r"([\w'-]+),? or (?:is (?:it|that) |are they )?((?:[\w'-]+ ?){1,4})$")
# The two named things of ``is it A or B`` and of ``which is bigger, A or B``.
_COMPARED = re.compile(r"[,:] (?:is it |are they )?([^,:]+?),? or ([^,:]+)$")


# Words that state how many; *none* and *no* are zero.
_ZERO = {"no", "none", "never", "nobody", "nothing"}
_COUNTS = {"couple": 2, "eleven": 11, "twelve": 12, "dozen": 12, "fifteen": 15, "twenty": 20}
_COUNTS |= dict.fromkeys(_ZERO, 0)
_COUNT = re.compile(rf"\d+(?:\.0+)?|{'|'.join(_COUNTS)}")
# Answers that fit any two alternatives.
_NEITHER = {"both", "neither", "none", "same", "equal", "equally", "0"}
# Words of alternatives that name neither.
_SMALL_WORDS = {"more", "rather"}
# Words of alternatives that an answer may name otherwise: *the left one* is *the yellow cube*.
_IN_OTHER_WORDS = {"it", "to", "of", "on", "in", "one", "under"}

# Words by which a sentence about a color differs from a list of colors.
_OF_SENTENCES = {"is", "are", "was", "were", "has", "have", "looks", "seems"}

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
        sure: whether an answer of another kind is worth a second thought. One of two alternatives
            may be named in many other words: *smiling* for *laughing or crying*.
    """

    kind: Kind
    alternatives: tuple[str, ...] = ()

    @property
    def sure(self) -> bool:
        return self.kind != "either"

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
            return is_truth or words[-1:] in (["yes"], ["no"])
        if self.kind == "number":
            return any(_COUNT.fullmatch(word) for word in words)
        if self.kind == "color":
            colors = _colors(words)
            return len(colors) == 1 or (bool(colors) and _OF_SENTENCES.isdisjoint(words))
        if self.kind == "either":
            named = set(synonym(normalise_answer(" ".join(self.alternatives))).split())
            said = synonym(text)
            fitting = _stems(" ".join(named - _SMALL_WORDS))
            return bool(_stems(said) & fitting or set(said.split()) & _NEITHER)
        if self.kind == "two":
            return len(words) > 1 or "two" in words or re.search("[,;&/]", str(value)) is not None
        return not is_truth

    def read(self, text: str) -> str | int:
        """Return a text as this kind of answer: the number or color that it states, if it is one.

        *About three* is 3; the text *3* stays one, as tools and stored runs have it. A text with
        several numbers or colors, and one of another kind, stays.
        """
        words = normalise_answer(text).split()
        if self.kind == "number" and not text.isdigit():
            counts = {_COUNTS.get(w, w) for w in words if _COUNT.fullmatch(w)}
            counts = {int(float(count)) for count in counts}
            return counts.pop() if len(counts) == 1 else text
        if self.kind == "color" and not _OF_SENTENCES.isdisjoint(words):
            colors = _colors(words)
            return colors[0] if len(colors) == 1 else text
        return text


def _colors(words: Sequence[str]) -> list[str]:
    """Return the different colors among the words in order, such as ``dark green``."""
    runs = groupby(words, lambda word: _COLOR.fullmatch(word) is not None)
    return list(dict.fromkeys(" ".join(run) for is_color, run in runs if is_color))


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
    """Return the kind of answer that a question asks for, or None if its words leave it open.

    Of several sentences that ask for different kinds, any may be the one to answer.
    """
    if len(question) > LONGEST_QUESTION:
        return None
    text = " ".join(question.lower().replace("’", "'").split()).rstrip(" ?.!")
    kinds = [found for part in _SENTENCE.split(text) if (found := _of_sentence(part))]
    return kinds[0] if len({each.kind for each in kinds}) == 1 else None


def _of_sentence(text: str) -> ExpectedAnswer | None:
    for clause in (0, *(pause.end() for pause in _CLAUSE.finditer(text))):
        opening = _OPENING.match(text, clause)
        start = opening.end() if opening else clause
        for kind, head in _HEADS.items():
            if head.match(text, start):
                return _expected(kind, text[start:])
    if later := _LATER.search(text):
        return ExpectedAnswer("number" if later.group(1) else "color")
    return ExpectedAnswer("thing") if _WANTS_WORDS.match(text) else None


def _expected(kind: Kind, clause: str) -> ExpectedAnswer | None:
    """Return what a clause that begins with a head asks for."""
    if _SECOND_QUESTION.match(clause) or (kind == "number" and _SECOND_COUNT.search(clause)):
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
    """Return the beginnings of the words: *sits* is *sitting*, *cube* is not *cup*."""
    return {word[:3] for word in text.split()}
