"""Plans with one edit, similar to the errors of a language model that misreads a query.

`edited_plans` leaves out, exchanges or rewords one step after the other and renumbers references.

They are injected as faults. Each edit describes its fault in words.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from viper.prompting.plans import numbered

COLORS = (
    "red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white",
    "gray",
)  # fmt: skip

# English words that exclude each other, used if a profile declares no families.
COMMON_FAMILIES: tuple[tuple[str, ...], ...] = (
    COLORS,
    ("big", "small"),
    ("large", "little"),
    ("wooden", "metal", "plastic", "glass"),
    ("open", "closed"),
    ("old", "young"),
)

_OPPOSITES = (
    ("left", "right"),
    ("leftmost", "rightmost"),
    ("above", "below"),
    ("over", "under"),
    ("in front of", "behind"),
    ("front", "back"),
    ("top", "bottom"),
    ("topmost", "bottommost"),
    ("highest", "lowest"),
    ("higher", "lower"),
    ("before", "after"),
    ("first", "last"),
    ("nearest", "farthest"),
    ("closest", "farthest"),
    ("nearer", "farther"),
    ("closer", "farther"),
    ("largest", "smallest"),
    ("biggest", "smallest"),
    ("larger", "smaller"),
    ("bigger", "smaller"),
    ("tallest", "shortest"),
    ("widest", "narrowest"),
    ("most", "fewest"),
    ("more", "fewer"),
)


# Words of place, order and extent, each with its opposite; of several opposites the first counts.
OPPOSITES: dict[str, str] = {}
for _word, _other in _OPPOSITES:
    OPPOSITES.setdefault(_word, _other)
    OPPOSITES.setdefault(_other, _word)

_NUMBERED = re.compile(r"^\s*\d+\.\s+")
_REFERENCE = re.compile(r"\b(steps?\s+)(\d+(?:(?:,\s*|\s+and\s+|,\s+and\s+|\s+or\s+)\d+)*)", re.I)
# A step is one sentence; a longer one is cut, since the fault becomes part of a prompt.
_LONGEST_QUOTE = 160


@dataclass(frozen=True)
class EditedPlan:
    """A plan with one edit.

    Attributes:
        kind: ``step left out``, ``steps exchanged``, ``attribute`` (another word of a family) or
            ``relation`` (the opposite of a word of place, order or extent).
        plan: the edited plan.
        fault: the fault in one or two sentences, with the step numbers of this plan.
    """

    kind: str
    plan: str
    fault: str


def edited_plans(plan: str, families: Sequence[Sequence[str]]) -> list[EditedPlan]:
    """Return every distinct plan with one edit; an empty list for a text without steps.

    Args:
        plan: numbered steps, one per line, as :func:`viper.prompting.plans.read_plan` returns them.
        families: families of words that exclude each other.
    """
    lines = plan.splitlines()
    steps = [_NUMBERED.sub("", line).strip() for line in lines if _NUMBERED.match(line)]
    edits: dict[str, EditedPlan] = {}
    for edited in _edits(steps, families):
        if edited.plan != numbered(*steps):
            edits.setdefault(edited.plan, edited)
    return list(edits.values())


def _edits(steps: Sequence[str], families: Sequence[Sequence[str]]) -> Iterator[EditedPlan]:
    """Yield the plans step by step. References stay valid if a step is left out, else as is."""
    for place, step in enumerate(steps):
        if len(steps) > 1:
            others = [*steps[:place], *steps[place + 1 :]]
            where = "at the beginning" if place == 0 else f"after step {place}"
            reason = f"A step is missing {where}: {_quoted(step)}"
            rest = numbered(*(_renumbered(other, place + 1) for other in others))
            yield EditedPlan("step left out", rest, reason)
        if place:
            before = steps[place - 1]
            changed = [*steps[: place - 1], step, before, *steps[place + 1 :]]
            order = f"Steps {place} and {place + 1} are in the wrong order"
            reason = f"{order}: {_quoted(before)} comes first"
            yield EditedPlan("steps exchanged", numbered(*changed), reason)
        for family in families:
            for word, other in itertools.permutations(family, 2):
                yield from _with_word(steps, place, word, other, "attribute")
        for word in OPPOSITES:
            if word in step.lower():
                yield from _with_word(steps, place, word, OPPOSITES[word], "relation")


def _with_word(
    steps: Sequence[str], place: int, word: str, other: str, kind: str
) -> Iterator[EditedPlan]:
    """Return one step per occurrence of a word, with that occurrence exchanged."""
    for match in re.finditer(rf"\b{re.escape(word)}\b", steps[place], re.IGNORECASE):
        put = other.capitalize() if match[0][0].isupper() else other
        step = steps[place][: match.start()] + put + steps[place][match.end() :]
        changed = [*steps[:place], step, *steps[place + 1 :]]
        reason = f"Step {place + 1} says {other} where it must say {word}"
        yield EditedPlan(kind, numbered(*changed), reason)


def _renumbered(step: str, gone: int) -> str:
    """Renumber the references of a step after another step was removed."""

    def without(match: re.Match[str]) -> str:
        meant = map(int, re.findall(r"\d+", match[2]))
        now = dict.fromkeys(number - (number > gone) for number in meant)
        if len(now) == 1:
            return f"{match[1].replace('s ', ' ')}{next(iter(now))}"
        return match[1] + " and ".join(map(str, now))

    return _REFERENCE.sub(without, step)


def _quoted(step: str) -> str:
    cut = step if len(step) <= _LONGEST_QUOTE else f"{step[: _LONGEST_QUOTE - 1]}…"
    return f'"{cut}"'
