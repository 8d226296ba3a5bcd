"""The plan of a meaning: the steps of its canonical program, in words.

One step looks, asks, keeps, takes or answers. There are several wordings of most steps; a later
step names an earlier one by its number. :func:`wrong_plan` gives a plan that goes wrong in one
place, with what should stand there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from viper_lab.world.queries.lexicon import is_general
from viper_lab.world.queries.meaning import SELECTIONS, Meaning, SlotValue
from viper_lab.world.queries.programs import clip_question, takes_last_sentence
from viper_lab.world.queries.temporal import event_sentence
from viper_lab.world.queries.wording import (
    EXTENT_COMPARE,
    ORDINALS,
    RELATIONS,
    SIDES,
    plural,
)

OPPOSITE_ENDS: Mapping[str, str] = {
    "left": "right",
    "right": "left",
    "top": "bottom",
    "bottom": "top",
    "front": "back",
    "back": "front",
}

_ASKED: Mapping[str, str] = {
    "color": "what color it is",
    "shape": "what shape it is",
    "material": "what it is made of",
    "size": "what size it is",
}

_OTHER: Mapping[str, Mapping[str, str]] = {
    "side": {**OPPOSITE_ENDS},
    "relation": {
        "left": "right",
        "right": "left",
        "above": "below",
        "below": "above",
        "front": "behind",
        "behind": "front",
    },
    "extent": {"biggest": "smallest", "smallest": "biggest"},
    "attribute": {"color": "shape", "shape": "color", "material": "color", "size": "material"},
}
"""Slot -> value -> what may be taken for it by mistake."""

_OTHER_TIME = (("_after", "_before"), ("_first", "_last"))


def plan_steps(meaning: Meaning, random: Random) -> list[str]:
    """The steps of a meaning, without numbers, in one of their wordings."""
    steps = _Steps(random)
    if meaning.type in SELECTIONS:
        steps.select(meaning)
    elif meaning.type in _QUESTIONS:
        _QUESTIONS[meaning.type](steps, meaning)
    else:
        _about_clip(steps, meaning)
    return steps.said


def wrong_plan(meaning: Meaning, random: Random) -> tuple[list[str], str] | None:
    """A plan that misreads one thing, and what is wrong with it; None where nothing can be.

    Both are in the wording that :func:`plan_steps` gives for the same state of ``random``.
    """
    changed = list(_misread(meaning))
    state = random.getstate()
    right = plan_steps(meaning, random)
    random.shuffle(changed)
    for other in changed:
        wording = Random()
        wording.setstate(state)
        wrong = plan_steps(other, wording)
        pairs = list(zip(wrong, right, strict=False))
        place = next((i for i, (one, two) in enumerate(pairs) if one != two), None)
        if place is not None:
            return wrong, f"step {place + 1} should {right[place]}"
    return None


@dataclass
class _Steps:
    """Collects steps."""

    random: Random
    said: list[str] = field(default_factory=list)

    def say(self, *wordings: str) -> int:
        """Adds a step in one of these wordings; returns its number, from 1."""
        self.said.append(self.random.choice(wordings))
        return len(self.said)

    def find(self, kind: str) -> int:
        return self.say(f"find all {plural(kind)}", f"look for all {plural(kind)}")

    def take(self, kind: str, side: str, rank: int = 1) -> int:
        """The rank-th of several from one side."""
        words, last = SIDES[side], ORDINALS[rank - 1]
        if self.random.random() < 0.3:
            other = SIDES[OPPOSITE_ENDS[side]].edge
            self.say(f"sort the {plural(kind)} from {words.edge} to {other}")
            return self.say(f"take the {last} one")
        if rank > 1:
            return self.say(
                f"take the {last} one from the {words.edge}",
                f"take number {rank} from the {words.edge}",
            )
        return self.say(f"take the {words.most} one", f"take the {words.most} of them")

    def select(self, meaning: Meaning) -> int:
        """Steps to the object that a selection denotes; the number of the last."""
        return _SELECT[meaning.type](self, meaning)

    def look_beside(self, meaning: Meaning) -> None:
        """Steps to where a region lies."""
        anchor = self.select(meaning["anchor"])
        relation = RELATIONS[meaning["relation"]][0]
        self.say(f"look {relation} the one of step {anchor}", f"look {relation} step {anchor}")


def _unique(s: _Steps, meaning: Meaning) -> int:
    return s.say(f"find the {meaning['kind']}", f"look for the {meaning['kind']}")


def _extreme(s: _Steps, meaning: Meaning) -> int:
    s.find(meaning["kind"])
    return s.take(meaning["kind"], meaning["side"], int(meaning.slots.get("rank", 1)))  # type: ignore[arg-type]


def _middle(s: _Steps, meaning: Meaning) -> int:
    s.find(meaning["kind"])
    return s.say("take the middle one", "take the one in the middle")


def _biggest(s: _Steps, meaning: Meaning) -> int:
    s.find(meaning["kind"])
    return s.say(f"take the {meaning['extent']} one", f"take the {meaning['extent']} of them")


def _measured(word: str) -> Callable[[_Steps, Meaning], int]:
    def select(s: _Steps, meaning: Meaning) -> int:
        anchor = s.select(meaning["anchor"])
        s.find(meaning["kind"])
        if word == "closest" and is_general(meaning["kind"]):
            s.say(f"leave out the one of step {anchor}")
        to = "to" if word == "closest" else "from"
        return s.say(f"take the one {word} {to} the one of step {anchor}")

    return select


def _region(s: _Steps, meaning: Meaning) -> int:
    s.look_beside(meaning)
    return s.say(f"find the {meaning['kind']} there")


def _region_extreme(s: _Steps, meaning: Meaning) -> int:
    s.look_beside(meaning)
    s.say(f"find all {plural(meaning['kind'])} there")
    return s.take(meaning["kind"], meaning["side"])


def _filtered_extreme(s: _Steps, meaning: Meaning) -> int:
    s.find(meaning["kind"])
    s.say(f"keep the ones that are {meaning['property']}")
    return s.take(meaning["kind"], meaning["side"])


def _same_color(s: _Steps, meaning: Meaning) -> int:
    s.select(meaning["anchor"])
    s.say("ask what color it is")
    return s.say(f"find the {meaning['kind']} of that color")


def _between(s: _Steps, meaning: Meaning) -> int:
    first = s.select(meaning["anchor"])
    second = s.select(meaning["second_anchor"])
    s.find(meaning["kind"])
    return s.say(f"take the one between step {first} and step {second}")


def _near_pair(s: _Steps, meaning: Meaning) -> int:
    s.find(meaning["kind"])
    other = s.find(meaning["other_kind"])
    return s.say(f"take the one closest to any of step {other}")


_SELECT: Mapping[str, Callable[[_Steps, Meaning], int]] = {
    "unique": _unique,
    "extreme": _extreme,
    "nth": _extreme,
    "middle": _middle,
    "biggest": _biggest,
    "closest": _measured("closest"),
    "farthest_from": _measured("farthest"),
    "region": _region,
    "region_extreme": _region_extreme,
    "filtered_extreme": _filtered_extreme,
    "same_color": _same_color,
    "between": _between,
    "near_pair": _near_pair,
}


def _attribute(s: _Steps, meaning: Meaning) -> None:
    s.select(meaning["of"])
    s.say(f"ask {_ASKED[meaning['attribute']]}")


def _choose(s: _Steps, meaning: Meaning) -> None:
    s.select(meaning["of"])
    s.say(f"choose between {meaning['property']} and {meaning['other_property']}")


def _verify(s: _Steps, meaning: Meaning) -> None:
    s.select(meaning["of"])
    s.say(f"say yes if it is {meaning['property']}", f"check whether it is {meaning['property']}")


def _count(s: _Steps, meaning: Meaning) -> None:
    s.find(meaning["kind"])
    s.say("count them", f"count the {plural(meaning['kind'])}")


def _count_region(s: _Steps, meaning: Meaning) -> None:
    s.look_beside(meaning)
    s.say(f"find all {plural(meaning['kind'])} there")
    s.say("count them")


def _count_filter(s: _Steps, meaning: Meaning) -> None:
    s.find(meaning["kind"])
    s.say(f"keep the ones that are {meaning['property']}")
    s.say("count them")


def _exists_region(s: _Steps, meaning: Meaning) -> None:
    s.look_beside(meaning)
    s.say(f"find all {plural(meaning['kind'])} there")
    s.say("say yes if there are any")


def _several(s: _Steps, meaning: Meaning) -> None:
    s.find(meaning["kind"])
    s.say(f"say yes if there are {meaning['least']} or more")


def _two_counts(*wordings: str) -> Callable[[_Steps, Meaning], None]:
    def write(s: _Steps, meaning: Meaning) -> None:
        s.find(meaning["kind"])
        s.find(meaning["other_kind"])
        s.say(*wordings)

    return write


def _which_farther(s: _Steps, meaning: Meaning) -> None:
    s.select(meaning["first"])
    s.select(meaning["second"])
    if "extent" in meaning:
        s.say(f"name the one that is {EXTENT_COMPARE[meaning['extent']][0]}")
    else:
        s.say(f"name the one that is {SIDES[meaning['side']].compare[0]}")


def _same(s: _Steps, meaning: Meaning) -> None:
    asked = _ASKED[meaning["attribute"]]
    first, second = s.select(meaning["first"]), s.select(meaning["second"])
    s.say(f"ask of step {first} {asked}")
    s.say(f"ask of step {second} {asked}")
    s.say("say yes if the two are the same")


_QUESTIONS: Mapping[str, Callable[[_Steps, Meaning], None]] = {
    "attribute": _attribute,
    "choose": _choose,
    "verify": _verify,
    "count": _count,
    "count_region": _count_region,
    "count_filter": _count_filter,
    "exists_region": _exists_region,
    "several": _several,
    "count_sum": _two_counts("count both", "count both and add up"),
    "difference": _two_counts("count how many more there are of step 1 than of step 2"),
    "more_of": _two_counts("name the ones that there are more of"),
    "more_than": _two_counts("say yes if there are more of step 1 than of step 2"),
    "which_farther": _which_farther,
    "same": _same,
}


def _about_clip(s: _Steps, meaning: Meaning) -> None:
    when = meaning.type.rsplit("_", 1)[-1]
    asked = clip_question(meaning)
    if "event" in meaning:
        s.say(f"take the part of the video {when} {event_sentence(meaning['event'])}")
        s.say(f"ask there: {asked}", f"ask of that part: {asked}")
    else:
        s.say(f"ask: {asked}", f"ask of the video: {asked}")
    s.say(f"take the {'last' if takes_last_sentence(meaning) else 'first'} thing that happens")
    s.say("select the answer", "select the right answer")


def _misread(meaning: Meaning) -> list[Meaning]:
    """Meanings that differ in one slot, or in before and after."""
    found: list[Meaning] = []
    for one, other in _OTHER_TIME:
        for here, there in ((one, other), (other, one)):
            if meaning.type.endswith(here):
                found.append(Meaning(meaning.type.removesuffix(here) + there, meaning.slots))
    for name, value in meaning.slots.items():
        for changed in _misread_slot(name, value):
            found.append(Meaning(meaning.type, {**meaning.slots, name: changed}))
    return found


def _misread_slot(name: str, value: SlotValue) -> list[SlotValue]:
    if isinstance(value, Meaning):
        return [*_misread(value)] if value.type != "event" else []
    if name in _OTHER:
        return [_OTHER[name][str(value)]]
    if name == "rank":
        return [int(value) % 3 + 1]
    if name in ("kind", "other_kind") and " " in str(value):
        return [str(value).split(" ", 1)[1]]
    return []
