"""What is collected from stores and searches, and what is written down of it."""

from __future__ import annotations

import json

import pytest

from tests.tuning.stores import LetterMatcher, TableSearch, TableStore
from viper.errors import UsageError
from viper.tuning.data_collection import collect_annotated, collect_pictures, related_concepts
from viper.tuning.tool_updates import answer_text
from viper.tuning.training_data import (
    AnnotatedStore,
    ConceptQuery,
    PictureSearch,
    is_about,
    plain,
    spellings,
    without_remark,
)

STORE = TableStore({1: ["mug", "spoon"], 2: ["cup"], 3: ["cup", "mug"], 4: ["spoon"], 5: ["mug"]})


def ids(pictures):
    return [each.picture_id for each in pictures]


def test_the_tables_fulfil_the_protocols():
    assert isinstance(STORE, AnnotatedStore) and isinstance(TableSearch({}), PictureSearch)


def test_annotated_pictures_bring_all_their_annotations():
    got = collect_annotated(ConceptQuery("mug"), STORE, limit=2)
    assert ids(got.positives) == ["table:1", "table:3"] and not got.negatives
    first = got.positives[0]
    assert [thing.labels for thing in first.things] == [("mug",), ("spoon",)]
    assert first.positives == (0,) and first.absent == {"cup"}


def test_negatives_are_of_related_concepts_and_surely_without_the_concept():
    query = ConceptQuery("mug", related=("cup", "spoon"))
    got = collect_annotated(query, STORE, negatives=5)
    assert ids(got.negatives) == ["table:2", "table:4"]
    assert all("mug" in each.absent for each in got.negatives)


def test_related_concepts_come_from_the_vocabulary_if_the_query_names_none():
    got = collect_annotated(ConceptQuery("mug"), STORE, negatives=1, matcher=LetterMatcher())
    assert got.evidence["related"] == ["cup", "spoon"]
    assert ids(got.negatives) == ["table:2"]


def test_a_concept_that_the_store_does_not_know_gives_nothing():
    got = collect_annotated(ConceptQuery("yeti", ("cup",)), STORE, negatives=3)
    assert not got.positives and not got.negatives and got.evidence["names"] == []


def test_the_evidence_is_json_and_names_every_picture():
    got = collect_annotated(ConceptQuery("mug", ("cup",)), STORE, limit=3, negatives=1, seed=4)
    said = json.loads(json.dumps(got.evidence))
    assert said["source"] == "table" and said["seed"] == 4 and said["limit"] == 3
    assert [each["picture"] for each in said["positives"]] == ids(got.positives)
    assert said["positives"][0]["boxes"] == [[0.0, 0.0, 2.0, 2.0]]


def test_found_pictures_are_readable_and_different():
    search = TableSearch({"mug": [1, None, 1, 2, 3, 4], "cup": [2, 7, 8], "jar": [9, 10]})
    got = collect_pictures(ConceptQuery("mug", ("cup", "jar")), search, limit=3, negatives=3)
    assert ids(got.positives) == ["mug:0", "mug:3", "mug:4"]
    assert ids(got.negatives) == ["cup:1", "jar:0", "cup:2"]
    why = {each["picture"]: each["why"] for each in got.evidence["refused"]}
    assert why == {
        "mug:1": "the picture is damaged",
        "mug:2": "the same pixels as mug:0",
        "cup:0": "the same pixels as mug:3",
    }
    assert search.asked[:2] == [("mug", 3), ("mug", 6)]
    digests = [each["pixels"] for part in ("positives", "negatives") for each in got.evidence[part]]
    assert len(set(digests)) == 6
    json.dumps(got.evidence)


def test_a_search_that_finds_little_is_not_asked_twice():
    search = TableSearch({"mug": [1]})
    got = collect_pictures(ConceptQuery("mug"), search)
    assert ids(got.positives) == ["mug:0"] and search.asked == [("mug", 7)]


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_limits_are_checked(limit):
    with pytest.raises(UsageError, match="ask for 1 to 10,000"):
        collect_annotated(ConceptQuery("mug"), STORE, limit=limit)
    with pytest.raises(UsageError, match="ask for 1 to 10,000"):
        collect_pictures(ConceptQuery("mug"), TableSearch({}), limit=limit)


@pytest.mark.parametrize("name", ["", " _ ", "x" * 101])
def test_a_concept_needs_a_name(name):
    with pytest.raises(UsageError, match="1 to 100 characters"):
        ConceptQuery(name)
    with pytest.raises(UsageError, match="1 to 100 characters"):
        ConceptQuery("mug", (name,))


def test_related_concepts_are_not_the_concept_in_other_words():
    words = ("red cube", "CUBES", "cute", "box", "cub", "tub_e", "cube")
    got = related_concepts("cube", words, LetterMatcher(), count=9, same=("box",))
    assert got == ("cub", "cute", "tub_e")
    assert related_concepts("cube", words, LetterMatcher(), count=1, same=("box",)) == got[:1]
    assert related_concepts("cube", ["cubes"], LetterMatcher()) == ()


@pytest.mark.parametrize(
    ("said", "listed"),
    [
        ("Traffic_Lights", "traffic light"),
        ("boxes", "box"),
        ("knives", "knife"),
        ("scarves", "scarf"),
        ("berries", "berry"),
        ("Snow  men", "snow man"),
        ("bus", "bus"),
        ("glass", "glass"),
    ],
)
def test_spellings_reach_what_a_list_calls_it(said, listed):
    assert listed in list(spellings(said))


def test_a_short_word_is_not_cut_to_nothing():
    assert list(spellings("as")) == ["as"] and "bu" not in list(spellings("bus"))


def test_names_lose_case_underscores_and_remarks():
    assert plain("Bow_(Weapon)") == "bow (weapon)" and without_remark("Bow_(Weapon)") == "bow"
    assert is_about("red cubes", "cube") and not is_about("cubic", "cube")


@pytest.mark.parametrize(
    ("desired", "answer"),
    [
        (True, "yes"),
        (False, "no"),
        (3, "3"),
        (2.0, "2"),
        (0.5, "0.5"),
        (" Dark  Red. ", "dark red"),
        ("", None),
        ("x" * 61, None),
        (None, None),
        (float("nan"), None),
        (float("inf"), None),
        ([1], None),
    ],
)
def test_desired_results_as_answers(desired, answer):
    assert answer_text(desired) == answer
