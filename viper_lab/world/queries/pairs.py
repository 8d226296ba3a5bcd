"""Statements about two pictures, true or false: objects and their numbers.

Source: the form of NLVR2 (Suhr et al. 2019), the two-image task of CLOVA (Gao et al. 2024, sec.
4.1). About half of the statements are true. The false ones are about objects of the pictures, in
another number or another place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from viper.prompting.plans import numbered
from viper_lab.world.places import ScenePlace, random_place
from viper_lab.world.queries.lexicon import NoSuchNounError
from viper_lab.world.queries.meaning import SHARES
from viper_lab.world.queries.scene_nouns import SceneNouns, SceneWords, concept_kind
from viper_lab.world.queries.task_sample import LINE_PROGRAMS, TaskSample, TaskSpec, task_specs
from viper_lab.world.queries.wording import a, plural, read_templates

TEMPLATES = read_templates("pairs")

NUMBERS = ("no", "one", "two", "three", "four")

WEIGHTS = SHARES["pairs"]

# Number of statements to try about one pair of pictures before the next pair.
_TRIES = 40

# Share of pictures that show the concept of their pair.
_PRESENT = 0.7


@dataclass(frozen=True)
class PairMeaning:
    """A statement: a type, one or two kinds of object with a number each, and a side."""

    type: str
    kind: str
    number: int = 0
    other_kind: str = ""
    other_number: int = 0
    side: str = "left"

    @property
    def kinds(self) -> tuple[str, ...]:
        return (self.kind, self.other_kind) if self.other_kind else (self.kind,)


def generate_pairs(
    split: str, seed: int, count: int, *, concepts: Sequence[str] = ()
) -> list[TaskSample]:
    """Return statements about pairs of pictures of a split; same arguments, same statements.

    A smaller ``count`` gives the first of them.

    Args:
        concepts: reserved concepts of the statements, in turn; none: known objects.

    Raises:
        UnknownNameError: no such split or reserved concept.
    """
    random = Random(f"pairs {split} {seed} {' '.join(concepts)}")
    return [_draw(each, random) for each in task_specs("pairs", split, seed, count, concepts)]


def _draw(each: TaskSpec, random: Random) -> TaskSample:
    type_ = random.choices(tuple(WEIGHTS), tuple(WEIGHTS.values()))[0]
    is_true = random.random() < 0.5
    while True:
        places, truths = _pair(each, random)
        for _ in range(_TRIES):
            try:
                meaning = _draw_meaning(type_, truths, each, random)
            except NoSuchNounError:
                continue
            if holds(meaning, truths) == is_true:
                return _sample(each, meaning, places, is_true, random)


def _pair(
    each: TaskSpec, random: Random
) -> tuple[tuple[ScenePlace, ScenePlace], tuple[SceneWords, SceneWords]]:
    flags = [random.random() < _PRESENT for _ in range(2)]
    (first, left), (second, right) = (
        random_place(random, each.split, each.concept, present=present or each.concept is None)
        for present in flags
    )
    return (first, second), (SceneWords(left), SceneWords(right))


def _draw_meaning(
    type_: str, truths: Sequence[SceneWords], each: TaskSpec, random: Random
) -> PairMeaning:
    """Draw a statement of a type, mostly with kinds and numbers of the pictures."""
    kind = _draw_kind(truths, each, random)
    left, right = (len(truth.matching(kind)) for truth in truths)
    if type_ in ("more", "same_number") and not left and not right:
        raise NoSuchNounError
    if type_ == "more":
        return PairMeaning(type_, kind, side=random.choice(("left", "right")))
    if type_ == "total":
        return PairMeaning(type_, kind, _near(left + right, random))
    if type_ != "one_and_other":
        return PairMeaning(type_, kind)
    other = _draw_kind(truths, replace(each, concept=None), random)
    if other == kind:
        raise NoSuchNounError
    here = random.randrange(2)
    counts = (left, right)[here], len(truths[1 - here].matching(other))
    first, second = (_near(count, random) for count in counts)
    return PairMeaning(type_, kind, first, other, second)


def _near(count: int, random: Random) -> int:
    """Draw the number, or one next to it, from 1 to 4."""
    return min(max(count + random.choice((-1, 0, 0, 1)), 1), len(NUMBERS) - 1)


def _draw_kind(truths: Sequence[SceneWords], each: TaskSpec, random: Random) -> str:
    """Draw a kind with one attribute at most, which names the concept if there is one."""
    if each.concept is None:
        nouns = SceneNouns(random.choice(truths), random, held_out=each.split == "test")
        only = random.choice(((), ("color",), ("color",), ("material",)))
        return nouns.some(general=random.random() < 0.2 and bool(only), only=only)
    return concept_kind(each.concept, truths, random)


def holds(meaning: PairMeaning, truths: Sequence[SceneWords]) -> bool:
    """Return whether a statement is true of two pictures, the left one first."""
    counts = [[len(truth.matching(kind)) for kind in meaning.kinds] for truth in truths]
    left, right = (each[0] for each in counts)
    if meaning.type == "one_and_other":
        (_, other_left), (_, other_right) = counts
        return (left == meaning.number and other_right == meaning.other_number) or (
            right == meaning.number and other_left == meaning.other_number
        )
    if meaning.type == "more":
        return left > right if meaning.side == "left" else right > left
    if meaning.type == "total":
        return left + right == meaning.number
    return _COMPARED[meaning.type](left, right)


_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "same_number": lambda left, right: left == right,
    "both": lambda left, right: left > 0 and right > 0,
    "neither": lambda left, right: left == 0 and right == 0,
    "exactly_one": lambda left, right: (left > 0) != (right > 0),
}


def pair_program(meaning: PairMeaning) -> str:
    """Return the line program of a statement: count in both pictures, then compare."""
    lines: list[str] = []
    answers: list[str] = []
    for kind in meaning.kinds:
        for picture in ("LEFT", "RIGHT"):
            number = len(answers)
            lines.append(f"BOX{number}=LOC(image={picture},object='{kind}')")
            answers.append(f"ANSWER{number}=COUNT(box=BOX{number})")
    sign = ">" if meaning.side == "left" else "<"
    compared = LINE_PROGRAMS["expressions"][meaning.type].format(**vars(meaning), sign=sign)
    result = f"ANSWER{len(answers)}"
    lines += [*answers, f"{result}=EVAL(expr='{compared}')"]
    return "\n".join([*lines, f"FINAL_RESULT=RESULT(var={result})"])


def pair_plan(meaning: PairMeaning) -> str:
    """Return the steps of :func:`pair_program` in words."""
    steps = []
    for kind in meaning.kinds:
        steps.append(f"Find every {kind} in the left picture and in the right one.")
    steps.append("Count what was found in each picture.")
    steps.append(LINE_PROGRAMS["conclusions"][meaning.type].format(**vars(meaning)))
    return numbered(*steps)


def _counted(number: int, kind: str) -> str:
    return f"exactly {NUMBERS[number]} {kind if number == 1 else plural(kind)}"


def _sample(
    each: TaskSpec,
    meaning: PairMeaning,
    places: tuple[ScenePlace, ...],
    is_true: bool,
    random: Random,
) -> TaskSample:
    name, template = TEMPLATES[meaning.type].pick(random, each.split)
    text = template.format(
        k=meaning.kind,
        ks=plural(meaning.kind),
        ak=a(meaning.kind),
        n=_counted(meaning.number, meaning.kind) if meaning.number else "",
        m=_counted(meaning.other_number, meaning.other_kind) if meaning.other_number else "",
        side=meaning.side,
        far="right" if meaning.side == "left" else "left",
    )
    return each.sample(
        task="statement",
        text=text,
        target=is_true,
        places=places,
        plan=pair_plan(meaning),
        program=pair_program(meaning),
        query_type=meaning.type,
        template=f"{meaning.type}:{name}",
        groups={"family": "pairs"},
    )
