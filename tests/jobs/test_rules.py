"""Rules from labels, their choice, and what is promised."""

from __future__ import annotations

import numpy as np
import pytest

from viper.jobs.answering import is_more
from viper.jobs.candidates import Candidate, common_form, for_every_query
from viper.jobs.choice import agreement, certify, kept_of, nearest, out_of_fold, upper_bound
from viper.jobs.evidence import Evidence, Hypothesis
from viper.jobs.likeness import Likeness
from viper.jobs.rules import Measure, Rule, error_bits, find_rules, find_sums, rule_program


def test_a_rule_of_two_tests_is_found_among_noise() -> None:
    draw = np.random.default_rng(0)
    values = draw.integers(0, 4, (80, 30)).astype(float)
    classes = ((values[:, 3] >= 2) & (values[:, 17] < 1)).astype(int)
    best = find_rules(values, classes, 2, np.zeros(30))[0]
    assert {test.measure for test in best.tests} == {3, 17}
    assert (best.answers(values) == classes).all()


def test_bits_of_a_rule_count_the_labels_that_it_gets_wrong() -> None:
    draw = np.random.default_rng(3)
    values, classes = draw.random((50, 6)), draw.integers(0, 3, 50)
    for rule in find_rules(values, classes, 3, np.zeros(6)):
        wrong = int((rule.answers(values) != classes).sum())
        assert rule.total == pytest.approx(rule.bits + error_bits(wrong, 50, 3))


def test_chance_is_no_rule() -> None:
    draw = np.random.default_rng(1)
    values = draw.integers(0, 4, (40, 30)).astype(float)
    classes = draw.integers(0, 2, 40)
    best = find_rules(values, classes, 2, np.zeros(30))[0]
    assert best.tests == ()  # nothing says more than the commonest answer


def test_more_wrong_labels_never_take_fewer_bits() -> None:
    for kinds in (2, 5):
        bits = [error_bits(wrong, 20, kinds) for wrong in range(21)]
        assert bits == sorted(bits)


def test_sums_of_two_counts_are_found() -> None:
    draw = np.random.default_rng(2)
    values = draw.integers(0, 5, (20, 12)).astype(float)
    best = find_sums(values, values[:, 2] + values[:, 9], 9)[0]
    assert sorted(best.sums) == [2, 9]


def test_rules_are_written_as_programs() -> None:
    values = np.array([[0.0, 1], [1, 0], [2, 1], [3, 0]] * 10)
    classes = (values[:, 0] >= 2).astype(int)
    measures = [Measure('count(scene, "it\'s")'), Measure("count(scene, 'x')")]
    rule = find_rules(values, classes, 2, np.zeros(2))[0]
    assert rule_program(rule, measures, ["no", "yes"]) == (
        'def count(scene, name):\n    """How many there are."""\n    return len(scene.find(name))\n'
        "\n\ndef execute_command(image):\n    scene = ImagePatch(image)\n"
        "    if count(scene, \"it's\") >= 2:\n        return 'yes'\n    return 'no'\n"
    )


def evidence(n: int = 60, seed: int = 0, **changes: object) -> Evidence:
    """A written program that is right in 70 % of cases, and a count that is right in all."""
    draw = np.random.default_rng(seed)
    classes = draw.integers(0, 2, n)
    written = np.where(draw.random(n) < 0.7, classes, 1 - classes)
    values = np.stack([draw.integers(0, 4, n), classes * 2.0], 1)[None]
    facts = {
        "cases": [str(number) for number in range(n)],
        "candidates": [Candidate("a")],
        "answers": written[None],
        "right": (written == classes)[None],
        "classes": classes,
        "words": ["no", "yes"],
        "kinds": 2,
        "measures": [Measure("count(scene, 'x')"), Measure("count(scene, 'y')")],
        "values": values,
        "pixels": draw.random((n, 3)),
    }
    return Evidence(**{**facts, **changes})  # type: ignore[arg-type]


def test_what_explains_the_labels_is_chosen_and_judged_without_them() -> None:
    found = evidence()
    best = found.hypotheses(np.arange(60))[0]
    assert best.rule is not None
    assert best.rule.tests[0].measure == 1
    judged = out_of_fold(found, 0)
    assert judged.right.all()
    assert judged.zero_shot.mean() == pytest.approx(0.7, abs=0.15)


def test_labels_of_noise_are_not_estimated_as_learned() -> None:
    shares = []
    for seed in range(30):
        draw = np.random.default_rng(100 + seed)
        found = evidence(40, seed, values=draw.random((1, 40, 40)),
                         measures=[Measure(f"m{i}") for i in range(40)],
                         right=np.zeros((1, 40), bool), answers=np.full((1, 40), -1))  # fmt: skip
        judged = out_of_fold(found, 0)
        shares.append(judged.right.mean() - judged.majority.mean())
    assert np.mean(shares) <= 0.02


def test_what_explains_nothing_is_not_estimated_as_always_wrong() -> None:
    shares = []
    for seed in range(20):
        classes = np.random.default_rng(seed).permutation(np.arange(20) < 9).astype(int)
        found = evidence(20, seed, classes=classes, measures=[], values=np.zeros((1, 20, 0)),
                         answers=np.ones((1, 20), int), right=(classes == 1)[None])  # fmt: skip
        shares.append(out_of_fold(found, 0).right.mean())
    assert np.mean(shares) > 0.35


def test_a_program_is_not_judged_on_labels_that_its_writer_saw() -> None:
    classes = np.arange(40) % 2
    wrong = np.where(np.arange(40) < 20, classes, 1 - classes)
    seen = tuple(str(number) for number in range(20))
    found = evidence(40, candidates=[Candidate("a", seen=seen)], classes=classes, measures=[],
                     values=np.zeros((1, 40, 0)), answers=wrong[None],
                     right=(wrong == classes)[None])  # fmt: skip
    (program,) = (each for each in found.hypotheses() if each.candidate == 0)
    assert program.total == error_bits(40, 40, 2)


def test_what_a_writer_was_shown_is_answered_by_programs_that_did_not_see_it() -> None:
    classes = np.arange(40) % 2
    seen = tuple(str(number) for number in range(0, 40, 3))
    blind = np.where(np.arange(40) % 4 == 0, 1 - classes, classes)
    found = evidence(40, candidates=[Candidate("a"), Candidate("b", seen=seen)], classes=classes,
                     measures=[], values=np.zeros((1, 40, 0)), answers=np.stack([blind, classes]),
                     right=np.stack([blind == classes, classes == classes]))  # fmt: skip
    judged = out_of_fold(found, 0)
    shown = np.array([str(number) in seen for number in range(40)])
    assert (judged.right[shown] == (blind == classes)[shown]).all()
    assert not judged.right[shown].all()
    assert judged.right[~shown].all()


def test_neighbours_know_a_cluster() -> None:
    features = np.repeat([[0.0, 0], [1, 1]], 10, 0) + np.random.default_rng(0).random((20, 2)) / 9
    classes = np.repeat([0, 1], 10)
    train, test = np.arange(0, 20, 2), np.arange(1, 20, 2)
    assert (nearest([1 - features * 0, features], classes, train, test) == classes[test]).all()


def test_programs_that_disagree_lower_the_agreement() -> None:
    answers = [np.array([0, 0, -1]), np.array([0, 1, 0])]
    hypotheses = [Hypothesis(10.0, each, each == 0, number) for number, each in enumerate(answers)]
    agreeing = agreement(kept_of(hypotheses))
    assert agreeing.tolist() == [1.0, 0.5, 0.0]


def test_what_the_labels_contradict_is_not_kept() -> None:
    """Its vote would be stored as 0, and it would run on every picture."""
    answers = np.zeros(3, int)
    hypotheses = [Hypothesis(bits, answers, answers == 0, number)
                  for number, bits in enumerate((10.0, 12.0, 30.0, 70.0))]  # fmt: skip
    assert [each.candidate for each in kept_of(hypotheses)] == [0, 1, 2]


@pytest.mark.parametrize(("risk", "least"), [(0.10, 22), (0.05, 45)])
def test_labels_without_an_error_certify_a_risk(risk: float, least: int) -> None:
    for n, certified in ((least - 1, False), (least, True)):
        promise = certify(np.full(n, 0.9), np.ones(n, bool), risk)
        assert promise.certified is certified
        assert promise.answered == 1.0
        assert promise.more == (0 if certified else 1)


def test_doubtful_half_is_withheld_where_confidence_tells() -> None:
    confidence = np.linspace(1, 0, 100)
    promise = certify(confidence, confidence > 0.35, 0.10)
    assert promise.certified
    assert 0.5 < promise.answered < 0.75
    assert promise.bound <= 0.10


def test_what_is_not_certified_is_given_where_the_risk_is_likely_kept() -> None:
    confidence = np.linspace(1, 0, 30)
    promise = certify(confidence, confidence > 0.5, 0.05)
    assert not promise.certified
    assert 0.45 < promise.answered < 0.55 and promise.limit > 0.45
    assert promise.bound > 0.5  # of all answers
    chance = certify(confidence, np.arange(30) % 2 == 0, 0.05)
    assert (chance.certified, chance.answered) == (False, 0.0)
    assert chance.limit > 1
    alone = certify(np.full(20, 0.8), np.arange(20) > 3, 0.10)
    assert (alone.answered, alone.limit > 1) == (0.0, True)


def test_promises_are_seldom_broken() -> None:
    """The bound fails as seldom as it says, with a confidence that tells nothing."""
    draw, broken = np.random.default_rng(0), 0
    for _ in range(400):
        promise = certify(draw.random(60), draw.random(60) > 0.12, 0.10)
        broken += promise.certified
    assert broken / 400 <= 0.13  # 10 %, and two deviations of the draw


def test_the_bound_is_clopper_and_pearsons() -> None:
    assert upper_bound(0, 22) == pytest.approx(1 - 0.1 ** (1 / 22))
    assert upper_bound(3, 3) == 1.0


def test_questions_of_one_form_are_read_by_the_program() -> None:
    form = common_form(["how many dogs are there?", "how many red cats are there?"])
    assert form == ("how many", "are there?")
    program = "def execute_command(image):\n    return len(ImagePatch(image).find('dog'))"
    general = for_every_query(program, "how many dogs are there?", form)
    assert "def execute_command(image, question):" in general
    assert ".find(asked)" in general
    assert for_every_query(program, "how many cats are there?", form) == ""
    assert common_form(["one", "one"]) is None


def test_programs_and_rules_that_say_the_same_number_agree() -> None:
    classes = np.array([0, 1, 2] * 10)
    counts = np.array([3.0, 1.0, 2.0] * 10)
    counts[0] = 2.0  # wrong, as the program is
    said = np.where(np.arange(30) == 0, 2, classes)
    found = evidence(30, words=["3", "1", "2"], kinds=3, classes=classes, answers=said[None],
                     right=(said == classes)[None], values=counts[None, :, None],
                     measures=[Measure("m")])  # fmt: skip
    program, rule = sorted(found.hypotheses(), key=lambda each: bool(each.rule))[:2]
    summed = next(each for each in found.hypotheses() if each.rule and each.rule.sums)
    assert program.rule is None and rule.rule is not None
    assert (summed.answers == said).all()


def test_a_number_is_no_place_of_an_option() -> None:
    assert "return str(m)" in rule_program(Rule(sums=(0,)), [Measure("m")], ["1", "2"])


def test_the_bound_of_what_is_not_certified_holds_as_often_as_it_says() -> None:
    draw, below = np.random.default_rng(1), 0
    for _ in range(400):
        promise = certify(draw.random(40), draw.random(40) > 0.2, 0.10)
        below += not promise.certified and promise.bound < 0.2
    assert below / 400 <= 0.13  # 10 %, and two deviations of the draw


def test_inputs_like_the_labelled_ones_raise_no_alarm() -> None:
    draw, alarms = np.random.default_rng(2), 0
    for _ in range(100):
        labelled = draw.random((20, 48))
        likeness = Likeness.of(labelled)
        new = draw.random((200, 48))
        distances = np.abs(new[:, None] - labelled[None]).mean(2).min(1)
        unlike = int((distances > likeness.limit).sum())
        alarms += is_more(unlike, 200, 0.05, 20)
    assert alarms <= 4
    assert is_more(150, 200, 0.05, 20)
