"""Everyday questions and programs as text alone, for training language models."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from viper_lab.world.events import EVENT_KINDS
from viper_lab.world.everyday.clip_programs import clip_program
from viper_lab.world.everyday.clips import (
    ClipAsk,
    Event,
    clip_names,
    draw_clip_ask,
    say_clip,
    verb_forms,
)
from viper_lab.world.everyday.draw import DEEPEST, SHARES, FreeKinds, draw_ask
from viper_lab.world.everyday.meaning import YES_NO
from viper_lab.world.everyday.phrases import NoWordingError
from viper_lab.world.everyday.programs import program_of
from viper_lab.world.everyday.say import Wording, say
from viper_lab.world.everyday.words import Words, in_world_words, world_words
from viper_lab.world.queries.lexicon import WORLD, Lexicon
from viper_lab.world.queries.meaning import Meaning
from viper_lab.world.queries.sample import SelectionSample, TextSample

_REFER = {"refer": 1.0}
_QUESTIONS = {type_: share for type_, share in SHARES.items() if type_ != "refer"}
_STATEMENTS = {type_: SHARES[type_] for type_ in YES_NO}

_TYPES = {"ground": _REFER, "question": _QUESTIONS, "statement": _STATEMENTS}

# Share of questions about clips that come with options.
OPTIONS_SHARE = 0.6

# Ways to say to which side something moves; an option list has one of them.
WAYS = (
    "to the {side}", "{side}", "to the {side} side", "towards the {side}", "{side}wards",
    "it goes to the {side}", "it moves {side}",
)  # fmt: skip

NO_SIDES = ("towards the camera", "away from the camera", "it does not move", "upwards")


def everyday_text(
    random: Random,
    task: str,
    *,
    lexicon: Lexicon = WORLD,
    wording: Wording = "seen",
    held_out: bool = False,
    words: Words | None = None,
    deepest: int = DEEPEST,
) -> TextSample:
    """Draw one everyday question with its program, true of no particular picture or clip.

    Args:
        task: ``ground``, ``question``, ``statement`` or ``choice``.
        lexicon: an invented one replaces the world's words and their synonyms.
        held_out: compose pairs of constructs that are held out.
        words: of nouns; None: those for training.
        deepest: most objects that lead to one object.
    """
    words = words or words_of(lexicon)
    if task == "choice":
        names = clip_names(random, words)
        clip_ask = draw_clip_ask(random, names)
        options = _options(clip_ask, random, names) if random.random() < OPTIONS_SHARE else ()
        text = say_clip(clip_ask, random, wording)
        program = clip_program(clip_ask, options=bool(options))
        return _sample(text, program, task, clip_ask.type, options)
    while True:
        ask = draw_ask(
            random, FreeKinds(random, words), types=_TYPES[task], held_out=held_out, deepest=deepest
        )
        try:
            text = say(ask, random, wording, statement=task == "statement")
        except NoWordingError:
            continue
        return _sample(text, program_of(ask), task, ask.type)


def everyday_selection(random: Random) -> SelectionSample:
    """Draw what a program found in a clip, an everyday question, and options in other words."""
    names = clip_names(random)
    ask = draw_clip_ask(random, names)
    info, answer, other = _found(ask, random, names)
    options = list(dict.fromkeys((answer, *(other() for _ in range(random.choice((1, 2, 3, 4)))))))
    random.shuffle(options)
    return SelectionSample(info, say_clip(ask, random), tuple(options), answer)


def words_of(lexicon: Lexicon) -> Words:
    """Return the words of a lexicon; for the world's own, those for training."""
    if lexicon is WORLD:
        return world_words()
    return Words(lexicon.sizes, lexicon.colors, lexicon.materials, lexicon.shapes)


def _sample(
    text: str, program: str, task: str, type_: str, options: tuple[str, ...] = ()
) -> TextSample:
    return TextSample(text, program, task, "abstract", type_, "", Meaning(type_, {}), options)


def _options(ask: ClipAsk, random: Random, names: Callable[[], str]) -> tuple[str, ...]:
    _, answer, other = _found(ask, random, names)
    options = dict.fromkeys((answer, *(other() for _ in range(random.choice((2, 3, 3, 4))))))
    shuffled = list(options)
    random.shuffle(shuffled)
    return tuple(shuffled)


def _found(
    ask: ClipAsk, random: Random, names: Callable[[], str]
) -> tuple[str, str, Callable[[], str]]:
    """Return what a program may find, the option that says so, and a source of wrong options."""
    if ask.type == "way" and not ask.word:
        side = random.choice(("left", "right"))
        other_side = "left" if side == "right" else "right"
        form = random.choice(WAYS)
        wrong_ways = [form.format(side=other_side), *NO_SIDES]
        return side, form.format(side=side), lambda: random.choice(wrong_ways)
    if ask.type in ("ever", "before", "seen", "way"):
        info = random.choice(("yes", "no"))
        return info, info, lambda: "no" if info == "yes" else "yes"
    if ask.type in ("times", "count_at") or (ask.type == "still" and ask.word):
        number = random.randint(0, 4)
        return str(number), str(number), lambda: str(random.randint(0, 6))
    if ask.type in ("property", "look_of"):
        words = getattr(world_words(), ask.word)
        info = in_world_words(random.choice(words))
        return info, info, _unlike(info, lambda: random.choice(words))
    if ask.type in ("which", "hits", "hit_by", "still"):
        name = in_world_words(names())
        shown = random.choice(("the {}", "{}", "a {}"))
        other_name = _unlike(name, names)
        info = name if ask.type == "still" else f"the {name}"
        return info, shown.format(name), lambda: shown.format(other_name())
    event = _event(random, names, ask)
    sentence = in_world_words(event.sentence())
    form = random.choice(("the {a} {v}", "{a} {v}", "it {v}", "{v}"))
    if ask.type == "happens":
        form = random.choice(("the {a} {v}", "{a} {v}"))
    if ask.type == "why":
        form = random.choice(("the {a} {v}", "because the {a} {v}", "{a} {v}"))

    def worded(event: Event) -> str:
        verb = random.choice(verb_forms(event.kind, "sg"))
        verb = f"{verb} the {event.target}" if event.target else verb
        return form.format(a=event.actor, v=verb)

    def wrong() -> str:
        while True:
            other = _event(random, names, ask)
            same_kind = other.kind == event.kind and "{a}" not in form
            if not same_kind and in_world_words(other.sentence()) != sentence:
                return worded(other)

    return sentence, worded(event), wrong


def _event(random: Random, names: Callable[[], str], ask: ClipAsk) -> Event:
    if ask.type == "why":
        return Event("hit", names(), ask.actor)
    kind = random.choice(EVENT_KINDS)
    return Event(kind, ask.actor or names(), names() if kind == "hit" else "")


def _unlike(known: str, draw: Callable[[], str]) -> Callable[[], str]:
    """Return a function that draws until it means something else."""

    def other() -> str:
        while True:
            text = draw()
            if in_world_words(text) != in_world_words(known):
                return text

    return other
