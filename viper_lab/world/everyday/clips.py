"""Everyday questions about clips: meanings, programs, answers and words in one place.

A question asks for events (``happens``, ``does``), their objects (``which``, ``hits``, ``hit_by``,
``property``), their number (``times``), their cause (``why``), or whether they occur (``ever``,
``before``).
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from viper_lab.world.events import EVENT_KINDS, TEMPLATES, VERBS, comes_before, object_name
from viper_lab.world.everyday.phrases import NoWordingError, article, expanded, plural
from viper_lab.world.everyday.say import Wording, varied
from viper_lab.world.everyday.words import Words, in_world_words, is_held_out, world_words
from viper_lab.world.queries.programs import ATTRIBUTE_QUESTIONS
from viper_lab.world.queries.scene_nouns import attribute_words
from viper_lab.world.queries.truth import unanswerable_if
from viper_lab.world.scene import ClipEvent, SceneObject

MOMENTS = ("first", "last", "after", "before", "while", "")

CLIP_SHARES: Mapping[str, float] = {
    "happens": 0.2, "does": 0.18, "becomes": 0.05, "which": 0.16, "hits": 0.06, "hit_by": 0.06,
    "times": 0.08, "why": 0.05, "ever": 0.11, "before": 0.05, "property": 0.06,
    "count_at": 0.04, "seen": 0.03, "look_of": 0.03,
}  # fmt: skip

_ENDS = ("return info", "return select_answer(info, question, possible_answers)")

_FRAME_LINES = {
    "count_at": ["info = str(len(patches))"],
    "seen": ["info = 'yes' if len(patches) > 0 else 'no'"],
    "look_of": ["info = patches[0].simple_query('{asked}')"],
}

_WORD_PLACES = {"color": 1, "shape": 2}


@dataclass(frozen=True)
class Event:
    """An event in words: names without article."""

    kind: str
    actor: str
    target: str = ""

    def sentence(self) -> str:
        """Return the sentence with which programs name the event."""
        return TEMPLATES[self.kind][0].format(a=f"the {self.actor}", b=f"the {self.target}")


@dataclass(frozen=True)
class ClipAsk:
    """A question about a clip.

    Attributes:
        type: one of ``CLIP_SHARES``.
        moment: one of ``MOMENTS``; all but ``first``, ``last`` and "" go with ``event``.
        actor: whom it is about; "" for anything.
        kind: of the events that count.
        negated: ``never`` instead of ``ever``.
    """

    type: str
    moment: str = ""
    actor: str = ""
    kind: str = ""
    event: Event | None = None
    negated: bool = False
    word: str = ""


def draw_clip_ask(random: Random, names: Callable[[], str]) -> ClipAsk:
    """Draw a question about objects with such names."""
    type_ = random.choices(tuple(CLIP_SHARES), tuple(CLIP_SHARES.values()))[0]
    kind, actor = random.choice(EVENT_KINDS), names()
    moment = random.choices(MOMENTS, (3, 3, 4, 4, 0.6, 2))[0]
    event = _draw_event(random, names) if moment in ("after", "before", "while") else None
    if type_ == "happens":
        if not moment:
            moment = random.choice(("first", "last"))
        return ClipAsk(type_, moment, event=event)
    if type_ == "does":
        return ClipAsk(type_, moment, actor, event=event)
    if type_ in ("becomes", "why", "hits", "hit_by"):
        return ClipAsk(type_, actor=actor)
    if type_ in ("which", "property"):
        moment = random.choice(("", "first", "last", moment))
        event = event if moment in ("after", "before", "while") else None
        word = random.choice(("color", "color", "shape")) if type_ == "property" else ""
        return ClipAsk(type_, moment, kind=kind, event=event, word=word)
    if type_ == "times":
        return ClipAsk(type_, actor=actor if random.random() < 0.4 else "", kind=kind)
    if type_ == "before":
        return ClipAsk(type_, "before", actor, random.choice(("start", "stop", "appear", "fall")),
                       _draw_event(random, names))  # fmt: skip
    if type_ in ("count_at", "seen", "look_of"):
        word = random.choice(("color", "shape", "material", "size")) if type_ == "look_of" else ""
        moment = random.choice(("first", "last")) if type_ == "count_at" else ""
        if type_ == "count_at" and random.random() < 0.6:
            actor = random.choice(("thing", "object", "item"))
        if type_ == "look_of":
            actor = (
                f"{actor.split()[0]} thing"
                if word == "shape" and " " in actor
                else actor.split()[-1]
            )
        return ClipAsk(type_, moment, actor, word=word)
    about = actor if random.random() < 0.7 else ""
    if about and kind == "hit" and random.random() < 0.6:
        return ClipAsk(type_, kind="hit", event=Event("hit", actor, names()),
                       negated=random.random() < 0.2)  # fmt: skip
    return ClipAsk(type_, moment if event else "", about, kind, event, random.random() < 0.2)


def clip_names(random: Random, words: Words | None = None) -> Callable[[], str]:
    """Return a function that draws names of objects: ``red cube``, ``ball``, ``blue thing``."""
    words = words or world_words()

    def name() -> str:
        noun = random.choice(words.general if random.random() < 0.12 else words.shape)
        if random.random() < 0.2:
            return noun
        while is_held_out(name := f"{random.choice(words.color)} {noun}"):
            pass
        return name

    return name


def _draw_event(random: Random, names: Callable[[], str]) -> Event:
    kind = random.choice(EVENT_KINDS)
    return Event(kind, names(), names() if kind == "hit" else "")


def clip_program(ask: ClipAsk, *, options: bool) -> str:
    """Return the program of a question; ``options`` are there to choose from."""
    lines = [
        "def execute_command(video, question, possible_answers):",
        "video_segment = VideoSegment(video)",
    ]
    if ask.type in _FRAME_LINES:
        lines += [
            line.format(x=ask.actor, asked=ATTRIBUTE_QUESTIONS.get(ask.word))
            for line in _frame_lines(ask)
        ]
        return "\n    ".join([*lines, _ENDS[options]])
    segment = "video_segment"
    if ask.event is not None:
        routine = {"after": "after", "before": "before"}.get(ask.moment, "of")
        segment = "segment"
        sentence = ask.event.sentence()
        lines.append(f"segment = video_segment.get_video_segment_{routine}_event('{sentence}')")
    is_found = ask.type == "ever" and ask.event is not None and not ask.moment
    if not is_found:
        lines.append(f"info = {segment}.caption_video('{_asked(ask)}')")
    return "\n    ".join([*lines, *_last_lines(ask, is_found), _ENDS[options]])


def _frame_lines(ask: ClipAsk) -> list[str]:
    """Return the lines of a question about what stands on the table."""
    start = "start = video_segment.frame_from_index(0)"
    end = "end = video_segment.frame_from_index(-1)"
    if ask.type == "count_at":
        frame = "start" if ask.moment == "first" else "end"
        return [
            start if ask.moment == "first" else end,
            f"patches = {frame}.find('{{x}}')",
            *_FRAME_LINES[ask.type],
        ]
    return [start, end, "patches = start.find('{x}') + end.find('{x}')", *_FRAME_LINES[ask.type]]


def _asked(ask: ClipAsk) -> str:
    """Return the program's question to the video model."""
    if ask.type == "happens":
        return "what happens?"
    if ask.type == "hits":
        return f"what does the {ask.actor} hit?"
    if ask.type in ("hit_by", "why"):
        return f"what hits the {ask.actor}?"
    return f"what does the {ask.actor} do?" if ask.actor else f"what {VERBS[ask.kind]}?"


def _last_lines(ask: ClipAsk, is_found: bool) -> list[str]:
    verb = VERBS[ask.kind] if ask.kind else ""
    if ask.type in ("ever", "before"):
        fact = "segment.num_frames > 0" if is_found else f"'{verb}' in info"
        words = ("'no'", "'yes'") if ask.negated else ("'yes'", "'no'")
        return [f"info = {words[0]} if {fact} else {words[1]}"]
    if ask.type == "times":
        return [f"info = str(info.count('{verb}'))"]
    late = ask.moment in ("last", "before") or ask.type in ("becomes", "why")
    lines = [f"info = info.split('. ')[{-1 if late else 0}]"]
    if ask.type == "which":
        lines.append(f"info = info.split(' {verb}')[0]")
    elif ask.type == "hits":
        lines.append("info = info.split(' hits ')[-1]")
    elif ask.type == "hit_by":
        lines.append("info = info.split(' hits ')[0]")
    elif ask.type == "property":
        lines.append(f"info = info.split()[{_WORD_PLACES[ask.word]}]")
    return lines


class EverydayClipTruth:
    """The events of one clip, for everyday questions."""

    def __init__(self, objects: Sequence[SceneObject], events: Sequence[ClipEvent]) -> None:
        self._objects, self._events = objects, tuple(events)
        self.names = [object_name(thing) for thing in objects]

    def answer(self, ask: ClipAsk) -> str:
        """Return the answer as its program would with perfect tools.

        Raises:
            UnanswerableError: a presupposition fails, or the order of events is doubtful.
        """
        if ask.type in _FRAME_LINES:
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
        gone = {e.actor for e in self._events if e.kind == missing}
        there = [i for i in self._indexes(ask.actor) if i not in gone]
        if ask.type == "count_at":
            return str(len(there))
        if ask.type == "seen":
            return "yes" if there else "no"
        unanswerable_if(len(there) != 1)
        return attribute_words(self._objects[there[0]])[ask.word]

    def _words(self, ask: ClipAsk, event: ClipEvent) -> str:
        actor = self.names[event.actor]
        if ask.type in ("which", "hit_by"):
            return f"the {actor}"
        if ask.type == "hits":
            assert event.target is not None
            return f"the {self.names[event.target]}"
        if ask.type == "property":
            return actor.split()[_WORD_PLACES[ask.word] - 1]
        target = "" if event.target is None else self.names[event.target]
        return Event(event.kind, actor, target).sentence()

    def _indexes(self, name: str) -> list[int]:
        words = [w for w in in_world_words(name).split() if w not in ("thing", "object")]
        return [i for i, own in enumerate(self.names) if set(words) <= set(own.split())]

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


@cache
def _wordings() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("clip_wordings.toml").read_text("utf-8"))


def say_clip(ask: ClipAsk, random: Random, wording: Wording = "seen", *, noise: float = 0.3) -> str:
    """Return a question about a clip in words."""
    key = ask.type
    if ask.type in ("which", "property", "does", "happens", "count_at") and ask.moment:
        key += f"_{ask.moment}"
    elif ask.type in ("times", "ever") and not ask.actor and ask.event is None:
        key += "_any"
    elif ask.type == "ever" and ask.event is not None:
        key += f"_{ask.moment or 'event'}" if ask.actor or not ask.moment else "_any_part"
    if ask.negated:
        key = f"never{key.removeprefix('ever')}"
    if (
        ask.kind == "hit"
        and key in ("times_any", "ever_any", "never_any")
        and random.random() < 0.5
    ):
        key = key.replace("_any", "_hit")
    frames = _wordings()["frames"]
    texts = frames[key].get(wording, ())
    if not texts:
        raise NoWordingError(key)
    frame = expanded(random.choice(texts), random)
    slots: dict[str, str] = {
        "w": "colour" if ask.word == "color" and random.random() < 0.3 else ask.word
    }
    if ask.actor:
        slots |= {"x": f"the {ask.actor}", "xs": plural(ask.actor), "ax": article(ask.actor)}
    if ask.event is not None:
        slots |= {
            "e": _said(ask.event, "sentence", random),
            "ev": _said(ask.event, "bare", random),
            "ing": _said(ask.event, "ing", random),
        }
    if ask.kind:
        verbs = _wordings()["verbs"][ask.kind]
        for form in ("sg", "bare", "pl", "done"):
            slots[form] = random.choice(verbs[form])
            if "object" in verbs:
                slots[form] += f" {random.choice(verbs['object'])}"
    if ask.type == "before":
        slots["do"] = slots["bare"]
    if ask.moment in ("after", "before", "while") and ask.event is not None:
        slots["when"] = expanded(random.choice(_wordings()["when"][ask.moment]), random).format(
            **slots
        )
    try:
        return varied(frame.format(**slots), random, noise)
    except KeyError as missing:
        raise NoWordingError(str(missing)) from None


def verb_forms(kind: str, form: str) -> Sequence[str]:
    """Return the ways to say an event's verb in a form: ``sg``, ``bare``, ``pl`` or ``done``."""
    forms: Sequence[str] = _wordings()["verbs"][kind][form]
    return forms


def _said(event: Event, form: str, random: Random) -> str:
    """Return an event as ``the cube hits the ball``, ``the cube hit the ball`` or ``hitting``."""
    verb = random.choice(_wordings()["verbs"][event.kind][{"sentence": "sg"}.get(form, form)])
    text = f"the {event.actor} {verb}"
    return f"{text} the {event.target}" if event.target else text
