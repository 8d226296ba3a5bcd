"""Draws queries about fresh scenes and clips, with answers computed from them.

Answers are kept in balance by :class:`Balance`: a query is only taken while its
answer is not ahead of the others that the same wording could have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Generic, TypeVar

from viper.errors import UnknownNameError
from viper.world.clips import sample_clip
from viper.world.events import EVENT_KINDS
from viper.world.layout import sample_scene
from viper.world.queries import compositional, referring, temporal
from viper.world.queries.clip_truth import DEED_KINDS, ClipTruth
from viper.world.queries.lexicon import NoSuchNounError, head, is_general
from viper.world.queries.meaning import FAMILIES, SELECTIONS, Meaning, steps
from viper.world.queries.sample import WorldSample
from viper.world.queries.scene_nouns import SceneNouns
from viper.world.queries.texts import TYPE_WEIGHTS
from viper.world.queries.truth import SceneTruth, UnanswerableError
from viper.world.render import render_scene
from viper.world.scene import ClipEvent
from viper.world.splits import SCENES_PER_SPLIT, check_split

PROPOSALS = 25
"""Queries tried on one scene before another one is taken."""

Medium = TypeVar("Medium")
Found = TypeVar("Found")


class Balance:
    """Keeps the answers of each sort of query equally frequent."""

    def __init__(self, slack: int = 1) -> None:
        self._slack = slack
        self._counts: dict[Hashable, Counter[Hashable]] = defaultdict(Counter)

    def admits(self, key: Hashable, value: Hashable, space: Sequence[Hashable]) -> bool:
        """Whether one more ``value`` keeps ``key`` in balance; if so it is counted."""
        counts = self._counts[key]
        if value not in space or counts[value] > min(counts[v] for v in space) + self._slack - 1:
            return False
        counts[value] += 1
        return True


@dataclass
class Pool(Generic[Medium]):
    """Scenes or clips in random order; each serves one query, none is rendered in vain."""

    random: Random
    load: Callable[[int], Medium]
    waiting: dict[int, Medium] = field(default_factory=dict)

    def serve(self, ask: Callable[[Medium], Found | None]) -> tuple[int, Medium, Found]:
        """The first medium of which ``ask`` makes something; it is spent.

        Those come first that earlier queries could not use.
        """
        for index, medium in list(self.waiting.items()):
            found = ask(medium)
            if found is not None:
                del self.waiting[index]
                return index, medium, found
        while True:
            index = self.random.randrange(SCENES_PER_SPLIT)
            medium = self.load(index)
            found = ask(medium)
            if found is not None:
                return index, medium, found
            self.waiting[index] = medium


def generate(family: str, split: str, seed: int, count: int) -> list[WorldSample]:
    """Queries of a family about scenes (or clips) of a split, one about each.

    The test split takes held-out templates only, and scenes with held-out
    attribute combinations. The same arguments give the same samples.

    Raises:
        UnknownNameError: for an unknown family or split.
    """
    if family not in FAMILIES:
        raise UnknownNameError("query family", family, FAMILIES)
    check_split(split)
    draw = _draw_clip_samples if family == "video" else _draw_scene_samples
    return draw(family, split, seed, count)


def _types(family: str, random: Random) -> Iterator[str]:
    """Query types in their proportions, in random order, also in short runs."""
    weights = TYPE_WEIGHTS[family]
    due = dict.fromkeys(weights, 0.0)
    while True:
        for type_, weight in weights.items():
            due[type_] += weight * random.uniform(0.5, 1.5)
        chosen = max(due, key=lambda type_: due[type_])
        due[chosen] -= 1
        yield chosen


def _draw_scene_samples(family: str, split: str, seed: int, count: int) -> list[WorldSample]:
    random = Random(f"{family} {split} {seed}")
    balance = Balance()
    pool = Pool(
        Random(f"scenes {family} {split} {seed}"),
        lambda index: SceneTruth(render_scene(sample_scene(split, index))),
    )
    samples: list[WorldSample] = []
    for type_, number in zip(_types(family, random), range(count), strict=False):
        ask = partial(_propose, family, type_, split, random, balance)
        index, truth, (meaning, answer) = pool.serve(ask)
        say = referring.say_referring if family == "referring" else compositional.say_compositional
        template, text = say(meaning, random, split)
        box = None
        if family == "referring":
            x0, y0, x1, y1 = (float(v) for v in truth.boxes[int(answer)])
            box = (x0, y0, x1, y1)
        samples.append(
            WorldSample(
                sample_id=f"{split}-{seed}-{family}-{number}",
                family=family,
                split=split,
                text=text,
                answer=answer,
                media_index=index,
                query_type=meaning.type,
                template=template,
                steps=steps(meaning),
                meaning=meaning,
                box=box,
            )
        )
    return samples


def _propose(
    family: str, type_: str, split: str, random: Random, balance: Balance, truth: SceneTruth
) -> tuple[Meaning, int | str] | None:
    """A query of a type about one scene with its answer, or None if it yields none."""
    nouns = SceneNouns(truth, random, held_out=split == "test")
    draw = referring.draw_referring if family == "referring" else compositional.draw_compositional
    for _ in range(PROPOSALS):
        try:
            meaning = draw(type_, nouns, random)
            answer = truth.answer(meaning)
        except (NoSuchNounError, UnanswerableError):
            continue
        if meaning.type in SELECTIONS:
            return meaning, answer
        key, value, space = answer_space(meaning, str(answer), nouns.lexicon.family)
        if balance.admits(key, value, space):
            return meaning, answer
    return None


def answer_space(
    meaning: Meaning, answer: str, family: Callable[[str], Sequence[str]]
) -> tuple[Hashable, Hashable, tuple[Hashable, ...]]:
    """What is balanced: the sort of query as its text shows it, the answer, all it could be."""
    type_ = meaning.type
    if type_ == "attribute":
        words = tuple(family(meaning["attribute"]))
        return (type_, meaning["attribute"]), answer, words
    if type_ == "choose":
        return type_, answer == meaning["property"], (True, False)
    if type_ in ("more_of", "which_farther"):
        first = meaning["kind"] if type_ == "more_of" else meaning["first"]["kind"]
        return type_, answer.startswith(first), (True, False)
    if type_ in compositional.YES_NO:
        about = meaning.slots.get("property") or meaning.slots.get("relation")
        return (type_, about), answer, ("yes", "no")
    kind = meaning["kind"]
    general = is_general(kind)
    named = kind != head(kind)
    largest = 3 if general or not named else 2
    key = (type_, general, named)
    if type_ == "difference":
        return key, answer, ("1", "2")
    if type_ == "count_sum":
        return key, answer, ("2", "3") if named else ("2", "3", "4")
    if type_ != "count" and not general:
        largest = 2
    return key, answer, tuple(str(n) for n in range(largest + 1))


def _draw_clip_samples(family: str, split: str, seed: int, count: int) -> list[WorldSample]:
    random = Random(f"{family} {split} {seed}")
    balance = Balance()
    pool = Pool(Random(f"clips {split} {seed}"), lambda index: _clip_truth(split, index))
    samples: list[WorldSample] = []
    for type_, number in zip(_types(family, random), range(count), strict=False):
        ask = partial(_propose_clip, type_, random, balance)
        index, truth, (meaning, event) = pool.serve(ask)
        options = truth.options(meaning, event, random, held_out=split == "test")
        right = temporal.option_text(type_, truth.meaning_of(event))
        template, text = temporal.say_temporal(meaning, random, split)
        samples.append(
            WorldSample(
                sample_id=f"{split}-{seed}-{family}-{number}",
                family=family,
                split=split,
                text=text,
                answer=options.index(right),
                media_index=index,
                query_type=type_,
                template=template,
                steps=steps(meaning),
                meaning=meaning,
                options=tuple(options),
            )
        )
    return samples


def _clip_truth(split: str, index: int) -> ClipTruth:
    clip = sample_clip(split, index)
    return ClipTruth(clip.objects, clip.events)


def _propose_clip(
    type_: str, random: Random, balance: Balance, truth: ClipTruth
) -> tuple[Meaning, ClipEvent] | None:
    meanings = truth.meanings(type_)
    random.shuffle(meanings)
    for meaning in meanings:
        try:
            answer = truth.answer(meaning)
        except UnanswerableError:
            continue
        kinds = DEED_KINDS.get(type_, EVENT_KINDS)
        if type_ not in temporal.DO_TYPES | temporal.HAPPENS_TYPES:
            return meaning, answer
        named = meaning["event"]["kind"] if "event" in meaning else None
        if balance.admits((type_, named), answer.kind, kinds):
            return meaning, answer
    return None
