"""Noun phrases of everyday questions, built freely from ``wordings.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from viper_lab.world.everyday.meaning import Kind, One, Test, Things
from viper_lab.world.everyday.words import in_world_words
from viper_lab.world.vocabulary import MATERIALS, SHAPES

NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
ORDINALS = ("first", "second", "third", "fourth")

# Relations that may be "directly" so.
_EXACT = ("left", "right", "above", "below", "front", "behind")

_ALTERNATIVES = re.compile(r"\(([^()]*)\)")


class NoWordingError(Exception):
    """This frame does not suit the question; draw another."""


@cache
def wordings() -> Mapping[str, Any]:
    """Return the tables of ``wordings.toml``."""
    return tomllib.loads(Path(__file__).with_name("wordings.toml").read_text("utf-8"))


def expanded(text: str, random: Random) -> str:
    """Choose one of each ``(a|b|)``, the innermost first."""
    while match := _ALTERNATIVES.search(text):
        chosen = random.choice(match.group(1).split("|"))
        text = text[: match.start()] + chosen + text[match.end() :]
    return " ".join(text.split())


@dataclass(frozen=True)
class Phrases:
    """Builds the phrases of one question."""

    random: Random

    def pick(self, texts: Sequence[str]) -> str:
        return expanded(self.random.choice(texts), self.random)

    def steps(self, one: One) -> dict[str, Callable[[], str]]:
        """Return slots for frames that go from the anchor to the object in two steps."""
        tests = one.things.tests
        if one.pick != "only" or len(tests) != 1 or tests[0].anchor is None or tests[0].negated:
            return {}
        test, anchor = tests[0], tests[0].anchor
        if test.type in ("alike", "apart", "between"):
            return {}
        text = self.pick(wordings()["relation"][test.type])
        pronoun = self.random.choice(("it", "it", "that one", "this one", "that"))
        return {
            "from": lambda: self.one(anchor),
            "there": lambda: text.replace("{}", pronoun),
            "noun": lambda: self.kind(one.things.kind, "sg"),
            "nouns": lambda: self.kind(one.things.kind, "pl"),
        }

    def number(self, number: int) -> str:
        return NUMBERS[number] if self.random.random() < 0.6 else str(number)

    def family(self, family: str) -> str:
        return "colour" if family == "color" and self.random.random() < 0.4 else family

    def set_slots(self, things: Things, mark: str) -> dict[str, Callable[[], str]]:
        slots = {
            f"a{mark}": lambda: self.indefinite(things),
            f"pl{mark}": lambda: self.things(things, "pl"),
        }
        if not mark:
            slots |= {
                "n1": lambda: self.things(things, "sg"),
                "post": lambda: self.predicates(things),
                "thing": lambda: self.kind(things.kind, "sg"),
                "things": lambda: self.kind(things.kind, "pl"),
                "be": lambda: "are",
            }
        return slots

    def kind(self, kind: Kind, number: str) -> str:
        """Return a noun with its adjectives, some of them behind it."""
        before = {"size": kind.size, "color": kind.color, "material": kind.material}
        order = ["size", "color", "material"]
        if self.random.random() < 0.12:
            self.random.shuffle(order)
        after = ""
        if kind.noun and self.random.random() < 0.15:
            after = self._behind(before, number)
        noun = plural(kind.noun) if number == "pl" else kind.noun
        words = [word for family in order if (word := before[family])]
        return " ".join(filter(None, [*words, noun])) + after

    def _behind(self, before: dict[str, str | None], number: str) -> str:
        """Take one adjective out and return it as a phrase behind the noun."""
        family = self.random.choice([f for f, word in before.items() if word] or [""])
        word = before.pop(family, None)
        if word is None:
            return ""
        before[family] = None
        be = "is" if number == "sg" else "are"
        forms = [f" that {be} {word}", f" which {be} {word}"]
        if family == "material":
            forms = [*forms, f" made of {word}", f" made out of {word}", f" of {word}"]
        return self.random.choice(forms)

    def things(self, things: Things, number: str) -> str:
        """Return a set as a noun phrase without article."""
        text = self.kind(things.kind, number)
        if len(things.tests) == 2 and all(t.type == "is" and t.negated for t in things.tests):
            be = "is" if number == "sg" else "are"
            words = [self.property(test, number) for test in things.tests]
            start = self.random.choice((f"that {be} neither", "neither"))
            return f"{text} {start} {words[0]} nor {words[1]}"
        for place, test in enumerate(things.tests):
            joint = " and" if place else ""
            text += f"{joint} {self.behind(test, number, bare=not place)}"
        return text

    def behind(self, test: Test, number: str, *, bare: bool) -> str:
        """Return a test behind a noun: ``that is not red``, ``left of the cube``."""
        be = "is" if number == "sg" else "are"
        phrase = self.property(test, number) if test.type == "is" else self.relation(test)
        if number == "pl" and phrase.startswith("that has "):
            phrase = phrase.replace("has", "have", 1)
        if test.type == "apart":
            return phrase
        if test.type == "alike":
            if test.negated and phrase.startswith("that "):
                raise NoWordingError
            return f"that {be} not {phrase}" if test.negated else phrase
        if test.negated:
            if in_world_words(test.word) in SHAPES and self.random.random() < 0.5:
                other_than = self.random.choice(("other than", "besides", "except", "apart from"))
                return f"{other_than} {plural(test.word)}"
            if test.type == "is" and self.random.random() < 0.3:
                return self.pick(
                    [f"that {be}n't {phrase}", f"which {be}n't {phrase}", f"without being {phrase}"]
                )
            return self.pick(
                [
                    f"that {be} not {phrase}",
                    f"which {be} not {phrase}",
                    f"not {phrase}",
                    f"that {be}n't {phrase}",
                ]
            )
        if test.type == "is":
            return self.pick([f"that {be} {phrase}", f"which {be} {phrase}"])
        if bare and test.type in wordings()["inverse"] and self.random.random() < 0.12:
            return self.inverse(test, number)
        if phrase.startswith("that "):
            return phrase
        if bare and self.random.random() < 0.6:
            return phrase
        return self.pick(
            [
                f"that {be} {phrase}",
                f"which {be} {phrase}",
                f"that's {phrase}" if be == "is" else f"that are {phrase}",
            ]
        )

    def inverse(self, test: Test, number: str) -> str:
        """Return a relation from the other side: ``with a ball on top of it``."""
        assert test.anchor is not None
        anchor = test.anchor
        name = self.one(anchor)
        if anchor.pick == "only" and self.random.random() < 0.6:
            name = article(self.things(anchor.things, "sg"))
        text = self.pick(wordings()["inverse"][test.type])
        if number == "pl":
            text = re.sub(r"\bit\b", "them", text).replace("its", "their")
            return f"{self.random.choice(('with', 'that have'))} {name} {text}"
        return f"{self.random.choice(('with', 'that has', 'which has', 'having'))} {name} {text}"

    def relation(self, test: Test) -> str:
        """Return the words of a test without negation."""
        if test.type == "is":
            return test.word
        if test.type == "side":
            return self.pick(wordings()["side"][test.word])
        assert test.anchor is not None
        if test.anchor.pick == "pair":
            pair = self.things(test.anchor.things, "pl")
            return self.pick(wordings()["relation"]["between_two"]).replace("{}", pair)
        anchor = self.one(test.anchor)
        if test.type == "alike":
            return self.pick(wordings()["alike"][test.word]).replace("{}", anchor)
        if test.type == "between":
            assert test.other is not None
            text = self.pick(wordings()["relation"]["between"])
            return text.replace("{}", anchor, 1).replace("{}", self.one(test.other), 1)
        text = self.pick(wordings()["relation"][test.type]).replace("{}", anchor)
        if test.type in _EXACT and self.random.random() < 0.15:
            return f"{self.random.choice(('directly', 'immediately', 'just', 'right'))} {text}"
        return text

    def predicates(self, things: Things) -> str:
        """Return all tests of a set as what is said of it."""
        if not things.tests:
            raise NoWordingError
        return " and ".join(self.predicate(test, "pl") for test in things.tests)

    def predicate(self, test: Test, number: str) -> str:
        """Return what follows ``is``: ``not red``, ``a ball``, ``left of the cube``."""
        phrase = self.property(test, number) if test.type == "is" else self.relation(test)
        if phrase.startswith("that ") or test.type == "apart":
            raise NoWordingError
        return f"not {phrase}" if test.negated else phrase

    def property(self, test: Test, number: str) -> str:
        """Return a property as a predicate: ``red``, ``a ball``, ``made of metal``."""
        own = in_world_words(test.word)
        if own in SHAPES:
            return article(test.word) if number == "sg" else plural(test.word)
        if own in MATERIALS and self.random.random() < 0.4:
            return f"made of {test.word}"
        return test.word

    def indefinite(self, things: Things) -> str:
        phrase = self.things(things, "sg")
        if things.kind.general and not (
            things.kind.size or things.kind.color or things.kind.material
        ):
            words = phrase.split(" ", 1)
            if self.random.random() < 0.5 and len(words) > 1:
                return f"{self.random.choice(('something', 'anything'))} {words[1]}"
        return article(phrase) if self.random.random() < 0.85 else f"any {phrase}"

    def one(self, one: One) -> str:
        """Return an object with its article."""
        tables = wordings()
        if one.pick == "only":
            article = self.random.choices(
                ("the", "the only", "the one", "the single"), (40, 2, 1, 1)
            )[0]
            return f"{article} {self.things(one.things, 'sg')}"
        if one.pick in ("nearest", "farthest"):
            assert one.anchor is not None
            text = self.pick(tables["relation"][one.pick]).replace("{}", self.one(one.anchor))
            noun = self.things(one.things, "sg")
            return f"the {noun} {self.random.choice(('that is ', 'which is ', '', '', ''))}{text}"
        noun, nouns = self.things(Things(one.things.kind), "sg"), ""
        if one.rank > 1:
            text = self.pick(tables["ordinal"][one.pick]).replace("{o}", ORDINALS[one.rank - 1])
        else:
            text = self.pick(tables["most"][one.pick])
            if "{s}" in text:
                nouns = self.kind(one.things.kind, "pl")
        head = text.replace("{}", noun).replace("{s}", nouns)
        tests = [self.behind(test, "sg", bare=True) for test in one.things.tests]
        return " ".join(["the", head, *tests])

    def place(self, one: One) -> str:
        """Return where an object is, for ``what is …?``."""
        kind = one.things.kind
        if not kind.general or kind.size or kind.color or kind.material:
            raise NoWordingError
        if one.pick == "only" and len(one.things.tests) == 1:
            test = one.things.tests[0]
            phrase = self.relation(test)
            if test.type in ("is", "apart", "alike") or phrase.startswith("that "):
                raise NoWordingError
            return f"not {phrase}" if test.negated else phrase
        if one.pick in ("nearest", "farthest") and not one.things.tests:
            assert one.anchor is not None
            text = self.pick(wordings()["relation"][one.pick])
            return text.replace("{}", self.one(one.anchor))
        raise NoWordingError


def plural(noun: str) -> str:
    """Return the plural of a noun."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def article(phrase: str) -> str:
    """Return a phrase with its indefinite article."""
    return f"{'an' if phrase[0] in 'aeiou' else 'a'} {phrase}"
