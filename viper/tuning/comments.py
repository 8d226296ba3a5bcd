"""Reads the desired answer out of a comment in words, where the comment states one for sure.

No language model and no guess: whatever could mean two things is left to a reflector that reads
words. A comment is taken apart at punctuation. What is denied (``not a pyramid``, ``rather than
3``) is taken out, and counts as an objection to the answer, as ``wrong`` and ``no`` do. Then:

- Praise alone (``correct``, ``yes, exactly``) says that the answer which was given is desired.
- A statement has the form ``[subject] is value``, or is the value alone; ``should be``, ``must
  be``, ``should have been`` and their like are ``is``. Its subject may only hold words of the query
  and words that mean the answer (``it``, ``there``, ``the right answer``): of anything else it says
  nothing about the answer.
- yes or no: the word that is stated. The word by itself counts unless it is also an objection to
  the answer that was given: ``no`` after the answer *no* may mean either. ``wrong`` is the other.
- numbers: digits, or words from zero to twelve, with nothing after them but words of the query;
  ``one more``, ``two are hidden`` and two different numbers are not read.
- options: the one that is named; of two options, an objection means the other one.
- other words: the one of the answer's own family (a color where a color was answered), or of any
  known family where the answer is of none; whatever follows ``the answer is``.

An answer that is objected to is never the desired one. Boxes, pictures and tags are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from viper.agreement import normalised
from viper.schema import Answer, Query
from viper.tuning.comment_words import (
    MEANS_THE_ANSWER,
    NUMBERS,
    OBJECTION,
    PRAISE,
    SMALL,
    TRUTHS,
    UNSURE,
)

Families = Sequence[Sequence[str]]
"""Of words that exclude each other: answers that are known."""

LONGEST_READ = 400
"""Characters; a longer comment tells a story, and no answer is read out of it."""

_PUNCTUATION = re.compile(r"[;:!?()\"\n]+|[.,]+(?!\d)|\s[-–—]+\s")
_SPELLED = (
    (re.compile(r"[’‘´`]"), "'"),
    (re.compile(r"\bcan't\b|\bcannot\b"), "can not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\b(it|that|there|what|answer)'s\b"), r"\1 is"),
    (re.compile(r"\bthey're\b"), "they are"),
    (re.compile(r"\bnot (?:quite )?(?:true|right|correct)\b"), "wrong"),
    (
        re.compile(
            r"\b(?:should|must|would|ought to)(?: rather| only| really)? (?:have been|be)\b"
        ),
        "is",
    ),
)
_DENIAL = re.compile(
    r"\b(?:not|never|rather than|instead of)\b.*?(?=\bbut\b|\b(?:it|there|they) (?:is|are)\b|$)"
)
_IS = re.compile(r"^(?:(?P<subject>.*?)\s+)?(?:is|are|was|were|equals)\s+(?P<value>.+)$")
_OPENING = re.compile(
    r"^(?:no|yes|wrong|well|but|and|so|because|actually) (?=(?:it|that|there|they|the|this|i|we)\b)"
)
_LEADING = re.compile(
    r"^(?:(?:and|but|so|because|actually|really|i think|i see|i count|we see|an?|the|only|just|"
    r"exactly|clearly|in fact|indeed|rather)\s+)+"
)
_DIGITS = re.compile(r"-?\d{1,9}(?:\.\d{1,9})?")
_YES_NO = re.compile(
    r"^(?:is|are|was|were|does|do|did|can|could|has|have|had|will|would|should)\b(?!.*\bor\b)"
)
_COUNTS = re.compile(r"\b(?:how many|number of)\b")


@dataclass(frozen=True)
class Reading:
    """What a comment says of the answer.

    Attributes:
        desired: as :class:`viper.tuning.case.Case` takes it; None where none is stated for sure.
        why: how it was read, or why it was not; for people.
    """

    desired: Any
    why: str


def read_comment(
    comment: str, query: Query, answer: Answer | None, families: Families = ()
) -> Reading:
    """The desired answer that a comment states; see the module.

    Args:
        query: its task is resolved, never ``auto``.
        answer: what was answered; None where nothing was.
    """
    if not comment.strip():
        return Reading(None, "there is no comment")
    if len(comment) > LONGEST_READ:
        return Reading(None, f"a comment of more than {LONGEST_READ} characters is not read")
    said = _Said.of(comment)
    given = None if answer is None else _given(answer, query.task)
    if given is not None and _praises(said, query):
        return Reading(given, "praise: the answer that was given is right")
    found = list(dict.fromkeys(_read(said, query, answer, families)))
    if len(found) > 1:
        return Reading(None, f"names several answers: {', '.join(map(str, found))}")
    if not found:
        return Reading(None, "states no answer that can be read for sure")
    if said.objects and given is not None and normalised(found[0]) == normalised(given):
        return Reading(None, "objects to the answer and states the same one")
    return Reading(found[0], f"states the answer {found[0]!r}")


@dataclass(frozen=True)
class _Said:
    """A comment taken apart.

    Attributes:
        clauses: lower case, without what is denied and without empty ones.
        objects: whether it says that the answer is wrong.
        denies: whether it denies something.
    """

    clauses: tuple[str, ...]
    objects: bool
    denies: bool

    @classmethod
    def of(cls, comment: str) -> _Said:
        text = comment.lower()
        for pattern, plain in _SPELLED:
            text = pattern.sub(plain, text)
        whole = [" ".join(clause.split()) for clause in _PUNCTUATION.split(text)]
        left = [" ".join(_DENIAL.sub(" ", clause).split()) for clause in whole]
        denies = left != whole
        objection = any(map(_objects, left))
        return cls(tuple(filter(None, left)), denies or objection, denies)

    def statements(self, query: Query) -> Iterator[tuple[str, str]]:
        """Subject and value of each clause that may say something about the answer."""
        known = {*_stems(query.text), *SMALL, *MEANS_THE_ANSWER}
        for clause in self.clauses:
            clause = _OPENING.sub("", clause)
            match = _IS.match(clause)
            subject = (match and match["subject"]) or ""
            value = match["value"] if match else clause
            if all(word in known or word.removesuffix("s") in known for word in subject.split()):
                yield subject, _LEADING.sub("", value)


def _given(answer: Answer, task: str) -> Any:
    """The answer as a desired one would be; None of tasks that are not read."""
    found = {"ground": answer.box, "choice": answer.choice_index, "edit": None, "tag": None}
    return found.get(task, answer.value)


def _praises(said: _Said, query: Query) -> bool:
    words = set().union(*map(_content, said.clauses))
    if said.objects or not words or not words <= PRAISE:
        return False
    known = {*_stems(query.text), *chain(*map(_stems, query.options))}
    sides = query.task == "ground" or {"left", "right"} & known
    unclear = ({"right"} if sides else set()) | ({"yes", "true"} if _is_truth(query) else set())
    return bool(words - unclear - known)


def _read(said: _Said, query: Query, answer: Answer | None, families: Families) -> Iterator[Any]:
    if query.task == "choice":
        yield from _options(said, query, answer)
    elif query.task == "statement" or _is_truth(query, answer):
        for truth in _truths(said, query, None if answer is None else TRUTHS.get(_word(answer))):
            yield truth if query.task == "statement" else ("yes" if truth else "no")
    elif query.task == "question" and _is_count(query, answer):
        yield from _counts(said, query)
    elif query.task == "question":
        yield from _words(said, query, answer, families)


def _options(said: _Said, query: Query, answer: Answer | None) -> Iterator[int]:
    options = [" ".join(normalised(option).split()) for option in query.options]
    given = None if answer is None else answer.choice_index
    spoken = normalised(" ; ".join(said.clauses))
    named = [n for n, option in enumerate(options) if _holds(spoken, option)]
    named = [n for n in named if not any(_holds(options[o], options[n]) for o in named if o != n)]
    if set(options) <= {"yes", "no"}:
        was = None if given is None else options[given] == "yes"
        yield from (options.index("yes" if one else "no") for one in _truths(said, query, was))
    elif named:
        yield from named
    elif said.objects and given is not None and len(options) == 2:
        yield 1 - given


def _truths(said: _Said, query: Query, given: bool | None) -> Iterator[bool]:
    stated = {TRUTHS[value] for subject, value in said.statements(query)
              if subject and value in TRUTHS}  # fmt: skip
    spoken = {TRUTHS[clause] for clause in said.clauses if clause in TRUTHS}
    if stated or len(spoken) > 1:
        yield from stated | (spoken if len(spoken) > 1 else set())
        return
    first = _content(said.clauses[0]) if said.clauses else set()
    if len(first) == 1 and first <= set(TRUTHS):
        truth = TRUTHS[next(iter(first))]
        if given is None or (given and not truth) or (given and truth and not said.objects):
            yield truth
    elif given is not None and first and first <= OBJECTION:
        yield not given


def _counts(said: _Said, query: Query) -> Iterator[int | float]:
    """Numbers that are stated; nothing where another number is named in passing."""
    known = {*_stems(query.text), *SMALL}
    found: list[int | float] = []
    named = 0
    for clause in said.clauses:
        named += sum(_number(word) is not None and word != "one" for word in clause.split())
    for _, value in said.statements(query):
        first, *rest = value.split() or [""]
        number = 0 if first == "no" and rest else _number(first)
        if number is not None and all(w in known or w.removesuffix("s") in known for w in rest):
            found.append(number)
            named -= first not in ("one", "no")
    if not named:
        yield from found


def _words(said: _Said, query: Query, answer: Answer | None, families: Families) -> Iterator[str]:
    given = "" if answer is None else _word(answer)
    own = [family for family in families if given in map(normalised, family)]
    known = {normalised(word): word for word in chain(*(own or families))}
    nouns = {*_stems(query.text), *SMALL}
    for subject, value in said.statements(query):
        words = value.split()
        if not words:
            continue
        if words[0] in known and all(word in nouns for word in words[1:]):
            yield known[words[0]]
        elif "answer" in subject.split() and len(words) <= 4 and not UNSURE & set(words):
            yield value


def _is_truth(query: Query, answer: Answer | None = None) -> bool:
    if query.task == "statement":
        return True
    return _word(answer) in ("yes", "no") if answer else bool(_YES_NO.match(query.text.lower()))


def _is_count(query: Query, answer: Answer | None) -> bool:
    if answer is not None and _DIGITS.fullmatch(_word(answer)):
        return True
    return bool(_COUNTS.search(query.text.lower()))


def _word(answer: Answer) -> str:
    return normalised(answer.value)


def _number(word: str) -> int | float | None:
    if _DIGITS.fullmatch(word):
        return float(word) if "." in word else int(word)
    return NUMBERS.get(word)


def _objects(clause: str) -> bool:
    """Whether a clause says that the answer is wrong, and states none."""
    match = _IS.match(clause)
    if match and match["subject"] and match["value"] in TRUTHS:
        return False
    content = _content(clause)
    return bool(content) and content <= OBJECTION


def _content(clause: str) -> set[str]:
    """The words of a clause that say something by themselves."""
    return set(clause.split()) - SMALL | (set(clause.split()) & PRAISE)


def _stems(text: str) -> set[str]:
    words = re.findall(r"\w+", text.lower())
    return {*words, *(word.removesuffix("s") for word in words)}


def _holds(text: str, phrase: str) -> bool:
    """Whether the words of a phrase stand together in a text."""
    return bool(phrase) and re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None
