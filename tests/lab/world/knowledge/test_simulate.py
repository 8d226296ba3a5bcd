"""Simulated decisions: an expert's searches, and the texts that are learned from them."""

from collections import Counter
from itertools import islice
from random import Random

import pytest

from viper.prompting.seeking import read_decision, read_split, read_verdict
from viper.strategies.seek.graph import ACTIONS, EVERY, load_route
from viper.strategies.seek.grounding import is_grounded
from viper_lab.world.knowledge.catalogue import catalogue
from viper_lab.world.knowledge.questions import questions
from viper_lab.world.knowledge.simulate import END, STYLE, Library, decisions


@pytest.fixture(scope="module")
def library():
    return Library.of(catalogue("train", 3, 40))


@pytest.fixture(scope="module", params=["avis", EVERY])
def simulated(request, library):
    graph = load_route(request.param)
    return [
        (question, *decisions(library, question, graph, Random(number)))
        for number, question in enumerate(questions(library.catalogue, 60))
    ]


def test_the_expert_mostly_ends_with_the_answer(simulated):
    right = [answer == question.answer for question, _, answer in simulated]
    assert sum(right) / len(right) > 0.75


def test_replies_are_read_as_they_are_meant(simulated):
    sorts = Counter()
    for question, asked, _ in simulated:
        for one in asked:
            sorts[one.sort] += 1
            assert one.reply.startswith(" ") and one.reply.endswith(END)
            reply = one.reply.removesuffix(END)
            if one.sort == "split":
                split = read_split(reply, STYLE)
                assert (split.visual, split.knowledge) == (question.visual, question.knowledge)
            elif one.sort == "plan":
                line = next(x for x in one.prompt.splitlines() if x.startswith("# actions: "))
                allowed = line.removeprefix("# actions: ").split("; ")
                decision = read_decision(reply, allowed, STYLE)
                assert decision is not None and decision.action in allowed
                assert bool(decision.words) == bool(ACTIONS[decision.action].takes)
            elif one.sort == "judge":
                verdict = read_verdict(reply, STYLE)
                assert verdict is not None and is_grounded(verdict.extracted, [one.prompt], "exact")
    assert set(sorts) == {"split", "plan", "judge", "answer"}


def test_the_same_seed_makes_the_same_decisions(library):
    graph, (question,) = load_route("avis"), questions(library.catalogue, 1)
    one, two, other = (decisions(library, question, graph, Random(n)) for n in (1, 1, 2))
    assert one == two and one != other


def test_texts_are_found_by_their_rare_words(library):
    maker = library.catalogue.makers[0].name
    assert any(line.startswith(f"{maker}: ") for line in library.search(f"who founded {maker}?", 5))
    assert library.search("???") == []


@pytest.mark.parametrize(("graphs", "restricted"), [(("avis", EVERY), True), ((EVERY,), False)])
def test_a_planner_may_never_see_the_choices_of_the_graph(graphs, restricted):
    from viper_lab.recipes.seeker import seeker_texts

    plans = [one for one in islice(seeker_texts(Random(0), graphs), 1500) if one.sort == "plan"]
    lines = {line for one in plans for line in one.prompt.splitlines() if "# actions: " in line}
    first = "# actions: " + "; ".join(load_route("avis").states["START"])
    assert (first in lines) is restricted and len(plans) > 100
