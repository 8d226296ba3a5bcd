"""Answers of queries about a clip, from its exact events, and answer options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from viper_lab.world.events import EVENT_KINDS, comes_before, object_name
from viper_lab.world.queries import temporal
from viper_lab.world.queries.meaning import Meaning
from viper_lab.world.queries.texts import object_names
from viper_lab.world.queries.truth import unanswerable_if
from viper_lab.world.scene import ClipEvent, SceneObject

Matches = Callable[[ClipEvent], bool]


class ClipTruth:
    """Events of one clip, in the terms of queries."""

    def __init__(self, objects: Sequence[SceneObject], events: Sequence[ClipEvent]) -> None:
        self.names = [object_name(thing) for thing in objects]
        self.events = tuple(events)

    def meaning_of(self, event: ClipEvent) -> Meaning:
        """Return the event as a slot of a query."""
        target = None if event.target is None else self.names[event.target]
        return temporal.event(event.kind, self.names[event.actor], target)

    def answer(self, meaning: Meaning) -> ClipEvent:
        """Return the event that answers a query.

        Raises:
            UnanswerableError: there is none, its order is doubtful, or no other event of the clip
                could be confused with it.
        """
        fitting = [event for event in self.events if self._matches(meaning)(event)]
        type_ = meaning.type
        if type_ in ("what_hit", "who_hits"):
            unanswerable_if(len(fitting) != 1)
            return fitting[0]
        if type_.endswith(("_first", "_last")):
            unanswerable_if(len(fitting) < (3 if type_.startswith("happens") else 2))
            ordered = fitting if type_.endswith("_first") else fitting[::-1]
            result = ordered[0]
        else:
            result = self._next_to(meaning, fitting)
        others = [event for event in fitting if event is not result]
        unanswerable_if(not all(comes_before(result, e) or comes_before(e, result) for e in others))
        return result

    def _next_to(self, meaning: Meaning, fitting: Sequence[ClipEvent]) -> ClipEvent:
        """Return the first fitting event after the named one, or the last before it."""
        named = next(e for e in self.events if self.meaning_of(e) == meaning["event"])
        rest = [event for event in fitting if event is not named]
        earlier = [event for event in rest if comes_before(event, named)]
        later = [event for event in rest if comes_before(named, event)]
        unanswerable_if(len(earlier) + len(later) != len(rest) or not earlier or not later)
        neighbour = later[0] if meaning.type.endswith("_after") else earlier[-1]
        # Events of the named event's own objects would reveal too much of the answer.
        named_too = named_objects(meaning)
        across = earlier if meaning.type.endswith("_after") else later
        unanswerable_if(self.names[neighbour.actor] in named_too)
        unanswerable_if(all(self.names[event.actor] in named_too for event in across))
        return neighbour

    def _matches(self, meaning: Meaning) -> Matches:
        kind, actor = meaning.slots.get("kind"), meaning.slots.get("actor")
        if meaning.type == "what_hit":
            return lambda e: e.kind == "hit" and self.names[e.actor] == actor
        if meaning.type == "who_hits":
            return lambda e: e.target is not None and self.names[e.target] == actor
        return lambda e: (
            (kind is None or e.kind == kind) and (actor is None or self.names[e.actor] == actor)
        )

    def meanings(self, type_: str) -> list[Meaning]:
        """Return all possible queries of a type; some have no answer."""
        slots: list[dict[str, str | int | Meaning]] = [{}]
        if type_ in temporal.DO_TYPES or type_ in ("what_hit", "who_hits"):
            slots = [{"actor": name} for name in self.names]
        elif type_.startswith("which"):
            slots = [{"kind": kind} for kind in temporal.WHICH_KINDS]
        if type_.endswith(("_after", "_before")):
            named = [self.meaning_of(event) for event in self.events]
            slots = [{**slot, "event": event} for slot in slots for event in named]
        return [Meaning(type_, slot) for slot in slots]

    def options(
        self, meaning: Meaning, answer: ClipEvent, random: Random, *, held_out: bool
    ) -> list[str]:
        """Return four or five options with the right one at a random place.

        The others are other events of the clip (or other objects), then plausible inventions about
        the same objects. None of them is also right.
        """
        right = temporal.option_text(meaning.type, self.meaning_of(answer))
        count = random.choice((4, 5))
        wrong: list[str] = []
        for group in self._distractors(meaning, random, held_out):
            random.shuffle(group)
            for text in group:
                if text != right and text not in wrong and len(wrong) < count - 1:
                    wrong.append(text)
        options = [right, *wrong]
        random.shuffle(options)
        return options

    def _distractors(self, meaning: Meaning, random: Random, held_out: bool) -> list[list[str]]:
        """Return groups of wrong options, the best first."""
        type_ = meaning.type
        if type_ in temporal.DO_TYPES:
            return self._other_deeds(meaning, random)
        if type_ in temporal.HAPPENS_TYPES:
            return self._other_events(meaning)
        excluded = {*named_objects(meaning), meaning.slots.get("actor")}
        doing = [
            self.names[event.actor]
            for event in self.events
            if type_.startswith("which") and event.kind == meaning["kind"]
        ]
        absent = object_names(12, random, held_out=held_out)
        groups = (doing, self.names, [name for name in absent if name not in self.names])
        return [[f"the {name}" for name in group if name not in excluded] for group in groups]

    def _other_deeds(self, meaning: Meaning, random: Random) -> list[list[str]]:
        actor = str(meaning["actor"])
        own = [self.meaning_of(e) for e in self.events if self.names[e.actor] == actor]
        others = [name for name in self.names if name != actor]
        invented = [
            temporal.event(kind, actor) for kind in DEED_KINDS[meaning.type] if kind != "hit"
        ]
        hits = [temporal.event("hit", actor, name) for name in others]
        random.shuffle(hits)
        groups = [own, [*invented, *hits[:1]], hits]
        texts = [[temporal.event_predicate(deed) for deed in group] for group in groups]
        return [*texts, [f"hits the {name}" for name in object_names(4, random) if name != actor]]

    def _other_events(self, meaning: Meaning) -> list[list[str]]:
        actors = [name for name in self.names if name not in named_objects(meaning)]
        happened = [self.meaning_of(e) for e in self.events if self.names[e.actor] in actors]
        kinds = DEED_KINDS.get(meaning.type, EVENT_KINDS)
        invented = [
            temporal.event(kind, name, other if kind == "hit" else None)
            for name in actors
            for kind in kinds
            for other in self.names
            if other != name
        ]
        return [[temporal.event_sentence(e) for e in group] for group in (happened, invented)]


def named_objects(meaning: Meaning) -> tuple[object, ...]:
    """Return the objects of the event that a query names; none if it names no event."""
    named = meaning.slots.get("event")
    if not isinstance(named, Meaning):
        return ()
    return tuple(value for slot, value in named.slots.items() if slot != "kind")


# Kinds of event that can be first, last, before or after another; other types: any kind.
DEED_KINDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("do_before", "do_first", "happens_first"), ("appear", "start", "stop", "hit")),
    **dict.fromkeys(("do_after", "do_last", "happens_last"), ("start", "stop", "fall", "hit")),
}
