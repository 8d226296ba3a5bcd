"""Invented nouns and routine names: what the program writer has to copy, never to know.

Words for training and words for testing never meet: a checksum decides which side a word
is on, and the English words that routine names are mixed with are two separate lists. Names
of common words alone (:func:`plain_names`) are for scoring; training has none.
"""

from __future__ import annotations

import keyword
import zlib
from collections.abc import Callable, Collection, Iterable
from random import Random

from viper_lab.world.queries.lexicon import WORLD, Lexicon


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ONSETS = _words(
    "b c d f g h j k l m n p r s t v w z bl br ch cl cr dr fl fr gl gr kl pl pr qu sh sk sl sn "
    "st th tr tw"
)
_VOWELS = _words("a e i o u a e i o ai ee oo ou ar er or")
_CODAS = _words("b ck d g k l m n p r t x nd nt rk rp sk st mp ng th lt")
_ENDINGS = _words("et er in on ick ap oid le ot um ist ad im or a o y")

_TRAIN_ENGLISH = _words(
    "grab list seek scan fetch pick take look spot detect gather collect locate order arrange "
    "rank line gauge weigh near zone area part view strip side edge slice frame window span "
    "scene move before after answer reply decide settle vote guess number digit value read text "
    "label name item items box boxes thing things all any one best middle center top low high "
    "row column wide by of to from in at with for is has get make run do compute estimate tell "
    "say test check match compare measure split join count sum find choose describe"
)
_TEST_ENGLISH = _words(
    "hunt trace acquire sift rate stack queue shelf reach probe sample examine judge inspect "
    "verdict outcome portion corner margin border stretch moment clip extract retrieve survey "
    "craft tally sketch discern resolve elect quote note entry tile"
)

_COMMON = _words(
    "get find list sort order pick take show see look seek keep give make call check test count "
    "compare match choose select group filter query ask answer tell name read write say guess "
    "first second third last next previous middle centre center inner outer top bottom low high "
    "left right above below front back behind near far close closest beside between inside "
    "outside over under up down horizontal vertical leftmost rightmost frontmost "
    "higher side sides corner edge border row column line lines grid region part parts section "
    "zone crop box boxes spot place space frame image picture photo patch patches object objects "
    "item items thing things entity group scene view half whole piece shot clip video segment "
    "event moment start end before after while during until since time times one two all any "
    "some each every best worst most least large small big tiny wide tall deep sharp size width "
    "height distance gap range number amount total value score rank key label word text kind "
    "type color colour shape material property feature to of from in on at with for is has as "
    "by arrange across upwards central nearest leftward rightward upper lower area"
)
"""Common words that names of routines may be made of; several stand in the API's own names."""

# Names that programs use for something else.
_TAKEN = frozenset(
    _words(
        "image video question possible_answers image_patch video_segment patch patches anchor "
        "anchors other others region color left right first second info segment min max len str "
        "bool key area split sort lower upper width height execute_command ImagePatch "
        "VideoSegment lambda if else in not and or is for def return int float list set dict "
        "any all sum abs map zip"
    )
)


def is_test_word(word: str) -> bool:
    """Whether an invented word is kept for testing (one in six)."""
    return zlib.crc32(word.encode()) % 6 == 0


def made_up_word(random: Random, *, test: bool = False) -> str:
    """A pronounceable word, ``blicket``; never ends in ``s``."""
    while True:
        syllables = random.choices((1, 2, 3), (5, 4, 1))[0]
        word = "".join(
            random.choice(_ONSETS) + random.choice(_VOWELS) for _ in range(syllables - 1)
        )
        word += random.choice(_ONSETS) + random.choice(_VOWELS) + random.choice(_CODAS)
        if random.random() < 0.3:
            word += random.choice(_ENDINGS)
        if random.random() < 0.05:
            word = "".join(random.choice("abcdefghijklmnopqrtuvwxyz") for _ in range(5))
        if len(word) >= 3 and is_test_word(word) == test and not keyword.iskeyword(word):
            return word


def made_up_words(random: Random, count: int, *, test: bool = False) -> list[str]:
    """Distinct invented words."""
    words: dict[str, None] = {}
    while len(words) < count:
        words[made_up_word(random, test=test)] = None
    return list(words)


def spelling_samples(random: Random, count: int) -> list[str]:
    """Invented words and names as a tokenizer learns its merges from them."""
    words = [made_up_word(random) for _ in range(count)]
    names = [made_up_name(random) for _ in range(count)]
    return [*words, *names]


def made_up_lexicon(random: Random, *, test: bool = False, adjectives: float = 0.3) -> Lexicon:
    """The world's words with invented nouns, some of two words.

    Args:
        adjectives: how likely each of sizes, colors and materials is invented as well.
    """
    shapes = [
        " ".join(made_up_words(random, 2, test=test))
        if random.random() < 0.15
        else made_up_word(random, test=test)
        for _ in range(6)
    ]
    changed: dict[str, tuple[str, ...]] = {}
    for family, known in (
        ("sizes", WORLD.sizes),
        ("colors", WORLD.colors),
        ("materials", WORLD.materials),
    ):
        if random.random() < adjectives:
            changed[family] = tuple(made_up_words(random, len(known), test=test))
    return Lexicon(shapes=tuple(dict.fromkeys(shapes)), held_out=frozenset(), **changed)


def made_up_name(random: Random, *, test: bool = False) -> str:
    """A routine name of one to three parts, at least one of them invented or unusual."""
    english = _TEST_ENGLISH if test else _TRAIN_ENGLISH
    parts = random.choices((1, 2, 3), (4, 5, 1))[0]
    share = random.choice((0.0, 0.0, 0.5, 1.0)) if parts > 1 else 0.0
    return "_".join(
        random.choice(english) if random.random() < share else made_up_word(random, test=test)
        for _ in range(parts)
    )


def made_up_names(
    random: Random, names: Iterable[str], *, test: bool = False, avoid: Collection[str] = ()
) -> dict[str, str]:
    """Each name with an invented one; all are distinct and none hides a name of a program."""
    return _mapping(names, avoid, lambda: made_up_name(random, test=test))


def plain_names(
    random: Random, names: Iterable[str], *, avoid: Collection[str] = ()
) -> dict[str, str]:
    """As :func:`made_up_names`, of two or three common words, ``outer_part``.

    Some names share their last word, as those that a person invents do.
    """
    shared = random.sample(_COMMON, 3)

    def draw() -> str:
        last = random.choice(shared if random.random() < 0.5 else _COMMON)
        others = [word for word in _COMMON if word != last]
        return "_".join([*random.sample(others, random.choice((1, 1, 1, 2))), last])

    return _mapping(names, avoid, draw)


def _mapping(
    names: Iterable[str], avoid: Collection[str], draw: Callable[[], str]
) -> dict[str, str]:
    taken = {*_TAKEN, *avoid}
    mapping: dict[str, str] = {}
    for name in names:
        fresh = draw()
        while fresh in taken or keyword.iskeyword(fresh):
            fresh = draw()
        taken.add(fresh)
        mapping[name] = fresh
    return mapping
