"""Words for the categories of a closed vocabulary, and what is said about other words."""

from __future__ import annotations

from pathlib import Path

import pytest

import viper.models.vision as vision
from viper.models.vision.vocabulary import UnknownPhraseError, Vocabulary
from viper.record import read_toml

COCO = read_toml(Path(vision.__file__).with_name("coco.toml"))[1]
NAMES = COCO["categories"]


@pytest.fixture
def coco() -> Vocabulary:
    return Vocabulary(NAMES, COCO["synonyms"], COCO["unions"])


@pytest.mark.parametrize(
    ("phrase", "name"),
    [
        ("dog", "dog"),
        ("the Dogs", "dog"),
        ("people", "person"),
        ("humans", "person"),
        ("knives", "knife"),
        ("mice", "mouse"),
        ("sheep", "sheep"),
        ("buses", "bus"),
        ("bus", "bus"),
        ("benches", "bench"),
        ("wine glasses", "wine glass"),
        ("scissors", "scissors"),
        ("a pair of scissors", "scissors"),
        ("ski", "skis"),
        ("skis", "skis"),
        ("toothbrushes", "toothbrush"),
        ("bike", "bicycle"),
        ("planes", "airplane"),
        ("sofa", "couch"),
        ("television", "tv"),
        ("TVs", "tv"),
        ("cell-phone", "cell phone"),
        ("mobile phones", "cell phone"),
        ("fridge", "refrigerator"),
        ("oranges", "orange"),
        ("orange", "orange"),
    ],
)
def test_plurals_and_synonyms_name_their_category(phrase: str, name: str, coco: Vocabulary) -> None:
    assert coco.named(phrase) == ([NAMES.index(name)], None)


def test_a_union_names_its_categories_and_a_thing_all(coco: Vocabulary) -> None:
    assert [NAMES[index] for index in coco.named("fruits")[0]] == ["banana", "apple", "orange"]
    assert len(coco.named("things")[0]) == 80


@pytest.mark.parametrize(
    ("phrase", "name", "color"),
    [
        ("red cars", "car", "red"),
        ("the grey cat", "cat", "gray"),
        ("orange orange", "orange", "orange"),
        ("black traffic lights", "traffic light", "black"),
    ],
)
def test_one_color_may_stand_before(phrase: str, name: str, color: str, coco: Vocabulary) -> None:
    assert coco.named(phrase) == ([NAMES.index(name)], color)


@pytest.mark.parametrize(
    ("phrase", "advice"),
    [
        ("umbrella stand", "nearest: umbrella"),
        ("wine cellar", "nearest: wine glass"),
        ("girafe", "nearest: giraffe"),
        ("happy dog", "nearest: dog, hot dog"),
        ("light", "nearest: stop light, traffic light"),
        ("xylophone zz", "it knows "),
    ],
)
def test_other_words_are_refused_with_the_nearest(
    phrase: str, advice: str, coco: Vocabulary
) -> None:
    with pytest.raises(UnknownPhraseError) as error:
        coco.named(phrase)
    assert str(error.value).startswith(f"the detector knows no {phrase!r}; {advice}")
    assert error.value.phrase == phrase


@pytest.mark.parametrize("phrase", ["woman", "men", "child", "puppy", "tulips", "", "  ", "s"])
def test_kinds_of_a_category_are_no_synonyms(phrase: str, coco: Vocabulary) -> None:
    with pytest.raises(UnknownPhraseError):
        coco.named(phrase)


def test_words_of_one_name_are_known_together_only(coco: Vocabulary) -> None:
    assert coco.starting(["fire", "hydrants", "and", "cats"]) == 2
    assert coco.starting(["fire", "and"]) == 0
    assert coco.starting(["dogs"]) == 1
    assert coco.starting([]) == 0
    # activities are no plurals
    assert not any(coco.starting([word]) for word in ("skiing", "bowling", "biking", "training"))


def test_every_word_of_coco_is_found_by_itself(coco: Vocabulary) -> None:
    words = [*NAMES, *(word for own in COCO["synonyms"].values() for word in own)]
    assert len({*words}) == len(words)
    for name in NAMES:
        assert coco.named(name)[0] == [NAMES.index(name)]
    for name, own in COCO["synonyms"].items():
        for word in own:
            assert coco.named(word)[0] == [NAMES.index(name)]


def test_a_category_without_a_name_is_never_found() -> None:
    vocabulary = Vocabulary(["", "cat"], {}, {"all": ["*"]})
    assert vocabulary.named("cat")[0] == [1]
    assert vocabulary.named("all")[0] == [1]


def test_nouns_are_the_categories_and_a_word_for_each_union(coco: Vocabulary) -> None:
    assert coco.nouns[0] == "person"
    assert {"vehicle", "food", "thing"} <= {*coco.nouns}
    assert not {"object", "drinking glass", "people"} & {*coco.nouns}
