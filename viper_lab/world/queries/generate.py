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
from typing import Any, Generic, TypeVar

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

# Number of queries to try on one scene before the next one.
PROPOSALS = 25

# Share of ambiguous queries in a data set with conventions.
AMBIGUOUS_SHARE = 0.5

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
    ambiguous_share: float = AMBIGUOUS_SHARE,
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
    name = f"{edition} {split}" if edition else split
    share = ambiguous_share if conventions else 0.0
    request = QueryRequest(family, split, name, conventions, share)
    random = Random(f"{family} {name} {seed}")
    make: type[Any] = _ClipQueries if family == "video" else _SceneQueries
    queries = make(request, random)
    media = "clips" if family == "video" else f"scenes {family}"
    pool: Pool[Any] = Pool(Random(f"{media} {name} {seed}"), queries.load)
    samples: list[WorldSample] = []
    for sort, number in zip(_sorts(request, random), range(count), strict=False):
        index, truth, query = pool.serve(partial(queries.propose, sort))
        sample_id = f"{name.replace(' ', '-')}-{seed}-{family}-{number}"
        samples.append(replace(queries.sample(index, truth, *query), sample_id=sample_id))
    return samples


# Prefix of the sort of an ambiguous query among the types of a family.
AMBIGUOUS = "vague "


def _sorts(request: QueryRequest, random: Random) -> Iterator[str]:
    """Yield query types and sorts of ambiguous queries in their shares, also in short runs."""
    weights = {
        type_: (1 - request.ambiguous_share) * weight
        for type_, weight in SHARES[request.family].items()
    }
    if request.ambiguous_share:
        for sort, weight in ambiguous.WEIGHTS[request.family].items():
            weights[AMBIGUOUS + sort] = request.ambiguous_share * weight
    due = dict.fromkeys(weights, 0.0)
    while True:
        for type_, weight in weights.items():
            due[type_] += weight * random.uniform(0.5, 1.5)
        chosen = max(due, key=lambda type_: due[type_])
        due[chosen] -= 1
        yield chosen


@dataclass
class _Queries:
    """The choices of one call of :func:`generate`, about scenes or about clips."""

    request: QueryRequest
    random: Random
    balance: Balance = field(default_factory=Balance)

    def ambiguous_sort(self, sort: str) -> tuple[str, Conventions | None]:
        """Return a sort without its prefix, and the conventions if it had one."""
        is_ambiguous = self.request.conventions is not None and sort.startswith(AMBIGUOUS)
        return sort.removeprefix(AMBIGUOUS), self.request.conventions if is_ambiguous else None


class _SceneQueries(_Queries):
    def load(self, index: int) -> SceneTruth:
        return SceneTruth(render_scene(sample_scene(self.request.split, index)))

    def propose(self, sort: str, truth: SceneTruth) -> tuple[Meaning, int | str] | None:
        """Return a query of a sort about one scene with its answer, or None."""
        family, random = self.request.family, self.random
        nouns = SceneNouns(truth, random, held_out=self.request.split == "test")
        type_, conventions = self.ambiguous_sort(sort)
        for _ in range(PROPOSALS):
            try:
                if conventions is not None:
                    meaning = ambiguous.draw_ambiguous(family, type_, nouns, random, conventions)
                else:
                    meaning = compositional.draw_about_scene(family, type_, nouns, random)
                answer = truth.answer(meaning)
            except (NoSuchNounError, UnanswerableError):
                continue
            if meaning.type in SELECTIONS:
                return meaning, answer
            key, value, space = answer_space(meaning, str(answer), nouns.lexicon.family)
            if self.balance.admits(key, value, space):
                return meaning, answer
        return None

    def sample(
        self, index: int, truth: SceneTruth, meaning: Meaning, answer: int | str
    ) -> WorldSample:
        """Put a query about a scene in words."""
        family, split = self.request.family, self.request.split
        texts = compositional.say_about_scene(family, meaning, self.random, split)
        box = truth.rendered.box(int(answer)) if family == "referring" else None
        return _sample(self.request, index, meaning, texts, answer, box=box)


class _ClipQueries(_Queries):
    def load(self, index: int) -> ClipTruth:
        clip = sample_clip(self.request.split, index)
        return ClipTruth(clip.objects, clip.events)

    def propose(self, sort: str, truth: ClipTruth) -> tuple[Meaning, ClipEvent] | None:
        """Return a query of a sort about one clip with the event that answers it, or None."""
        type_, conventions = self.ambiguous_sort(sort)
        slots: dict[str, str] = {}
        if conventions is not None:
            type_, slots["vague"] = ambiguous.ambiguous_types(type_, conventions)
        meanings = truth.meanings(type_)
        self.random.shuffle(meanings)
        for meaning in meanings:
            try:
                answer = truth.answer(meaning)
            except UnanswerableError:
                continue
            if type_ in temporal.DO_TYPES | temporal.HAPPENS_TYPES:
                kinds = DEED_KINDS.get(type_, EVENT_KINDS)
                named = meaning["event"]["kind"] if "event" in meaning else None
                if not self.balance.admits((type_, named), answer.kind, kinds):
                    continue
            return Meaning(type_, {**meaning.slots, **slots}), answer
        return None

    def sample(
        self, index: int, truth: ClipTruth, meaning: Meaning, event: ClipEvent
    ) -> WorldSample:
        """Put a query about a clip in words, with options to choose from."""
        random, split = self.random, self.request.split
        options = truth.options(meaning, event, random, held_out=split == "test")
        right = options.index(temporal.option_text(meaning.type, truth.meaning_of(event)))
        texts = temporal.say_temporal(meaning, random, split)
        return _sample(self.request, index, meaning, texts, right, options=tuple(options))


def _sample(
    request: QueryRequest,
    index: int,
    meaning: Meaning,
    texts: tuple[str, str],
    answer: int | str,
    **more: Any,
) -> WorldSample:
    """Return a sample, without its id, of template and text in ``texts``."""
    return WorldSample(
        sample_id="",
        family=request.family,
        split=request.split,
        text=texts[1],
        answer=answer,
        media_index=index,
        query_type=meaning.type,
        template=texts[0],
        steps=steps(meaning),
        meaning=meaning,
        **more,
    )


# Number of expressions about each scene of :func:`several_expressions`.
EXPRESSIONS = 4


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
    queries = _SceneQueries(QueryRequest("referring", split, ""), random)
    truth = queries.load(index)
    by_text: dict[str, WorldSample] = {}
    nouns = SceneNouns(truth, random, held_out=split == "test")
    weights = SHARES["referring"]
    for type_ in random.choices(tuple(weights), tuple(weights.values()), k=PROPOSALS):
        try:
            meaning = compositional.draw_about_scene("referring", type_, nouns, random)
            sample = queries.sample(index, truth, meaning, truth.answer(meaning))
        except (NoSuchNounError, UnanswerableError):
            continue
        by_text[sample.text] = sample
        if len(by_text) == EXPRESSIONS:
            break
    return list(by_text.values())


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
