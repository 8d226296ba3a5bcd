"""Draws queries about fresh scenes and clips, with answers computed from them.

Answers are kept in balance by :class:`Balance`: a query is only taken while its
answer is not ahead of the others that the same wording could have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Generic, TypeVar

from viper.errors import UnknownNameError
from viper_lab.world.clips import sample_clip
from viper_lab.world.events import EVENT_KINDS
from viper_lab.world.layout import sample_scene
from viper_lab.world.queries import ambiguous, compositional, temporal
from viper_lab.world.queries.clip_truth import DEED_KINDS, ClipTruth
from viper_lab.world.queries.conventions import Conventions
from viper_lab.world.queries.lexicon import NoSuchNounError, head, is_general
from viper_lab.world.queries.meaning import FAMILIES, SELECTIONS, SHARES, Meaning, steps
from viper_lab.world.queries.sample import WorldSample
from viper_lab.world.queries.scene_nouns import SceneNouns
from viper_lab.world.queries.truth import SceneTruth, UnanswerableError
from viper_lab.world.render import render_scene
from viper_lab.world.scene import ClipEvent
from viper_lab.world.splits import SCENES_PER_SPLIT, check_split

PROPOSALS = 25
"""Queries tried on one scene before another one is taken."""

VAGUE_SHARE = 0.5
"""Of the queries of a data set with conventions."""

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


@dataclass(frozen=True)
class QueryRequest:
    """Whose queries are generated.

    Attributes:
        family: one of FAMILIES.
        split: whose scenes and wordings.
        name: begins the sample ids.
        conventions: what ambiguous queries mean; None asks explicit ones only.
        ambiguous_share: of the queries.
    """

    family: str
    split: str
    name: str
    conventions: Conventions | None = None
    ambiguous_share: float = 0.0


def generate(
    family: str,
    split: str,
    seed: int,
    count: int,
    *,
    conventions: Conventions | None = None,
    ambiguous_share: float = VAGUE_SHARE,
    edition: str = "",
) -> list[WorldSample]:
    """Queries of a family about scenes (or clips) of a split, one about each.

    The test split takes held-out templates only, and scenes with held-out
    attribute combinations. The same arguments give the same samples.

    Args:
        conventions: of the data set that asks; None asks explicit queries only.
        ambiguous_share: of the queries, where there are conventions.
        edition: a name for the conventions, part of the sample ids; another one draws others.

    Raises:
        UnknownNameError: for an unknown family or split.
    """
    if family not in FAMILIES:
        raise UnknownNameError("query family", family, FAMILIES)
    check_split(split)
    draw = _draw_clip_samples if family == "video" else _draw_scene_samples
    name = f"{edition} {split}" if edition else split
    asked = QueryRequest(family, split, name, conventions, ambiguous_share if conventions else 0.0)
    return draw(asked, seed, count)


VAGUE = "vague "
"""Begins the sort of an ambiguous query among the types of a family."""


def _sorts(asked: QueryRequest, random: Random) -> Iterator[str]:
    """Query types and sorts of ambiguous queries in their proportions, also in short runs."""
    weights = {
        type_: (1 - asked.ambiguous_share) * weight
        for type_, weight in SHARES[asked.family].items()
    }
    if asked.ambiguous_share:
        for sort, weight in ambiguous.WEIGHTS[asked.family].items():
            weights[VAGUE + sort] = asked.ambiguous_share * weight
    due = dict.fromkeys(weights, 0.0)
    while True:
        for type_, weight in weights.items():
            due[type_] += weight * random.uniform(0.5, 1.5)
        chosen = max(due, key=lambda type_: due[type_])
        due[chosen] -= 1
        yield chosen


def _draw_scene_samples(asked: QueryRequest, seed: int, count: int) -> list[WorldSample]:
    family, split = asked.family, asked.split
    random = Random(f"{family} {asked.name} {seed}")
    balance = Balance()
    pool = Pool(
        Random(f"scenes {family} {asked.name} {seed}"),
        lambda index: SceneTruth(render_scene(sample_scene(split, index))),
    )
    samples: list[WorldSample] = []
    for sort, number in zip(_sorts(asked, random), range(count), strict=False):
        ask = partial(_propose, asked, sort, random, balance)
        index, truth, (meaning, answer) = pool.serve(ask)
        sample_id = _sample_id(asked, seed, number)
        samples.append(
            _scene_sample(family, split, sample_id, (index, truth), (meaning, answer), random)
        )
    return samples


def _scene_sample(
    family: str,
    split: str,
    sample_id: str,
    about: tuple[int, SceneTruth],
    query: tuple[Meaning, int | str],
    random: Random,
) -> WorldSample:
    """A query about a scene, put in words."""
    (index, truth), (meaning, answer) = about, query
    template, text = compositional.say_about_scene(family, meaning, random, split)
    return WorldSample(
        sample_id=sample_id,
        family=family,
        split=split,
        text=text,
        answer=answer,
        media_index=index,
        query_type=meaning.type,
        template=template,
        steps=steps(meaning),
        meaning=meaning,
        box=truth.rendered.box(int(answer)) if family == "referring" else None,
    )


EXPRESSIONS = 4
"""Expressions about each scene of :func:`several_expressions`."""


def several_expressions(split: str, seed: int, count: int) -> list[WorldSample]:
    """Referring expressions, each ``EXPRESSIONS`` in a row about one scene, no text twice there.

    Other than :func:`generate`, which spends a scene on one query, this asks as the RefCOCO sets
    do. The last scene has fewer where ``count`` is no multiple. The same arguments give the same
    samples.
    """
    random = Random(f"several {split} {seed}")
    samples: list[WorldSample] = []
    while len(samples) < count:
        index = random.randrange(SCENES_PER_SPLIT)
        name = f"{split}-{seed}-referring{EXPRESSIONS}-{index}"
        about = _expressions(split, index, random)
        if len(about) == EXPRESSIONS:
            samples += [replace(s, sample_id=f"{name}-{n}") for n, s in enumerate(about)]
    return samples[:count]


def _expressions(split: str, index: int, random: Random) -> list[WorldSample]:
    """Expressions about one scene; fewer than wanted where it yields no more."""
    truth = SceneTruth(render_scene(sample_scene(split, index)))
    nouns = SceneNouns(truth, random, held_out=split == "test")
    found: dict[str, WorldSample] = {}
    weights = SHARES["referring"]
    for type_ in random.choices(tuple(weights), tuple(weights.values()), k=PROPOSALS):
        try:
            meaning = compositional.draw_about_scene("referring", type_, nouns, random)
            query = meaning, truth.answer(meaning)
        except (NoSuchNounError, UnanswerableError):
            continue
        sample = _scene_sample("referring", split, "", (index, truth), query, random)
        found[sample.text] = sample
        if len(found) == EXPRESSIONS:
            break
    return list(found.values())


def _sample_id(asked: QueryRequest, seed: int, number: int) -> str:
    return f"{asked.name.replace(' ', '-')}-{seed}-{asked.family}-{number}"


def _propose(
    asked: QueryRequest, sort: str, random: Random, balance: Balance, truth: SceneTruth
) -> tuple[Meaning, int | str] | None:
    """A query of a sort about one scene with its answer, or None if it yields none."""
    nouns = SceneNouns(truth, random, held_out=asked.split == "test")
    for _ in range(PROPOSALS):
        try:
            meaning = _drawn(asked, sort, nouns, random)
            answer = truth.answer(meaning)
        except (NoSuchNounError, UnanswerableError):
            continue
        if meaning.type in SELECTIONS:
            return meaning, answer
        key, value, space = answer_space(meaning, str(answer), nouns.lexicon.family)
        if balance.admits(key, value, space):
            return meaning, answer
    return None


def _drawn(asked: QueryRequest, sort: str, nouns: SceneNouns, random: Random) -> Meaning:
    if asked.conventions is not None and sort.startswith(VAGUE):
        return ambiguous.draw_ambiguous(
            asked.family, sort.removeprefix(VAGUE), nouns, random, asked.conventions
        )
    return compositional.draw_about_scene(asked.family, sort, nouns, random)


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


def _draw_clip_samples(asked: QueryRequest, seed: int, count: int) -> list[WorldSample]:
    split = asked.split
    random = Random(f"{asked.family} {asked.name} {seed}")
    balance = Balance()
    pool = Pool(Random(f"clips {asked.name} {seed}"), lambda index: _clip_truth(split, index))
    samples: list[WorldSample] = []
    for sort, number in zip(_sorts(asked, random), range(count), strict=False):
        type_, said = sort, None
        if asked.conventions is not None and sort.startswith(VAGUE):
            type_, said = ambiguous.ambiguous_types(sort.removeprefix(VAGUE), asked.conventions)
        ask = partial(_propose_clip, type_, random, balance)
        index, truth, (meaning, event) = pool.serve(ask)
        options = truth.options(meaning, event, random, held_out=split == "test")
        right = temporal.option_text(type_, truth.meaning_of(event))
        if said is not None:
            meaning = Meaning(meaning.type, {**meaning.slots, "vague": said})
        template, text = temporal.say_temporal(meaning, random, split)
        samples.append(
            WorldSample(
                sample_id=_sample_id(asked, seed, number),
                family=asked.family,
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
