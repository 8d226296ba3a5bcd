"""The world's own tasks: true, reproducible, about what they say, and solved by their programs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

from viper.agreement import match_tags
from viper.api.prelude import PRELUDE
from viper.data.sample import EditTarget
from viper.errors import UnknownNameError
from viper.evaluate.metrics.editing import edit_verdict
from viper.sandbox import Limits, Sandbox
from viper.schema import Answer, to_json
from viper_lab.datasets.tasks import task_sample
from viper_lab.scores.scene_judge import SceneJudge
from viper_lab.world.perfect import PerfectTools, _Painter, answer_perfectly
from viper_lab.world.places import ScenePlace
from viper_lab.world.queries import editing, pairs, tagging
from viper_lab.world.queries.about_reserved import generate_about_reserved
from viper_lab.world.queries.editing import generate_editing
from viper_lab.world.queries.facts import FACTS, facts_about, words_of
from viper_lab.world.queries.pairs import PairMeaning, generate_pairs, holds, pair_program
from viper_lab.world.queries.scene_nouns import SceneWords
from viper_lab.world.queries.tagging import generate_tagging
from viper_lab.world.queries.task_sample import TaskSample
from viper_lab.world.render import render_scene
from viper_lab.world.reserved import CONCEPTS
from viper_lab.world.scene import Scene, SceneObject


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(None, Limits(), prelude=PRELUDE, mode="weak") as made:
        yield made


def answer(sample: TaskSample, sandbox: Sandbox) -> tuple[Answer, object]:
    scenes = [place.rendered() for place in sample.places]
    found, media = answer_perfectly(sample.program, sample.query, scenes, sandbox)
    assert isinstance(found, Answer), (sample.text, sample.program, found)
    return found, media


def scene(*looks: str) -> Scene:
    things = []
    for said in looks:
        colour, shape = said.split()
        things.append(SceneObject(shape, colour, "metal", "big", (0.0, 0.0, 0.0)))
    return Scene(tuple(things), 0)


@pytest.mark.parametrize(
    ("meaning", "left", "right", "is_true"),
    [
        (PairMeaning("both", "red cube"), ["red cube"], ["red cube", "red ball"], True),
        (PairMeaning("both", "red cube"), ["red cube"], ["red ball"], False),
        (PairMeaning("neither", "cube"), ["red ball"], ["red ring"], True),
        (PairMeaning("exactly_one", "cube"), ["red cube"], ["red cube"], False),
        (PairMeaning("exactly_one", "cube"), ["red ring"], ["red cube"], True),
        (PairMeaning("more", "cube", side="right"), ["red ring"], ["red cube"], True),
        (PairMeaning("more", "cube", side="left"), ["red cube"], ["red cube"], False),
        (PairMeaning("same_number", "ring"), ["red ring"], ["blue ring"], True),
        (PairMeaning("total", "ring", 2), ["red ring"], ["blue ring"], True),
        (PairMeaning("total", "ring", 2), ["red ring"], ["blue cube"], False),
        (PairMeaning("one_and_other", "cube", 1, "ring", 2), ["red cube"], ["red ring"], False),
        (PairMeaning("one_and_other", "cube", 1, "ring", 1), ["red ring"], ["red cube"], True),
        (PairMeaning("one_and_other", "cube", 1, "ring", 1), ["red ring", "red cube"], [], False),
    ],
)
def test_what_statements_mean(
    meaning: PairMeaning, left: list[str], right: list[str], is_true: bool
) -> None:
    assert holds(meaning, [SceneWords(scene(*left)), SceneWords(scene(*right))]) is is_true


def test_statements_hold_as_their_programs_say(sandbox: Sandbox) -> None:
    samples = generate_pairs("val", 5, 4) + generate_pairs("test", 5, 3, concepts=["egg", "pink"])
    for sample in samples:
        found, _ = answer(sample, sandbox)
        assert found.value is sample.target, (sample.text, sample.program)
        assert len(sample.places) == 2 and sample.query.media == "images"
        assert sample.plan.startswith("1. ")
    about = [sample for sample in samples if sample.concept]
    assert all(sample.concept in sample.text for sample in about)
    assert {sample.target for sample in generate_pairs("val", 0, 12)} == {True, False}


def test_both_ways_round_are_one_statement() -> None:
    program = pair_program(PairMeaning("one_and_other", "cube", 1, "ring", 2))
    assert program.count("LOC(") == 4 and "xor" not in program
    assert "({ANSWER0} == 1 and {ANSWER3} == 2) or ({ANSWER1} == 1 and {ANSWER2} == 2)" in program


def test_tags_are_those_of_the_programs(sandbox: Sandbox) -> None:
    samples = generate_tagging("val", 5, 2) + generate_tagging(
        "test", 5, 3, concepts=["dome", "white", "spotted"], listed=True
    )
    for sample in samples:
        found, _ = answer(sample, sandbox)
        counts = match_tags(found.value, sample.target)
        assert counts.f1 == 1 and counts.expected > 0, (sample.text, found.value)
        assert ("LIST" in sample.program) == (sample.concept is not None)


def test_facts_hold_of_some_words_and_say_of_which() -> None:
    for fact in FACTS:
        known = {word for concept in (None, *CONCEPTS) for word in words_of(fact.family, concept)}
        assert fact.members <= known and not fact.members & fact.doubtful
    for concept in CONCEPTS:
        facts = facts_about(concept)
        assert any(concept in fact.members for fact in facts), concept
        assert all(concept not in fact.doubtful for fact in facts)
    assert not any(fact.family == "pattern" for fact in facts_about(None))


def test_edits_of_the_programs_are_right(sandbox: Sandbox) -> None:
    samples = generate_editing("val", 6, 3) + generate_editing(
        "test", 5, 3, concepts=["pyramid", "pink", "striped"]
    )
    seen = set()
    for sample in samples:
        tools = PerfectTools([place.rendered() for place in sample.places])
        before, target = tools.media.images[0], sample.target
        found, media = answer(sample, sandbox)
        after = media.edits.picture(found.value["picture"]).pixels
        assert isinstance(target, EditTarget)
        judge = SceneJudge.of(task_sample(sample))
        assert edit_verdict(before, after, target, judge).right, (sample.text, sample.program)
        if target.operation == "replace":
            assert not edit_verdict(before, before, target, judge).asked
        seen.add(target.operation)
        assert sample.concept is None or sample.concept in sample.text
    assert "replace" in seen and len(seen) > 1


@pytest.mark.parametrize("about", ["new", "old"])
def test_questions_about_reserved_concepts(about: str, sandbox: Sandbox) -> None:
    for sample in generate_about_reserved("val", 4, 4, about=about):
        found, _ = answer(sample, sandbox)
        if sample.task == "ground":
            assert np.allclose(found.box or (), sample.target, atol=0.5), sample.text
            named = sample.concept in sample.text
        else:
            assert found.value == sample.target or str(found.value) == sample.target, sample.text
            named = sample.concept in f"{sample.text} {sample.target}"
        assert named == (about == "new")
        assert sample.api == "abstract" and sample.plan.startswith("1. Find")
        assert sample.concept in " ".join(
            thing.phrase for thing in sample.places[0].scene().objects
        ) or (sample.target == "0")


GENERATORS = {
    "pairs": generate_pairs,
    "tag": generate_tagging,
    "edit": generate_editing,
    "reserved": generate_about_reserved,
}


@pytest.mark.parametrize("name", ["pairs", "tag"])
def test_fewer_are_the_first_of_more_and_splits_share_nothing(name: str) -> None:
    generate = GENERATORS[name]
    four = generate("val", 1, 4, concepts=["disc"])
    assert four[:2] == generate("val", 1, 2, concepts=["disc"])
    assert four[0].sample_id == f"{name}-val-1-disc-0"
    test = generate("test", 1, 4, concepts=["disc"])
    assert all(":h" in sample.template for sample in test)
    assert all(":s" in sample.template for sample in four)
    places = [{place for s in samples for place in s.places} for samples in (four, test)]
    assert {place.split for place in places[0]} == {"val"} and not places[0] & places[1]
    json.dumps(to_json(four[0]))


@pytest.mark.parametrize("generate", GENERATORS.values(), ids=list(GENERATORS))
def test_unknown_names_are_refused(generate: object) -> None:
    with pytest.raises(UnknownNameError, match="reserved concept 'cube'"):
        generate("val", 0, 1, concepts=["cube"])
    with pytest.raises(UnknownNameError, match="split 'dev'"):
        generate("dev", 0, 1)


def test_held_out_wordings_differ_from_the_others() -> None:
    tables = [*pairs.TEMPLATES.values(), *editing.TEMPLATES.values(), tagging.TEMPLATES]
    for templates in tables:
        assert not set(templates.held_out) & {*templates.seen, *templates.practice}


def test_a_perfect_painter_keeps_to_the_mask() -> None:
    place = ScenePlace("val", 0)
    rendered = render_scene(place.scene())
    mask = rendered.masks[0]
    painted = _Painter([rendered]).inpaint(rendered.image, mask, "a green ring", 0)
    assert (painted[~mask] == rendered.image[~mask]).all()
    assert (painted[mask] != rendered.image[mask]).any()
