"""Answers to everyday questions about a clip, from its exact events and positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from viper_lab.world.clips import CAMERA, Clip
from viper_lab.world.events import comes_before
from viper_lab.world.everyday.clip_programs import WORD_PLACES
from viper_lab.world.everyday.clips import FRAME_TYPES, ClipAsk, Event
from viper_lab.world.everyday.words import in_world_words
from viper_lab.world.queries.scene_nouns import attribute_words
from viper_lab.world.queries.truth import unanswerable_if
from viper_lab.world.scene import CLIP_HEIGHT, CLIP_WIDTH, ClipEvent

# Least movement to a side while a thing starts, in pixels of a clip.
LEAST_WAY = 4.0


class EverydayClipTruth:
    """What happens in one clip, for everyday questions."""

    def __init__(self, clip: Clip) -> None:
        self._clip, self._objects, self._events = clip, clip.objects, clip.events

    def answer(self, ask: ClipAsk) -> str:
        """Return the answer as its program would with perfect tools.

        Raises:
            UnanswerableError: a presupposition fails, or the order of events is doubtful.
        """
        if ask.type == "way":
            return self._way(ask)
        if ask.type in FRAME_TYPES:
            return self._seen(ask)
        if ask.type == "ever" and ask.event is not None and not ask.moment:
            return "no" if bool(self._matching(ask.event)) == ask.negated else "yes"
        fitting = [e for e in self._within(ask) if self._fits(ask, e)]
        if ask.type in ("ever", "before"):
            return "no" if bool(fitting) == ask.negated else "yes"
        if ask.type == "times":
            return str(len(fitting))
        unanswerable_if(not fitting)
        late = ask.moment in ("last", "before") or ask.type in ("becomes", "why")
        if not ask.moment and ask.type not in ("becomes", "why"):
            unanswerable_if(len(fitting) != 1)
        event = fitting[-1 if late else 0]
        rest = [e for e in fitting if e is not event]
        unanswerable_if(not all(comes_before(event, e) or comes_before(e, event) for e in rest))
        return self._words(ask, event)

    def _seen(self, ask: ClipAsk) -> str:
        """Return the answer to a question about what stands on the table."""
        missing = "appear" if ask.moment == "first" else "fall" if ask.moment == "last" else ""
        if ask.type == "still":
            return self._still(ask)
        there = self._without(self._indexes(ask.actor), missing)
        if ask.type == "count_at":
            return str(len(there))
        if ask.type == "seen":
            return "yes" if there else "no"
        unanswerable_if(len(there) != 1)
        return attribute_words(self._objects[there[0]])[ask.word]

    def _still(self, ask: ClipAsk) -> str:
        """Return the name or the number of the things that are there at first and never move."""
        resting = self._without(self._indexes(ask.actor), "start")
        never_away = self._without(resting, "appear")
        unanswerable_if(never_away != resting)
        if ask.word:
            return str(len(resting))
        unanswerable_if(len(resting) != 1)
        return self._clip.names[resting[0]]

    def _way(self, ask: ClipAsk) -> str:
        """Return the side to which a thing moves at first, or whether it is the one asked for."""
        actor = self._index(ask.actor)
        starts = [e for e in self._events if e.kind == "start" and e.actor == actor]
        unanswerable_if(len(starts) != 1)
        ends = self._clip.positions[[starts[0].start, starts[0].end - 1], actor]
        across = np.diff(CAMERA.project(ends, CLIP_WIDTH, CLIP_HEIGHT)[:, 0])[0]
        unanswerable_if(not abs(across) > LEAST_WAY)
        side = "right" if across > 0 else "left"
        return side if not ask.word else "yes" if side == ask.word else "no"

    def _without(self, indexes: Sequence[int], kind: str) -> list[int]:
        """Return the objects to which no event of a kind happens."""
        actors = {event.actor for event in self._events if event.kind == kind}
        return [index for index in indexes if index not in actors]

    def _words(self, ask: ClipAsk, event: ClipEvent) -> str:
        actor = self._clip.names[event.actor]
        if ask.type in ("which", "hit_by"):
            return f"the {actor}"
        if ask.type == "hits":
            assert event.target is not None
            return f"the {self._clip.names[event.target]}"
        if ask.type == "property":
            return actor.split()[WORD_PLACES[ask.word] - 1]
        target = "" if event.target is None else self._clip.names[event.target]
        return Event(event.kind, actor, target).sentence()

    def _indexes(self, name: str) -> list[int]:
        words = [w for w in in_world_words(name).split() if w not in ("thing", "object")]
        return [i for i, own in enumerate(self._clip.names) if set(words) <= set(own.split())]

    def _index(self, name: str) -> int:
        fitting = self._indexes(name)
        unanswerable_if(len(fitting) != 1)
        return fitting[0]

    def _matching(self, event: Event) -> list[ClipEvent]:
        actor = self._index(event.actor)
        target = self._index(event.target) if event.target else None
        return [
            e
            for e in self._events
            if e.kind == event.kind and e.actor == actor and e.target == target
        ]

    def _within(self, ask: ClipAsk) -> list[ClipEvent]:
        """Return the events of the part of the clip that a question is about."""
        if ask.event is None:
            return list(self._events)
        named = self._matching(ask.event)
        unanswerable_if(len(named) != 1)
        rest = [e for e in self._events if e is not named[0]]
        earlier = [e for e in rest if comes_before(e, named[0])]
        later = [e for e in rest if comes_before(named[0], e)]
        if ask.moment == "while":
            return [e for e in rest if e not in earlier and e not in later]
        unanswerable_if(len(earlier) + len(later) != len(rest))
        return later if ask.moment == "after" else earlier

    def _fits(self, ask: ClipAsk, event: ClipEvent) -> bool:
        if ask.type in ("hit_by", "why"):
            return event.kind == "hit" and event.target == self._index(ask.actor)
        if ask.type == "hits":
            return event.kind == "hit" and event.actor == self._index(ask.actor)
        if ask.kind and event.kind != ask.kind:
            return False
        return not ask.actor or event.actor == self._index(ask.actor)
