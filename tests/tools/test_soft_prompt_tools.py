"""Tools that were taught something: who is asked what, and what stays exactly as it was."""

from __future__ import annotations

import numpy as np
import pytest

from tests.models.vision.adapter_fakes import (
    AdaptedAnswerer,
    AdaptedDetector,
    AdaptedInpainter,
    AdaptedMatcher,
    AdaptedSegmenter,
    PromptsInMemory,
    prompt,
)
from viper.models.media import media_from
from viper.models.vision.soft_prompts import NoSoftPrompts, find_named
from viper.sandbox import Ref
from viper.tools.models import ModelSet
from viper.tools.session import ToolSession
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox

WHOLE = Ref("image", ("image0", 100, 60))
CUBE = ((10, 40, 20, 50), 0.9)


@pytest.fixture
def toolbox() -> Toolbox:
    loaders = {
        "detector": lambda: AdaptedDetector({"red cube": [CUBE], "cube": [CUBE]}),
        "matcher": AdaptedMatcher,
        "vqa": lambda: AdaptedAnswerer({"what color is it?": "red", "how many?": "2"}),
        "segmenter": lambda: AdaptedSegmenter([("cube", (10, 10, 30, 30), 0.8)]),
        "inpainter": AdaptedInpainter,
    }
    return Toolbox(ModelSet(loaders), ToolSettings())


def asked(toolbox: Toolbox) -> ToolSession:
    pixels = np.zeros((60, 100, 3), np.uint8)
    pixels[..., 0] = 255
    return toolbox.session(media_from(pixels).for_run(), thresholds={"detector.threshold": 0.4})


def with_prompts(toolbox: Toolbox, **prompts: object) -> Toolbox:
    given = {(tool, "pyramid"): value for tool, value in prompts.items()}
    return toolbox.with_soft_prompts(PromptsInMemory(given))  # type: ignore[arg-type]


def keys(toolbox: Toolbox) -> set[object]:
    return set(toolbox.results._entries)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the Red  pyramid", ("pyramid",)),
        ("pyramids and boxes", ("pyramid", "box")),
        ("pyramidal", ()),
        ("a traffic light", ("traffic light",)),
        ("light traffic light", ("light", "traffic light")),
        ("egg-shaped", ("egg",)),
        ("", ()),
    ],
)
def test_concepts_are_found_as_whole_words(text: str, found: tuple[str, ...]) -> None:
    assert find_named(text, ["pyramid", "light", "traffic light", "box", "egg", ""]) == found


def test_a_taught_phrase_gets_the_mixture(toolbox: Toolbox) -> None:
    session = asked(with_prompts(toolbox, loc=[prompt(0.6), prompt(0.8)]))
    found = session.call("find", (WHOLE, "red pyramid"), {}, None)
    assert len(found) == 1
    assert session.calls[0].taught == ("loc: pyramid",)
    assert session.calls[0].scores == (0.7,)


def test_prompts_that_find_nothing_sure_are_left_out(toolbox: Toolbox) -> None:
    session = asked(with_prompts(toolbox, loc=[prompt(0.05), prompt(0.8)]))
    session.call("find", (WHOLE, "pyramid"), {}, None)
    assert session.calls[0].scores == (0.8,)
    session = asked(with_prompts(toolbox, loc=[prompt(0.05), prompt(0.08)]))
    assert session.call("find", (WHOLE, "pyramid"), {}, None) == []
    assert session.calls[0].taught == ()


def test_what_names_no_taught_concept_is_as_it_came(toolbox: Toolbox) -> None:
    plain, learned = (
        asked(toolbox),
        asked(with_prompts(toolbox.with_caches(100, 10), loc=[prompt(0.8)], match=[prompt(1.0)])),
    )
    questions = [
        ("find", (WHOLE, "red cube")),
        ("best_text_match", (WHOLE, ["red", "blue"])),
        ("simple_query", (WHOLE, "what color is it?")),
        ("segment", (WHOLE,)),
    ]
    for name, args in questions:
        assert plain.call(name, args, {}, None) == learned.call(name, args, {}, None)
    assert keys(plain.toolbox) == keys(learned.toolbox)
    assert not any(call.taught for call in learned.calls)


def test_only_the_taught_words_are_compared_anew(toolbox: Toolbox) -> None:
    from viper.tools.tool_functions import similarities

    before = asked(toolbox)
    after = asked(with_prompts(toolbox, match=[prompt(0.5, (1.0, 0.0, 0.0))]))
    region = before.region(WHOLE)
    words = ["red", "pyramid", "blue"]
    old, new = (similarities(one, [one.region(WHOLE)], words) for one in (before, after))
    assert (old[:, [0, 2]] == new[:, [0, 2]]).all()
    assert new[0, 1] == pytest.approx(10 * 0.5) and old[0, 1] == 0
    assert similarities(after, [region, region], ["pyramid"]).shape == (2, 1)


def test_an_input_unlike_all_instances_gets_no_prompt(toolbox: Toolbox) -> None:
    session = asked(with_prompts(toolbox, match=[prompt(0.5, (0.0, 1.0, 0.0))]))
    assert session.call("best_text_match", (WHOLE, ["pyramid", "red"]), {}, None) == "red"
    assert session.calls[0].taught == ()


def test_the_answerer_is_taught_by_cases(toolbox: Toolbox) -> None:
    source = PromptsInMemory({("vqa", ""): [prompt(1.0, (1.0, 0.0)), prompt(0.0, (0.0, 1.0))]})
    session = asked(toolbox.with_soft_prompts(source))
    assert session.call("simple_query", (WHOLE, "what color is it?"), {}, None) == "taught"
    assert session.call("simple_query", (WHOLE, "how many?"), {}, None) == "2"
    assert [call.taught for call in session.calls] == [("vqa",), ()]


def test_segments_of_taught_concepts_join_the_others(toolbox: Toolbox) -> None:
    session = asked(with_prompts(toolbox, seg=[prompt(1.0)]))
    found = session.call("segment", (WHOLE,), {}, None)
    assert sorted(ref.fields[6] for ref in found) == ["cube", "pyramid"]


def test_the_inpainter_paints_what_it_was_taught(toolbox: Toolbox) -> None:
    cube = Ref("patch", ("image0", 10.0, 10.0, 20.0, 20.0))
    prompts = [prompt(1.0, (1.0,))]
    session = asked(with_prompts(toolbox, replace=prompts))
    made = session.call("replace", (WHOLE, [cube], "a pyramid"), {}, None)
    assert (session.media.pixels(made.fields[0])[42:48, 12:18] == 255).all()
    made = session.call("replace", (WHOLE, [cube], "green"), {}, None)
    assert (session.media.pixels(made.fields[0])[45, 15] == [0, 255, 0]).all()


def test_a_role_that_nobody_plays_was_taught_nothing() -> None:
    toolbox = Toolbox(ModelSet({"detector": lambda: AdaptedDetector({})}), ToolSettings())
    session = asked(with_prompts(toolbox, loc=[prompt(0.9)]))
    assert len(session.call("find", (WHOLE, "pyramid"), {}, None)) == 1


def test_removed_pools_leave_every_bit_as_it_was(toolbox: Toolbox) -> None:
    first = asked(toolbox).call("find", (WHOLE, "pyramid"), {}, None)
    learned = with_prompts(toolbox, loc=[prompt(0.8)])
    assert asked(learned).call("find", (WHOLE, "pyramid"), {}, None) != first
    again = learned.with_soft_prompts(NoSoftPrompts())
    session = asked(again)
    assert session.call("find", (WHOLE, "pyramid"), {}, None) == first
    assert session.calls[0].cached
