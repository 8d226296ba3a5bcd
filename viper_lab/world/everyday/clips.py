"""Everyday questions about clips: what they mean, and the words for it.

A question asks for events (``happens``, ``does``), their objects (``which``, ``hits``, ``hit_by``,
``property``), their number (``times``), their cause (``why``), or whether they occur (``ever``,
``before``); for what is on the table (``count_at``, ``seen``, ``look_of``), what never moves
(``still``) and to which side something moves (``way``).
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from viper_lab.world.events import EVENT_KINDS, TEMPLATES
from viper_lab.world.everyday.phrases import NoWordingError, article, expanded, plural
from viper_lab.world.everyday.say import Wording, varied
from viper_lab.world.everyday.words import Words, is_held_out, world_words

MOMENTS = ("first", "last", "after", "before", "while", "")

# Nouns that fit every object of a clip.
ANYTHING = ("thing", "object", "item")

CLIP_SHARES: Mapping[str, float] = {
    "happens": 0.2, "does": 0.18, "becomes": 0.05, "which": 0.16, "hits": 0.06, "hit_by": 0.06,
    "times": 0.08, "why": 0.05, "ever": 0.11, "before": 0.05, "property": 0.06,
    "count_at": 0.04, "seen": 0.03, "look_of": 0.03, "still": 0.05, "way": 0.06,
}  # fmt: skip

# Types whose programs look at single frames.
FRAME_TYPES = ("count_at", "seen", "look_of", "still", "way")


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
        word: a family; ``count`` for the number of things that never move; ``left`` or ``right``
            where the question is whether something moves there.
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
            actor = random.choice(ANYTHING)
        if type_ == "look_of":
            actor = (
                f"{actor.split()[0]} thing"
                if word == "shape" and " " in actor
                else actor.split()[-1]
            )
        return ClipAsk(type_, moment, actor, word=word)
    if type_ == "still":
        noun = random.choice((*ANYTHING, actor.split()[-1]))
        return ClipAsk(type_, actor=noun, word=random.choice(("", "", "count")))
    if type_ == "way":
        return ClipAsk(type_, actor=actor, word=random.choice(("", "", "left", "right")))
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
    elif ask.type == "still":
        is_general = ask.actor in ANYTHING
        key += "_count" if ask.word else "_any" if is_general and random.random() < 0.5 else ""
    elif ask.type == "way" and ask.word:
        key += "_there"
    if ask.negated:
        key = f"never{key.removeprefix('ever')}"
        if key == "never" and ask.kind == "start" and random.random() < 0.6:
            key = "stays"
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
    word = "colour" if ask.word == "color" and random.random() < 0.3 else ask.word
    slots: dict[str, str] = {"w": word, "side": word}
    if ask.actor:
        slots |= {"x": f"the {ask.actor}", "xs": plural(ask.actor), "ax": article(ask.actor)}
        slots["n"] = ask.actor
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
