"""A catalogue, what is told of it, and the questions about it."""

from collections import Counter

import pytest

from viper.errors import UnknownNameError, UsageError
from viper_lab.recipes.writer_words import is_test_word
from viper_lab.world.knowledge.articles import articles, left_out, things
from viper_lab.world.knowledge.catalogue import catalogue
from viper_lab.world.knowledge.facts import CHAINS, COMMON, RELATIONS, follow, question_of, value_of
from viper_lab.world.knowledge.questions import KINDS, UNANSWERABLE, questions
from viper_lab.world.vocabulary import HELD_OUT_COMBINATIONS


@pytest.fixture(scope="module")
def whole():
    return catalogue("val")


def test_names_are_of_one_thing_each_and_never_those_of_training(whole):
    names = [name for _, name in things(whole)]
    names += [one.designer for one in whole.designs] + [one.founder for one in whole.makers]
    names += [name for one in whole.places for name in (one.region, one.river, one.mayor)]
    names += list(whole.colour_words.values())
    assert len(names) == len(set(names)) and all(map(is_test_word, names))
    trained = catalogue("train")
    assert not any(is_test_word(name) for _, name in things(trained))


def test_the_same_arguments_give_the_same_catalogue_and_another_seed_another(whole):
    assert catalogue("val") == whole and catalogue("val", 1).designs != whole.designs
    assert len(catalogue("val", 0, 30).designs) == 30
    with pytest.raises(UnknownNameError):
        catalogue("nowhere")
    with pytest.raises(UsageError, match="900 designs; there are looks for"):
        catalogue("val", 0, 900)


def test_looks_are_one_designs_each_but_for_marked_ones(whole):
    looks = Counter(one.look for one in whole.designs)
    shared = {look for look, count in looks.items() if count > 1}
    assert all(bool(one.mark) == (one.look in shared) for one in whole.designs)
    assert {looks[look] for look in shared} == {2}
    marks = [one.mark for one in whole.designs if one.mark]
    assert len(set(marks)) == len(marks) == 24
    pairs = {(one.look.colour, one.look.shape) for one in whole.designs}
    assert not pairs & HELD_OUT_COMBINATIONS


def test_look_alikes_differ_in_one_attribute_or_the_mark(whole):
    for one in whole.designs:
        for other in whole.look_alikes(one):
            assert one.look.differences(other.look) == (0 if one.mark and other.mark else 1) or (
                one.look.differences(other.look) == 1
            )
    marked = next(one for one in whole.designs if one.mark)
    assert any(other.look == marked.look for other in whole.look_alikes(marked))


def test_every_fact_is_told_once_or_left_out(whole):
    untold = left_out(whole)
    texts = {one.title: one.text for one in articles(whole, untold) if one.about == one.title}
    for kind, name in things(whole):
        for relation, one in RELATIONS.items():
            if one.of != kind:
                continue
            sentences = {
                said.replace("#", name).replace("*", value_of(whole, name, relation))
                for said in one.statements
            }
            told = sum(sentence in texts[name] for sentence in sentences)
            assert told == ((name, relation) not in untold), (name, relation)
    assert 0.05 < len(untold) / 500 < 0.25
    assert not any(RELATIONS[relation].leads_to for _, relation in untold)


def test_chains_lead_from_thing_to_thing(whole):
    design = whole.designs[0]
    path = follow(whole, design.name, ("maker", "town", "river"))
    maker = next(one for one in whole.makers if one.name == design.maker)
    town = next(one for one in whole.places if one.name == maker.place)
    assert path == [
        (design.name, "maker", maker.name),
        (maker.name, "town", maker.place),
        (maker.place, "river", town.river),
    ]
    assert question_of(("maker", "town", "river"), "#") == (
        "which river flows through the town of the maker of #?"
    )
    assert {len(chain) for chain in CHAINS} == {1, 2, 3}


@pytest.mark.parametrize("kind", KINDS)
def test_questions_of_each_kind_have_their_way_to_the_answer(whole, kind):
    untold = left_out(whole)
    for one in questions(whole, 40, kind):
        assert one.kind == kind and len(one.shown) == len(one.scene.objects)
        assert "#" in one.knowledge and "#" not in one.text
        if kind == "common":
            assert one.answer == COMMON[one.knowledge][one.seen] and one.hops == 0
        elif kind == "color":
            assert whole.colour_words[one.path[0][0], one.seen] == one.answer
        elif one.knowledge == "#":
            assert one.answer == one.seen and not one.path
        else:
            assert one.path[0][0] == one.seen
            told = one.path[-1][:2] not in untold
            assert one.answer == (one.path[-1][2] if told else UNANSWERABLE)
        if one.target is not None:
            design = one.shown[one.target]
            assert bool(design.mark) == (kind == "marked")
            assert one.look_alike == (kind in ("design", "marked"))


def test_the_words_for_an_object_fit_it_alone(whole):
    for one in questions(whole, 150):
        if one.target is None:
            continue
        looks = [shown.look for shown in one.shown]
        known = {word for look in looks for word in look.words.split()}
        said = set(one.visual.rstrip("?").split()) & known
        fitting = [look for look in looks if said <= set(look.words.split())]
        assert fitting == [looks[one.target]], one.visual


def test_the_same_number_is_the_same_question(whole):
    (one,) = questions(whole, 1)
    assert one.scene == one.scene and [x.shape for x in one.scene.objects] == [
        x.look.shape for x in one.shown
    ]
    first, second = ([one.text for one in questions(whole, 20)] for _ in range(2))
    assert first == second
    assert [one.text for one in questions(catalogue("val", 1), 20)] != first
    kinds = Counter(one.kind for one in questions(whole, 300))
    assert set(kinds) == set(KINDS) and kinds["design"] > kinds["marked"] > kinds["color"] / 2
