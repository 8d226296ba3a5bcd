"""Everyday questions about rendered scenes and clips, with their answers, for scoring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from viper.schema import PixelBox, Query
from viper_lab.world.clips import sample_clip
from viper_lab.world.everyday.clip_truth import EverydayClipTruth
from viper_lab.world.everyday.clips import CLIP_SHARES, draw_clip_ask, say_clip
from viper_lab.world.everyday.draw import SHARES, draw_ask
from viper_lab.world.everyday.meaning import YES_NO, Ask, Kind, groups
from viper_lab.world.everyday.phrases import NoWordingError
from viper_lab.world.everyday.say import Wording, say
from viper_lab.world.everyday.truth import EverydayTruth
from viper_lab.world.everyday.words import Words, in_world_words, world_words
from viper_lab.world.layout import sample_scene
from viper_lab.world.queries.generate import Balance
from viper_lab.world.queries.lexicon import FAMILIES
from viper_lab.world.queries.truth import UnanswerableError
from viper_lab.world.render import render_scene

# Questions to try about one scene or clip before the next one.
TRIES = 60

# How many groups of objects a question names; the last level has questions with more, too.
LEVELS = (1, 2, 3)

_LIKE_A_SCENE_OBJECT = 0.85


@dataclass(frozen=True)
class EverydaySample:
    """A question about one scene or clip.

    Attributes:
        index: number of the scene or clip within its split.
        answer: the words of the answer, or the object's index for an expression.
        box: of an expression's object: visible pixels from the top-left corner.
    """

    sample_id: str
    split: str
    index: int
    query: Query
    type: str
    answer: str | int
    ask: object
    box: PixelBox | None = None


@dataclass(frozen=True)
class Part:
    """What a set of questions tests: wordings, compositions or synonyms that training left out.

    Attributes:
        wording: ``held`` uses held-out frames.
        compositions: only questions with held-out pairs of constructs.
        synonyms: nouns and adjectives are held-out synonyms.
    """

    wording: Wording = "seen"
    compositions: bool = False
    synonyms: bool = False


PARTS = {
    "seen": Part(),
    "wordings": Part(wording="held"),
    "compositions": Part(compositions=True),
    "synonyms": Part(synonyms=True),
}


@dataclass
class SceneKinds:
    """Kinds that are mostly true of one scene, in everyday words."""

    truth: EverydayTruth
    random: Random
    words: Words
    by_word: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for family in FAMILIES:
            for word in getattr(self.words, family):
                self.by_word.setdefault(in_world_words(word), []).append(word)

    def kind(self, *, general: bool, adjectives: int) -> Kind:
        """Return a kind, mostly one that names an object of the scene."""
        named = self.random.sample(FAMILIES[:3], adjectives)
        if self.random.random() > _LIKE_A_SCENE_OBJECT:
            noun = self.random.choice(self.words.general if general else self.words.shape)
            return Kind(noun, general, **{family: self.word(family) for family in named})
        own = self.random.choice(self.truth.scene.words)
        noun = self.random.choice(self.words.general) if general else self._said(own["shape"])
        return Kind(noun, general, **{family: self._said(own[family]) for family in named})

    def word(self, family: str) -> str:
        """Return a word of a family, mostly one that is true of an object."""
        if self.random.random() < _LIKE_A_SCENE_OBJECT:
            return self._said(self.random.choice(self.truth.scene.words)[family])
        return self.random.choice(getattr(self.words, family))

    def _said(self, word: str) -> str:
        return self.random.choice(self.by_word.get(word, [word]))


def everyday_samples(
    split: str, seed: int, count: int, part: Part = PARTS["seen"], *, clips: bool = False
) -> Iterator[EverydaySample]:
    """Yield questions about scenes (or clips) of a split, one of each; answers are balanced.

    The same arguments give the same samples.
    """
    random = Random(f"everyday {split} {seed} {part} {clips}")
    words = world_words(held_out=True) if part.synonyms else world_words()
    balance, made = Balance(), 0
    shares = CLIP_SHARES if clips else SHARES
    while made < count:
        index = random.randrange(10**8)
        wanted = random.choices(tuple(shares), tuple(shares.values()))[0]
        draw = _about_clip if clips else _about_scene
        sample = draw(split, index, random, part, words, wanted, balance)
        if sample is not None:
            made += 1
            yield sample


def everyday_question(split: str, seed: int, level: int, number: int) -> EverydaySample:
    """Return one of endlessly many questions about scenes of a split, in training wordings.

    Args:
        level: one of ``LEVELS``.
    """
    random = Random(f"everyday question {split} {seed} {level} {number}")
    coin, words = _Coin(random.choice(("yes", "no"))), world_words()
    while True:
        index = random.randrange(10**8)
        sample = _about_scene(split, index, random, PARTS["seen"], words, "", coin, level)
        if sample is not None:
            return sample


@dataclass(frozen=True)
class _Coin:
    """Admits yes or no, whichever was drawn before the question, and every other answer."""

    side: str

    def admits(self, _: object, answer: str | int, space: tuple[str, ...]) -> bool:
        return answer == self.side or self.side not in space


def _about_scene(
    split: str,
    index: int,
    random: Random,
    part: Part,
    words: Words,
    wanted: str,
    balance: Balance | _Coin,
    level: int = 0,
) -> EverydaySample | None:
    truth = EverydayTruth(render_scene(sample_scene(split, index)))
    kinds = SceneKinds(truth, random, words)
    types = SHARES if part.compositions or level else {wanted: 1.0}
    for _ in range(TRIES):
        ask = draw_ask(random, kinds, types=types, held_out=part.compositions)
        while level and min(groups(ask), LEVELS[-1]) != level:
            ask = draw_ask(random, kinds, types=types)
        try:
            answer = truth.answer(ask)
        except UnanswerableError:
            continue
        space = _space(ask, truth)
        if space and not balance.admits((ask.type, ask.word), answer, space):
            continue
        try:
            text = say(ask, random, part.wording)
        except NoWordingError:
            continue
        task = "ground" if ask.type == "refer" else "question"
        box = truth.scene.rendered.box(int(answer)) if ask.type == "refer" else None
        sample_id = f"everyday-{split}-{index}"
        query = Query(text, task, "image", (), sample_id)
        return EverydaySample(sample_id, split, index, query, ask.type, answer, ask, box)
    return None


def _space(ask: Ask, truth: EverydayTruth) -> tuple[str, ...]:
    if ask.type in YES_NO:
        return ("yes", "no")
    if ask.type == "count":
        return ("0", "1", "2", "3")
    return ()


def _about_clip(
    split: str, index: int, random: Random, part: Part, words: Words, wanted: str, balance: Balance
) -> EverydaySample | None:
    clip = sample_clip(split, index)
    truth = EverydayClipTruth(clip)
    said: dict[str, list[str]] = {}
    for family in ("color", "shape"):
        for word in getattr(words, family):
            said.setdefault(in_world_words(word), []).append(word)

    def name() -> str:
        color, shape = random.choice(clip.names).split()
        noun = random.choice(said.get(shape, [shape]))
        return (
            noun if random.random() < 0.2 else f"{random.choice(said.get(color, [color]))} {noun}"
        )

    for _ in range(TRIES):
        ask = draw_clip_ask(random, name)
        try:
            answer = truth.answer(ask)
            text = say_clip(ask, random, part.wording)
        except (UnanswerableError, NoWordingError):
            continue
        if ask.type != wanted:
            continue
        if answer in ("yes", "no") and not balance.admits(ask.type, answer, ("yes", "no")):
            continue
        sample_id = f"everyday-{split}-clip-{index}"
        query = Query(text, "choice", "video", (), sample_id)
        return EverydaySample(sample_id, split, index, query, ask.type, answer, ask)
    return None
