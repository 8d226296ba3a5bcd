"""Questions that need more than the picture, each with the path to its answer.

Five kinds: about a ``design`` (recognise it, then look facts up), about a ``marked`` one (another
design looks the same: read its label), about a ``picture`` (find it elsewhere), about a ``color``
word of a place (see, then look up), and about ``common`` knowledge (see, then know).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from itertools import count as counted
from random import Random

from viper_lab.world.knowledge.articles import left_out
from viper_lab.world.knowledge.catalogue import Catalogue, Design
from viper_lab.world.knowledge.facts import CHAINS, COMMON, follow, question_of
from viper_lab.world.knowledge.gallery import scene_object
from viper_lab.world.layout import sample_scene
from viper_lab.world.scene import Scene

KINDS = ("design", "marked", "picture", "color", "common")
_SHARES = (0.46, 0.2, 0.14, 0.1, 0.1)

UNANSWERABLE = "unanswerable"

# Least and greatest number of objects in the picture of a question.
OBJECTS = (2, 4)

# Share of the questions about designs that ask for the name alone.
NAMES = 0.12

_ATTRIBUTES = ("size", "colour", "material")

# Attribute that a phrase must not state, because the question asks for it.
_UNSAID = {"color": "colour", "common": "shape"}


@dataclass(frozen=True)
class KnowledgeQuestion:
    """A question about a scene.

    Attributes:
        shown: the design of each object, in the order of the scene.
        target: the object in question; None: the picture as a whole.
        visual: the sub-question to the picture; ``knowledge`` the sub-question to the texts, with
            ``#`` for the visual answer, or ``#`` alone.
        seen: the right answer to the visual sub-question.
        path: thing, relation and value of each hop after that.
        answer: of the whole; :data:`UNANSWERABLE` if no text states it.
        look_alike: whether the catalogue holds a design that differs from the target in one
            attribute, or in the mark alone.
    """

    question_id: str
    kind: str
    text: str
    visual: str
    knowledge: str
    seen: str
    path: tuple[tuple[str, str, str], ...]
    answer: str
    split: str
    index: int
    shown: tuple[Design, ...]
    target: int | None
    look_alike: bool

    @property
    def scene(self) -> Scene:
        """Lay out the scene of the question, anew on each call."""
        return sample_scene(
            self.split,
            self.index,
            min_objects=len(self.shown),
            max_objects=len(self.shown),
            objects=[scene_object(design) for design in self.shown],
        )

    @property
    def hops(self) -> int:
        """Return the number of facts to look up."""
        return len(self.path)

    @property
    def is_answerable(self) -> bool:
        """Return whether the answer is in some text or common knowledge."""
        return self.answer != UNANSWERABLE


def questions(catalogue: Catalogue, count: int, kind: str = "") -> Iterator[KnowledgeQuestion]:
    """Yield the first ``count`` questions of a catalogue; the same arguments give the same ones.

    Args:
        kind: one of :data:`KINDS`; "" draws them by their shares.
    """
    yield from islice(_endless(catalogue, kind), count)


def unanswerable(catalogue: Catalogue, count: int) -> Iterator[KnowledgeQuestion]:
    """Yield ``count`` questions about designs that no text answers.

    The first ones are among those of :func:`questions`, under the same ids.
    """
    about_designs = (q for q in _endless(catalogue, "") if q.kind in ("design", "marked"))
    yield from islice((q for q in about_designs if not q.is_answerable), count)


def _endless(catalogue: Catalogue, kind: str) -> Iterator[KnowledgeQuestion]:
    untold = left_out(catalogue)
    for number in counted():
        random = Random(f"question {catalogue.split} {catalogue.seed} {number} {kind}")
        chosen = kind or random.choices(KINDS, _SHARES)[0]
        yield _question(catalogue, untold, number, chosen, random)


def _question(
    catalogue: Catalogue, untold: frozenset[tuple[str, str]], number: int, kind: str, random: Random
) -> KnowledgeQuestion:
    marked = [design for design in catalogue.designs if design.mark]
    plain = [design for design in catalogue.designs if not design.mark]
    while True:
        target = random.choice(marked if kind == "marked" else plain)
        others = [design for design in plain if design.look != target.look]
        designs = [target, *random.sample(others, random.randint(*OBJECTS) - 1)]
        random.shuffle(designs)
        place = designs.index(target)
        phrase = phrase_for(place, designs, random, unsaid=_UNSAID.get(kind, ""))
        if phrase is not None:
            break
    return KnowledgeQuestion(
        f"knowledge-{catalogue.split}-{catalogue.seed}-{number}{f'-{kind}' if kind else ''}",
        kind,
        *_ask(catalogue, untold, kind, target, phrase, number, random),
        catalogue.split,
        1_000_000 * catalogue.seed + number,
        tuple(designs),
        None if kind == "picture" else place,
        kind in ("design", "marked") and bool(catalogue.look_alikes(target)),
    )


# The fields ``text`` to ``answer`` of a :class:`KnowledgeQuestion`.
_Asked = tuple[str, str, str, str, tuple[tuple[str, str, str], ...], str]


def _ask(
    catalogue: Catalogue,
    untold: frozenset[tuple[str, str]],
    kind: str,
    target: Design,
    phrase: str,
    number: int,
    random: Random,
) -> _Asked:
    if kind == "common":
        question, seen = random.choice(sorted(COMMON)), target.look.shape
        visual, text = f"what shape is {phrase}?", question.replace("a #", phrase)
        return (text, visual, question, seen, (), COMMON[question][seen])
    if kind == "color":
        town = random.choice(sorted({place for place, _ in catalogue.colour_words}))
        visual, knowledge = f"what color is {phrase}?", f"what do people of {town} call #?"
        text = knowledge.replace("#", f"the color of {phrase}")
        word = catalogue.colour_words[town, target.look.colour]
        path = ((town, target.look.colour, word),)
        return (text, visual, knowledge, target.look.colour, path, word)
    if kind == "picture":
        work = catalogue.works[number % len(catalogue.works)]
        relation = random.choice(("taker", "taken"))
        return _of_chain(catalogue, untold, "this picture", work.name, (relation,))
    if random.random() < NAMES:
        visual = f"what is {phrase} called?"
        return (visual, visual, "#", target.name, (), target.name)
    return _of_chain(catalogue, untold, phrase, target.name, random.choice(CHAINS))


def _of_chain(
    catalogue: Catalogue,
    untold: frozenset[tuple[str, str]],
    phrase: str,
    name: str,
    chain: Sequence[str],
) -> _Asked:
    path = tuple(follow(catalogue, name, chain))
    is_known = path[-1][:2] not in untold
    return (
        question_of(chain, phrase),
        f"what is {phrase} called?",
        question_of(chain, "#"),
        name,
        path,
        path[-1][2] if is_known else UNANSWERABLE,
    )


def phrase_for(
    place: int, designs: Sequence[Design], random: Random, unsaid: str = ""
) -> str | None:
    """Return a short phrase that fits only one of several objects, or None.

    A marked object is also named by its label: ``the red cube with the label``.

    Args:
        unsaid: an attribute that the phrase must not state; without ``shape`` it is a ``thing``.
    """
    target, able = designs[place].look, []
    free = [name for name in _ATTRIBUTES if name != unsaid]
    always = [] if unsaid == "shape" else ["shape"]
    noun = "thing" if unsaid == "shape" else target.shape
    for count in range(len(free) + 1):
        for some in combinations(free, count):
            stated = [(name, getattr(target, name)) for name in (*some, *always)]
            fitting = [
                design
                for design in designs
                if all(getattr(design.look, name) == value for name, value in stated)
            ]
            if len(fitting) == 1:
                able.append(" ".join(["the", *(getattr(target, name) for name in some), noun]))
        if len(able) > 1:
            break
    if not able:
        return None
    phrase = random.choice(able)
    return f"{phrase} with the label" if designs[place].mark else phrase
