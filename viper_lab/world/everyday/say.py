"""Everyday questions in words: frames of ``wordings.toml``, filled with noun phrases."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Literal

from viper_lab.world.everyday.meaning import YES_NO, Ask, One
from viper_lab.world.everyday.phrases import NoWordingError, Phrases, expanded, plural, wordings
from viper_lab.world.everyday.words import in_world_words
from viper_lab.world.vocabulary import SHAPES

Wording = Literal["seen", "held"]

# Share of questions that contract what they can.
CONTRACTED = 0.4

_CONTRACTIONS = (
    ("is not", "isn't"),
    ("are not", "aren't"),
    ("does not", "doesn't"),
    ("do not", "don't"),
    ("that is", "that's"),
    ("there is", "there's"),
    ("what is", "what's"),
)

_SLOT = re.compile(r"\{([a-z0-9]+)(?::([a-z]+))?\}")


def say(
    ask: Ask,
    random: Random,
    wording: Wording = "seen",
    *,
    statement: bool = False,
    noise: float = 0.3,
) -> str:
    """Return a question about a picture in words.

    Args:
        wording: ``held`` uses the frames that no training text holds.
        statement: say it as a statement; only for ``YES_NO`` types.

    Raises:
        NoWordingError: no frame suits the question.
        noise: share of questions with fillers, typing errors, capitals or another final mark.
    """
    name = frame_name(ask)
    frames = wordings()["frames"][name]
    texts = frames["say"] if statement and ask.type in YES_NO else frames.get(wording, ())
    for frame in random.sample(texts, len(texts)):
        try:
            text = _filled(expanded(frame, random), ask, random, noise)
        except NoWordingError:
            continue
        return varied(text, random, noise)
    raise NoWordingError(name)


def frame_name(ask: Ask) -> str:
    """Return the table of frames of a question."""
    name = ask.type
    if name == "attribute" and ask.word != "color":
        return f"attribute_{ask.word}"
    if name == "choose" and ask.one is not None and ask.one.things.kind.general:
        return "choose_shape" if in_world_words(ask.words[0]) in SHAPES else name
    if name == "relate" and ask.other is None:
        return "relate_picture"
    if name == "relate":
        return f"relate_{'_'.join(sorted(ask.words))}"
    if name == "pair":
        return f"pair_{ask.word}"
    return ask.word if name == "quantified" else name


def _filled(frame: str, ask: Ask, random: Random, noise: float) -> str:
    if random.random() < noise / 4:
        frame = _mistyped(frame, random)
    if random.random() < noise / 2:
        frame = _disturbed(frame, random)
    speaker = Phrases(random)
    slots = _slots(ask, speaker, random)

    def fill(match: re.Match[str]) -> str:
        key = ":".join(filter(None, match.groups()))
        if key not in slots:
            raise NoWordingError
        return slots[key]()

    return _SLOT.sub(fill, frame)


def _slots(ask: Ask, s: Phrases, random: Random) -> Mapping[str, Callable[[], str]]:
    """Return what each slot of a frame stands for in this question."""
    slots: dict[str, Callable[[], str]] = {
        "n": lambda: s.number(ask.number),
        "num": lambda: s.number(ask.number),
        "w": lambda: s.family(ask.word),
    }
    if ask.one is not None:
        one = ask.one
        slots |= {"one": lambda: s.one(one), "one:post": lambda: s.place(one)}
    if ask.other is not None:
        other = ask.other
        slots["other"] = lambda: s.one(_as_one(other, ask.one, random))
    anchored = ask.one or (One(ask.things) if ask.things is not None else None)
    if anchored is not None and (steps := s.steps(anchored)):
        slots |= steps
    if ask.words:
        slots |= {"w1": lambda: ask.words[0], "w2": lambda: ask.words[1]}
    if ask.type in ("compare", "choose_one"):
        slots["cmp"] = lambda: s.pick(wordings()["compared"][ask.word])
    if ask.type == "bound":
        bounds = wordings()["bounds"][ask.word]
        slots["bound"] = lambda: s.pick(bounds).replace("{n}", s.number(ask.number))
        if ask.number == 1:
            slots["bound1"] = slots["bound"]
    for mark, things in (("", ask.things), ("2", ask.others)):
        if things is not None:
            slots |= s.set_slots(things, mark)
    if ask.type == "only":
        assert ask.things is not None and ask.test is not None
        kind, shape = ask.things.kind, ask.test.word
        adjectives = " ".join(filter(None, (kind.size, kind.color, kind.material)))
        slots |= {
            "only": lambda: adjectives,
            "shape": lambda: shape,
            "shapes": lambda: plural(shape),
            "thing": lambda: kind.noun,
            "things": lambda: plural(kind.noun),
        }
    elif ask.test is not None:
        test = ask.test
        slots |= {
            "pred": lambda: s.predicate(test, "sg"),
            "pred:pl": lambda: s.predicate(test, "pl"),
        }
    if ask.type == "quantified" and ask.things is not None:
        of = ask.things
        number = "sg" if ask.number == 1 else "pl"
        slots["pln"] = lambda: s.things(of, number)
    return slots


def _as_one(other: One, first: One | None, random: Random) -> One:
    """Return ``the gray one`` or ``the gray`` for a second object of the same noun, sometimes."""
    kind = other.things.kind
    named = [word for word in (kind.size, kind.color, kind.material) if word]
    if first is None or first.things.kind.noun != kind.noun or not named:
        return other
    if random.random() < 0.4:
        return other
    noun = "" if len(named) == 1 and random.random() < 0.3 else "one"
    return replace(other, things=replace(other.things, kind=replace(kind, noun=noun)))


def varied(text: str, random: Random, noise: float) -> str:
    """Vary a question as people type: openers, closers, contractions, capitals, final marks."""
    words = wordings()["noise"]
    mark = text[-1] if text[-1] in "?." else ""
    text = text.removesuffix(mark)
    if random.random() < noise / 3:
        text = f"{random.choice(words['openers'])}{random.choice((',', ''))} {text}"
    if random.random() < noise / 3:
        text = f"{text}{random.choice((',', ''))} {random.choice(words['closers'])}"
    if random.random() < noise / 4:
        text = text.replace("the ", "", 1)
    if random.random() < CONTRACTED:
        for full, short in _CONTRACTIONS:
            text = text.replace(f" {full} ", f" {short} ")
    if random.random() < noise / 3:
        text = text[:1].upper() + text[1:]
    if random.random() < noise / 20:
        text = text.upper()
    if random.random() < noise / 2:
        mark = random.choice(("", "?", "."))
    return f"{text}{mark}"


def _disturbed(frame: str, random: Random) -> str:
    """Return a frame with a word that says nothing, or without a word that says little.

    So a writer learns not to take every unknown word for a noun.
    """
    words = frame.split(" ")
    small = [i for i, word in enumerate(words) if word in wordings()["noise"]["small"]]
    if small and random.random() < 0.4:
        del words[random.choice(small)]
        return " ".join(words)
    said = wordings()["noise"]["idle"]
    word = random.choice(said) if random.random() < 0.6 else _gibberish(random)
    words.insert(random.randint(0, len(words)), word)
    return " ".join(words)


def _gibberish(random: Random) -> str:
    syllables = [random.choice("bdfgklmnprstvz") + random.choice("aeiou") for _ in range(3)]
    return "".join(syllables)[: random.randint(3, 6)]


def _mistyped(frame: str, random: Random) -> str:
    """Return a frame with one typing error in a word that is no slot."""
    words = frame.split(" ")
    places = [i for i, word in enumerate(words) if len(word) > 3 and word.isalpha()]
    if not places:
        return frame
    place = random.choice(places)
    word = words[place]
    at = random.randrange(1, len(word) - 1)
    words[place] = random.choice(
        (
            word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            word[:at] + word[at + 1 :],
            word[:at] + word[at] + word[at:],
        )
    )
    return " ".join(words)
