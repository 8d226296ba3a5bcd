"""Workflows as text: every route leads to an answer, and none is preferred."""

from __future__ import annotations

import ast
from collections import Counter
from random import Random

from viper_lab.world.queries.texts import text_sample
from viper_lab.world.queries.workflows import CAPTION, STEPS, WHOLE, routes, workflow


def test_workflows_begin_with_each_of_three_routes_equally_often() -> None:
    random, begun, routes_taken = Random(0), Counter[str](), set[int]()
    for _ in range(300):
        sample = text_sample(random, "train", family="question")
        ways = {route.turns[0]: name for name, route in routes(sample).items()}
        assert set(ways.values()) == {WHOLE, CAPTION, STEPS}
        actions = [step.action for step in workflow(sample, random).steps]
        codes = [action.text for action in actions if action is not None and action.kind == "code"]
        if codes[0] in ways:  # otherwise the answer was given and copied
            begun[ways[codes[0]]] += 1
        routes_taken.add(len({ways[code] for code in codes if code in ways}))
    assert min(begun.values()) > 70 and begun.total() > 280, begun
    assert routes_taken >= {1, 2, 3}


def test_a_caption_is_read_by_the_language_model() -> None:
    route = routes(text_sample(Random(1), "train", family="question"))[CAPTION]
    assert route.tool == "llm_query" and len(route.turns) == 2
    called = [
        node.func for node in ast.walk(ast.parse(route.turns[1])) if isinstance(node, ast.Call)
    ]
    assert [ast.unparse(function) for function in called] == ["llm_query"]
    assert route.turns[0] == "info = image_patch.caption()"
