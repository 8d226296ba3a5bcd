"""The plan of a meaning: the steps of its canonical program, in words.

Each step looks, asks, keeps, takes or answers. Most steps have several wordings; a later step names
an earlier one by its number. :func:`wrong_plan` returns a plan with one error and its correction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from viper_lab.world.queries.lexicon import is_general
from viper_lab.world.queries.meaning import SELECTIONS, SHARES, Meaning, SlotValue
from viper_lab.world.queries.programs import clip_question, takes_last_sentence
from viper_lab.world.queries.temporal import event_sentence
from viper_lab.world.queries.wording import (
    EXTENT_COMPARE,
    ORDINALS,
    RELATIONS,
    SIDES,
    plural,
    read_wordings,
)

_PLANS = read_wordings("plans")

# Slots that hold selections.
_SELECTED = ("of", "first", "second", "anchor", "second_anchor")

_OTHER_TIME = (("_after", "_before"), ("_first", "_last"))


def plan_steps(meaning: Meaning, random: Random) -> list[str]:
    """Return the steps of a meaning, without numbers, in a random wording."""
    steps = _Steps(random)
    if meaning.type in SHARES["video"]:
        _about_clip(steps, meaning)
    else:
        steps.select(meaning)
    return steps.lines


def wrong_plan(meaning: Meaning, random: Random) -> tuple[list[str], str] | None:
    """Return a plan with one misread slot and its critique; None if nothing can be misread.

    Both have the wording of :func:`plan_steps` for the same state of ``random``.
    """
    changed = list(_misreadings(meaning))
    state = random.getstate()
    right = plan_steps(meaning, random)
    random.shuffle(changed)
    for other in changed:
        wording = Random()
        wording.setstate(state)
        wrong = plan_steps(other, wording)
        pairs = list(zip(wrong, right, strict=False))
        place = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if place is not None:
            return wrong, f"step {place + 1} should {right[place]}"
    return None


@dataclass
class _Steps:
    """Collects steps."""

    random: Random
    lines: list[str] = field(default_factory=list)

    def say(self, *wordings: str) -> int:
        """Add a step in one of these wordings and return its number, from 1."""
        self.lines.append(self.random.choice(wordings))
        return len(self.lines)

    def find(self, kind: str) -> int:
        return self.say(f"find all {plural(kind)}", f"look for all {plural(kind)}")

    def take(self, kind: str, side: str, rank: int = 1) -> int:
        """Add the step that takes the rank-th of several from one side."""
        words, last = SIDES[side], ORDINALS[rank - 1]
        if self.random.random() < 0.3:
            other = SIDES[_PLANS["mistaken"]["side"][side]].edge
            self.say(f"sort the {plural(kind)} from {words.edge} to {other}")
            return self.say(f"take the {last} one")
        if rank > 1:
            return self.say(
                f"take the {last} one from the {words.edge}",
                f"take number {rank} from the {words.edge}",
            )
        return self.say(f"take the {words.most} one", f"take the {words.most} of them")

    def look(self, meaning: Meaning) -> dict[str, int]:
        """Add steps to the objects of the slots; return the number of each slot's last step."""
        if "relation" in meaning:
            anchor = self.select(meaning["anchor"])
            relation = RELATIONS[meaning["relation"]][0]
            self.say(f"look {relation} the one of step {anchor}", f"look {relation} step {anchor}")
            if meaning.type != "region":
                self.say(f"find all {plural(meaning['kind'])} there")
            return {}
        numbers = {slot: self.select(meaning[slot]) for slot in _SELECTED if slot in meaning}
        if "kind" in meaning and meaning.type not in ("unique", "same_color"):
            self.find(meaning["kind"])
            if meaning.type == "closest" and is_general(meaning["kind"]):
                self.say(f"leave out the one of step {numbers['anchor']}")
            if "property" in meaning:
                self.say(f"keep the ones that are {meaning['property']}")
            if "other_kind" in meaning:
                numbers["other_kind"] = self.find(meaning["other_kind"])
        return numbers

    def select(self, meaning: Meaning) -> int:
        """Add steps to a selection's object or to an answer; return the number of the last."""
        fillers: dict[str, object] = {**meaning.slots, **self.look(meaning)}
        if meaning.type in SELECTIONS and "side" in meaning:
            return self.take(meaning["kind"], meaning["side"], int(str(fillers.get("rank", 1))))
        if "attribute" in meaning:
            fillers["asked"] = _PLANS["asked"][meaning["attribute"]]
        if meaning.type == "which_farther":
            compared = (
                EXTENT_COMPARE[meaning["extent"]]
                if "extent" in meaning
                else SIDES[meaning["side"]].compare
            )
            fillers["compared"] = compared[0]
        for wordings in _PLANS["steps"][meaning.type]:
            number = self.say(*(wording.format(**fillers) for wording in wordings))
        return number


def _about_clip(s: _Steps, meaning: Meaning) -> None:
    when = meaning.type.rsplit("_", 1)[-1]
    question = clip_question(meaning)
    if "event" in meaning:
        s.say(f"take the part of the video {when} {event_sentence(meaning['event'])}")
        s.say(f"ask there: {question}", f"ask of that part: {question}")
    else:
        s.say(f"ask: {question}", f"ask of the video: {question}")
    s.say(f"take the {'last' if takes_last_sentence(meaning) else 'first'} thing that happens")
    s.say("select the answer", "select the right answer")


def _misreadings(meaning: Meaning) -> list[Meaning]:
    """Return meanings that differ in one slot, or in before and after."""
    meanings: list[Meaning] = []
    for word, other in _OTHER_TIME:
        for here, there in ((word, other), (other, word)):
            if meaning.type.endswith(here):
                meanings.append(Meaning(meaning.type.removesuffix(here) + there, meaning.slots))
    for name, value in meaning.slots.items():
        for changed in _misread_slot(name, value):
            meanings.append(Meaning(meaning.type, {**meaning.slots, name: changed}))
    return meanings


def _misread_slot(name: str, value: SlotValue) -> list[SlotValue]:
    if isinstance(value, Meaning):
        return [*_misreadings(value)] if value.type != "event" else []
    if name in _PLANS["mistaken"]:
        return [_PLANS["mistaken"][name][str(value)]]
    if name == "rank":
        return [int(value) % 3 + 1]
    if name in ("kind", "other_kind") and " " in str(value):
        return [str(value).split(" ", 1)[1]]
    return []
