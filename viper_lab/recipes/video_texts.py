"""Descriptions of true and untrue events of a clip, to train the video model on."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np

from viper_lab.world.events import EVENT_KINDS, TEMPLATES, object_name, short_names
from viper_lab.world.scene import ClipEvent, RenderedClip, SceneObject
from viper_lab.world.splits import combinations
from viper_lab.world.vocabulary import COLOURS, MATERIALS, SHAPES, SIZES

# Index of an object that is not in the clip, or of an empty role of a text.
NOWHERE = -1


@dataclass(frozen=True)
class ClipText:
    """A text about a clip and its truth.

    Attributes:
        text: e.g. ``the red cube hits the ball``.
        objects: indexes of actor and target, or NOWHERE.
        nouns: (colour id, shape id) that the text names for both; the number of colours or shapes
            if it names none.
        window: frames ``[start, end)`` of the event, or None if it does not happen.
    """

    text: str
    objects: tuple[int, int]
    nouns: tuple[tuple[int, int], tuple[int, int]]
    window: tuple[int, int] | None


@dataclass(frozen=True)
class _Mention:
    """A noun phrase, its object and its words."""

    text: str
    index: int
    noun: tuple[int, int]


_NOBODY = _Mention("", NOWHERE, (len(COLOURS), len(SHAPES)))

# Kind, actor, target (NOWHERE if none).
Fact = tuple[str, int, int]


def words() -> list[str]:
    """Return every word that a training text can hold."""
    templates = " ".join(t for group in TEMPLATES.values() for t in group)
    plain = templates.replace("{a}", "").replace("{b}", "").split()
    return [*plain, *COLOURS, *SHAPES, *MATERIALS, *SIZES, "thing", "object", "the", "a", "an"]


def claims(clip: RenderedClip, rng: np.random.Generator, count: int) -> list[ClipText]:
    """Return ``count`` texts: every event of the clip, and events that do not happen in it."""
    happened = {_fact(event): event for event in clip.events}
    texts = [_claim(clip, fact, rng, event) for fact, event in happened.items()][:count]
    for fact in _untrue(clip.objects, happened.keys(), rng):
        if len(texts) == count:
            break
        texts.append(_claim(clip, fact, rng, None))
    while len(texts) < count:
        texts.append(_about_strangers(clip, rng))
    return texts


def _fact(event: ClipEvent) -> Fact:
    return (event.kind, event.actor, NOWHERE if event.target is None else event.target)


def _untrue(
    objects: Sequence[SceneObject], happened: Set[Fact], rng: np.random.Generator
) -> list[Fact]:
    """Return untrue facts that resemble the true ones, hits of wrong pairs among the first."""
    count = len(objects)
    hits = [("hit", a, b) for a in range(count) for b in range(count) if a != b]
    others = [(kind, a, NOWHERE) for kind in EVENT_KINDS if kind != "hit" for a in range(count)]
    true_hits = [fact for fact in happened if fact[0] == "hit"]
    swapped = [("hit", b, a) for _, a, b in true_hits]
    near = [hit for hit in hits if any(hit[1] == t[1] or hit[2] == t[2] for t in true_hits)]
    rng.shuffle(hits)
    rng.shuffle(others)
    pool = [*swapped, *near[:2], *others[:6], *hits[:1]]
    typed: list[Fact] = [(str(kind), int(a), int(b)) for kind, a, b in pool]
    return [fact for fact in dict.fromkeys(typed) if fact not in happened]


def _claim(
    clip: RenderedClip, fact: Fact, rng: np.random.Generator, event: ClipEvent | None
) -> ClipText:
    kind, actor, target = fact
    window = None if event is None else (event.start, event.end)
    second = _NOBODY if target == NOWHERE else _mention(clip.objects, target, rng)
    return _compose(kind, _mention(clip.objects, actor, rng), second, window, rng)


def _compose(
    kind: str,
    first: _Mention,
    second: _Mention,
    window: tuple[int, int] | None,
    rng: np.random.Generator,
) -> ClipText:
    templates = TEMPLATES[kind]
    which = 0 if rng.random() < 0.4 else int(rng.integers(len(templates)))
    text = templates[which].format(a=first.text, b=second.text)
    return ClipText(text, (first.index, second.index), (first.noun, second.noun), window)


def _about_strangers(clip: RenderedClip, rng: np.random.Generator) -> ClipText:
    """Return a text about an absent object, which often resembles a present one."""
    present = {object_name(thing) for thing in clip.objects}
    pairs = [pair for pair in combinations("train") if " ".join(pair) not in present]
    like = clip.objects[int(rng.integers(len(clip.objects)))]
    near = [pair for pair in pairs if pair[0] == like.colour or pair[1] == like.shape]
    pool = near if rng.random() < 0.6 else pairs
    colour, shape = pool[int(rng.integers(len(pool)))]
    noun = (COLOURS.index(colour), SHAPES.index(shape))
    stranger = _Mention(_article(rng) + f"{colour} {shape}", NOWHERE, noun)
    kind = str(rng.choice(EVENT_KINDS))
    if kind != "hit":
        return _compose(kind, stranger, _NOBODY, None, rng)
    mention = _mention(clip.objects, int(rng.integers(len(clip.objects))), rng)
    pair = (stranger, mention) if rng.random() < 0.5 else (mention, stranger)
    return _compose(kind, *pair, None, rng)


def _mention(objects: Sequence[SceneObject], index: int, rng: np.random.Generator) -> _Mention:
    thing = objects[index]
    colour, shape = COLOURS.index(thing.colour), SHAPES.index(thing.shape)
    name, noun = object_name(thing), (colour, shape)
    style = rng.random()
    short = short_names(index, objects)
    if style < 0.25 and short:
        name = str(rng.choice(short))
        noun = (len(COLOURS), shape) if name == thing.shape else (colour, len(SHAPES))
    elif style < 0.31:
        name = f"{thing.size} {name}"
    elif style < 0.37:
        name = f"{thing.colour} {thing.material} {thing.shape}"
    return _Mention(_article(rng) + name, index, noun)


def _article(rng: np.random.Generator) -> str:
    style = rng.random()
    return "the " if style < 0.75 else "" if style < 0.95 else "a "
