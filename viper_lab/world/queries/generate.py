"""Draws queries about fresh scenes and clips, with answers computed from them.

:class:`Balance` keeps answers balanced: it accepts a query only while its answer is not ahead of
the other possible answers to the same wording.
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
"""Number of queries to try on one scene before the next one."""

VAGUE_SHARE = 0.5
"""Share of ambiguous queries in a data set with conventions."""

Medium = TypeVar("Medium")
Found = TypeVar("Found")


class Balance:
    """Keeps the answers of each sort of query equally frequent."""

    def __init__(self, slack: int = 1) -> None:
        self._slack = slack
        self._counts: dict[Hashable, Counter[Hashable]] = defaultdict(Counter)

    def admits(self, key: Hashable, value: Hashable, space: Sequence[Hashable]) -> bool:
        """Return whether one more ``value`` keeps ``key`` in balance; if so, count it."""
        counts = self._counts[key]
        if value not in space or counts[value] > min(counts[v] for v in space) + self._slack - 1:
            return False
        counts[value] += 1
        return True


@dataclass
class Pool(Generic[Medium]):
    """Scenes or clips in random order; each serves one query, and no rendering is wasted."""

    random: Random
    load: Callable[[int], Medium]
    waiting: dict[int, Medium] = field(default_factory=dict)

    def serve(self, ask: Callable[[Medium], Found | None]) -> tuple[int, Medium, Found]:
        """Return the first medium for which ``ask`` returns a result, and use it up.

        Media that earlier queries rejected come first.
        """
        for index, medium in list(self.waiting.items()):
            result = ask(medium)
            if result is not None:
                del self.waiting[index]
                return index, medium, result
        while True:
            index = self.random.randrange(SCENES_PER_SPLIT)
            medium = self.load(index)
            result = ask(medium)
            if result is not None:
                return index, medium, result
            self.waiting[index] = medium


@dataclass(frozen=True)
class QueryRequest:
    """The data set whose queries are generated.

    Attributes:
        family: one of FAMILIES.
        split: source of scenes and wordings.
        name: prefix of the sample ids.
        conventions: meaning of ambiguous queries; None: explicit ones only.
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
    """Return queries of a family about scenes (or clips) of a split, one per scene.

    The test split uses held-out templates only, and scenes with held-out attribute combinations.
    The same arguments give the same samples.

    Args:
        conventions: of the data set; None: explicit queries only.
        ambiguous_share: of the queries, if there are conventions.
        edition: a name for the conventions, part of the sample ids; another name gives other draws.

    Raises:
        UnknownNameError: for an unknown family or split.
    """
    if family not in FAMILIES:
        raise UnknownNameError("query family", family, FAMILIES)
    check_split(split)
    draw = _draw_clip_samples if family == "video" else _draw_scene_samples
    name = f"{edition} {split}" if edition else split
    request = QueryRequest(
        family, split, name, conventions, ambiguous_share if conventions else 0.0
    )
    return draw(request, seed, count)


VAGUE = "vague "
"""Prefix of the sort of an ambiguous query among the types of a family."""


def _sorts(request: QueryRequest, random: Random) -> Iterator[str]:
    """Yield query types and sorts of ambiguous queries in their shares, also in short runs."""
    weights = {
        type_: (1 - request.ambiguous_share) * weight
        for type_, weight in SHARES[request.family].items()
    }
    if request.ambiguous_share:
        for sort, weight in ambiguous.WEIGHTS[request.family].items():
            weights[VAGUE + sort] = request.ambiguous_share * weight
    due = dict.fromkeys(weights, 0.0)
    while True:
        for type_, weight in weights.items():
            due[type_] += weight * random.uniform(0.5, 1.5)
        chosen = max(due, key=lambda type_: due[type_])
        due[chosen] -= 1
        yield chosen


def _draw_scene_samples(request: QueryRequest, seed: int, count: int) -> list[WorldSample]:
    family, split = request.family, request.split
    random = Random(f"{family} {request.name} {seed}")
    balance = Balance()
    pool = Pool(
        Random(f"scenes {family} {request.name} {seed}"),
        lambda index: SceneTruth(render_scene(sample_scene(split, index))),
    )
    samples: list[WorldSample] = []
    for sort, number in zip(_sorts(request, random), range(count), strict=False):
        ask = partial(_propose, request, sort, random, balance)
        index, truth, (meaning, answer) = pool.serve(ask)
        sample_id = _sample_id(request, seed, number)
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
    """Put a query about a scene in words."""
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
"""Number of expressions about each scene of :func:`several_expressions`."""


def several_expressions(split: str, seed: int, count: int) -> list[WorldSample]:
    """Return referring expressions, ``EXPRESSIONS`` in a row about one scene with different texts.

    Unlike :func:`generate`, which uses one scene per query, this follows the RefCOCO sets. The last
    scene has fewer if ``count`` is no multiple. The same arguments give the same samples.
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
    """Return expressions about one scene, possibly fewer than ``EXPRESSIONS``."""
    truth = SceneTruth(render_scene(sample_scene(split, index)))
    nouns = SceneNouns(truth, random, held_out=split == "test")
    by_text: dict[str, WorldSample] = {}
    weights = SHARES["referring"]
    for type_ in random.choices(tuple(weights), tuple(weights.values()), k=PROPOSALS):
        try:
            meaning = compositional.draw_about_scene("referring", type_, nouns, random)
            query = meaning, truth.answer(meaning)
        except (NoSuchNounError, UnanswerableError):
            continue
        sample = _scene_sample("referring", split, "", (index, truth), query, random)
        by_text[sample.text] = sample
        if len(by_text) == EXPRESSIONS:
            break
    return list(by_text.values())


def _sample_id(request: QueryRequest, seed: int, number: int) -> str:
    return f"{request.name.replace(' ', '-')}-{seed}-{request.family}-{number}"


def _propose(
    request: QueryRequest, sort: str, random: Random, balance: Balance, truth: SceneTruth
) -> tuple[Meaning, int | str] | None:
    """Return a query of a sort about one scene with its answer, or None."""
    nouns = SceneNouns(truth, random, held_out=request.split == "test")
    for _ in range(PROPOSALS):
        try:
            meaning = _draw(request, sort, nouns, random)
            answer = truth.answer(meaning)
        except (NoSuchNounError, UnanswerableError):
            continue
        if meaning.type in SELECTIONS:
            return meaning, answer
        key, value, space = answer_space(meaning, str(answer), nouns.lexicon.family)
        if balance.admits(key, value, space):
            return meaning, answer
    return None


def _draw(request: QueryRequest, sort: str, nouns: SceneNouns, random: Random) -> Meaning:
    if request.conventions is not None and sort.startswith(VAGUE):
        return ambiguous.draw_ambiguous(
            request.family, sort.removeprefix(VAGUE), nouns, random, request.conventions
        )
    return compositional.draw_about_scene(request.family, sort, nouns, random)


def answer_space(
    meaning: Meaning, answer: str, family: Callable[[str], Sequence[str]]
) -> tuple[Hashable, Hashable, tuple[Hashable, ...]]:
    """Return the keys of the balance: the sort of query as in its text, the answer, all answers."""
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


def _draw_clip_samples(request: QueryRequest, seed: int, count: int) -> list[WorldSample]:
    split = request.split
    random = Random(f"{request.family} {request.name} {seed}")
    balance = Balance()
    pool = Pool(Random(f"clips {request.name} {seed}"), lambda index: _clip_truth(split, index))
    samples: list[WorldSample] = []
    for sort, number in zip(_sorts(request, random), range(count), strict=False):
        type_, words = sort, None
        if request.conventions is not None and sort.startswith(VAGUE):
            type_, words = ambiguous.ambiguous_types(sort.removeprefix(VAGUE), request.conventions)
        ask = partial(_propose_clip, type_, random, balance)
        index, truth, (meaning, event) = pool.serve(ask)
        options = truth.options(meaning, event, random, held_out=split == "test")
        right = temporal.option_text(type_, truth.meaning_of(event))
        if words is not None:
            meaning = Meaning(meaning.type, {**meaning.slots, "vague": words})
        template, text = temporal.say_temporal(meaning, random, split)
        samples.append(
            WorldSample(
                sample_id=_sample_id(request, seed, number),
                family=request.family,
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
