"""Faults injected into programs that answer right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.strategies.bench import HEIGHT, WIDTH, Bench
from viper.models.media import Media, media_from
from viper.reasoner import Reasoner
from viper.sandbox import Ref
from viper.schema import Query
from viper.strategies.answers import is_desired
from viper.strategies.base import Components
from viper.tools.settings import ToolSettings
from viper.tuning.case import Case
from viper.tuning.reflector import InterventionReflector
from viper_lab.faults.faulty_toolbox import FaultyDepth, FaultyScores, FaultyText, FaultyToolbox
from viper_lab.faults.injection import Fault, SolvedQuery, inject

RIGHTMOST = """def execute_command(image):
    found = ImagePatch(image).find('cube')
    return sort_patches_left_to_right(found)[-1]
"""

SHADES = """def execute_command(image):
    cube = ImagePatch(image).find('cube')[0]
    return cube.best_text_match(['red', 'green', 'blue'])
"""


def coloured() -> np.ndarray:
    picture = np.full((HEIGHT, WIDTH, 3), 40, np.uint8)
    picture[..., 0] = 220
    return picture


@pytest.fixture(scope="module")
def components() -> Iterator[Components]:
    with Bench([]) as bench:
        parts = bench.reasoner.components
        families = (("red", "green", "blue"), ("cube", "ring"))
        settings = replace(parts.toolbox.settings, attribute_families=families)
        assert isinstance(settings, ToolSettings)
        yield replace(parts, toolbox=parts.toolbox.with_settings(settings))


def solved(program: str, desired: Any, task: str = "question") -> SolvedQuery:
    media = media_from(coloured())
    return SolvedQuery(Query("what is it?", task), media, program, desired)


def answer_under(fault: Fault, components: Components, one: SolvedQuery) -> Any:
    reasoner = Reasoner(fault.components(components), preload=False)
    program = fault.case.trial.program
    return reasoner.execute(
        program, one.media.images[0], one.query.text, task=one.query.task
    ).answer


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sort", ["tool", "program"])
def test_a_fault_makes_the_answer_wrong_again_and_again(
    components: Components, seed: int, sort: Any
) -> None:
    one = solved(RIGHTMOST, (70.0, 5.0, 90.0, 25.0), "ground")
    fault = inject(components, one, sort, Random(seed))
    assert fault is not None
    twin = inject(components, one, sort, Random(seed))
    assert twin is not None
    assert (twin.kind, twin.truth, twin.case.answer) == (fault.kind, fault.truth, fault.case.answer)
    assert fault.sort == sort and fault.truth.speaks
    assert not is_desired(fault.case.answer, one.desired, "ground")
    again = answer_under(fault, components, one)
    assert again == fault.case.answer


def test_the_truth_is_what_the_true_tool_says(components: Components) -> None:
    one = solved(SHADES, "red")
    found = [inject(components, one, "tool", Random(seed)) for seed in range(6)]
    matched = [p for p in found if p is not None and p.truth.tool == "best_text_match"]
    assert matched
    for fault in matched:
        call = fault.case.trial.tool_calls[fault.calls[0]]
        assert (call.result != "red", fault.truth.desired) == (True, "red")
        assert fault.calls == (1,)


def test_a_wrong_program_leaves_the_tools_alone(components: Components) -> None:
    fault = inject(components, solved(SHADES, "red"), "program", Random(1))
    assert fault is not None
    assert fault.toolbox is components.toolbox
    assert (fault.calls, fault.truth.location) == ((), "program")
    assert fault.case.trial.program != SHADES


def test_a_program_that_is_wrong_anyway_gets_no_fault(components: Components) -> None:
    assert inject(components, solved(SHADES, "blue"), "tool", Random(0)) is None


def test_nothing_to_make_wrong(components: Components) -> None:
    one = solved("def execute_command(image):\n    return 'red'", "red")
    assert inject(components, one, "tool", Random(0)) is None


def test_a_box_missed_is_found_by_the_reflector(components: Components) -> None:
    one = solved(RIGHTMOST, (70.0, 5.0, 90.0, 25.0), "ground")
    wrong = FaultyScores(frozenset({"cube"}), {(70.0, 5.0, 90.0, 25.0): 0.3})
    toolbox = FaultyToolbox(components.toolbox, wrong)
    blinded = replace(components, toolbox=toolbox)
    trace = Reasoner(blinded, preload=False).execute(
        RIGHTMOST, one.media.images[0], one.query.text, task="ground", self_tune=False
    )
    case = Case.of(trace.trace, trace.media, one.desired)
    assert case is not None
    critique = InterventionReflector(blinded).reflect(case)
    assert (critique.location, critique.step, len(critique.desired)) == ("tool:find", 0, 2)


def whole(media: Media) -> Ref:
    return Ref("patch", ("image0", 0, 0, WIDTH, HEIGHT))


def test_a_wrong_tool_is_wrong_about_one_thing_and_caches_stay_true(components: Components) -> None:
    media = media_from(coloured())
    far = FaultyToolbox(components.toolbox, FaultyDepth("image0", (0, 0, WIDTH, HEIGHT), 3.0))
    before = components.toolbox.session(media).nested("compute_depth", (whole(media),), {})
    assert far.session(media).nested("compute_depth", (whole(media),), {}) == pytest.approx(
        3 * before
    )
    assert components.toolbox.session(media).nested("compute_depth", (whole(media),), {}) == before
    blind = FaultyToolbox(
        components.toolbox, FaultyScores(frozenset({"cube"}), {(10.0, 40.0, 20.0, 50.0): 0.0})
    )
    assert len(blind.session(media).nested("find", (whole(media), "cube"), {})) == 1
    assert len(blind.session(media).nested("find", (whole(media), "ring"), {})) == 1
    assert len(components.toolbox.session(media).nested("find", (whole(media), "cube"), {})) == 2


def test_a_wrong_answer_is_as_likely_as_it_is_sure() -> None:
    key = ("content", (0, 0, 1, 1), "what color?")
    wrong = FaultyText("vqa", key, "red", "blue", 0.75)
    assert wrong.altered("answer", key, "red") == "blue"
    assert wrong.altered("answer", ("other", (0, 0, 1, 1), "what color?"), "red") == "red"
    asked = ("likelihoods", *key, ("red", "green", "blue"))
    scores = wrong.altered("score_answers", asked, [np.log(0.8), np.log(0.1), np.log(0.1)])
    assert np.exp(scores) == pytest.approx([0.225, 0.1, 0.675])
