"""Every kind of everyday question: its program, with perfect tools, gives the scene's answer."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from viper.api.prelude import PRELUDE
from viper.sandbox import Ref, Sandbox
from viper_lab.world.clips import Clip, render_frame, sample_clip
from viper_lab.world.everyday.clip_programs import clip_program
from viper_lab.world.everyday.clips import CLIP_SHARES, ClipAsk, clip_names, draw_clip_ask
from viper_lab.world.everyday.draw import HELD_OUT_PAIRS, SHARES, FreeKinds, draw_ask
from viper_lab.world.everyday.meaning import constructs, depth
from viper_lab.world.everyday.programs import program_of
from viper_lab.world.everyday.samples import PARTS, everyday_samples
from viper_lab.world.everyday.words import in_world_words
from viper_lab.world.layout import sample_scene
from viper_lab.world.oracle import Oracle
from viper_lab.world.perfect import answer_perfectly
from viper_lab.world.render import render_scene
from viper_lab.world.scene import CLIP_FRAMES, CLIP_HEIGHT, CLIP_WIDTH

LOOSE = {"choose"}
"""Types that are not compared: a perfect matcher scores neither sizes nor synonyms."""


class ClipTools(Oracle):
    """Perfect tools for a clip and its single frames."""

    def __init__(self, clip: Clip) -> None:
        super().__init__(None, clip.objects, clip.events)
        self._clip = clip

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None = None
    ) -> Any:
        _, is_frame, number = str(args[0].fields[0]).partition("#")
        if not is_frame:
            return super().call(name, args, kwargs, line)
        return Oracle(render_frame(self._clip, int(number))).call(name, args, kwargs, line)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(prelude=PRELUDE) as sandbox:
        yield sandbox


@pytest.mark.parametrize("part", ["seen", "wordings", "synonyms"])
def test_programs_about_scenes_are_right(part: str, sandbox: Sandbox) -> None:
    wrong, count = [], 0
    for sample in everyday_samples("train", 5, 40, PARTS[part]):
        scene = render_scene(sample_scene("train", sample.index))
        answer, _ = answer_perfectly(program_of(sample.ask), sample.query, [scene], sandbox)
        count += 1
        value = getattr(answer, "value", None)
        if sample.box is not None:
            height = scene.image.shape[0]
            x0, y0, x1, y1 = sample.box
            expected = pytest.approx([x0, height - y1, x1, height - y0], abs=1.5)
            if value != expected and value != pytest.approx(list(sample.box), abs=1.5):
                wrong.append(sample)
        elif str(value) != str(sample.answer) and sample.type not in LOOSE:
            wrong.append(sample)
    assert count == 40
    assert not wrong, [(s.query.text, s.answer) for s in wrong]


def test_programs_about_clips_are_right(sandbox: Sandbox) -> None:
    wrong, types = [], Counter[str]()
    for sample in everyday_samples("train", 3, 120, clips=True):
        clip, ask = sample_clip("train", sample.index), sample.ask
        assert isinstance(ask, ClipAsk)
        named = [ask.actor, *((ask.event.actor, ask.event.target) if ask.event else ())]
        full = all(in_world_words(name) in (*clip.names, "") for name in named)
        if not full and ask.type not in ("count_at", "seen", "still"):
            continue  # the oracle's events have full names
        outcome = sandbox.run(
            clip_program(ask, options=False),
            tools=ClipTools(clip),
            entry="execute_command",
            args={
                "video": Ref("video", ("video0", CLIP_FRAMES, CLIP_WIDTH, CLIP_HEIGHT)),
                "question": sample.query.text,
                "possible_answers": [],
            },
        )
        types[ask.type] += 1
        if str(outcome.value).rstrip(".") != str(sample.answer):
            wrong.append((sample.query.text, sample.answer, outcome.value, outcome.failure))
    assert {"which", "times", "still", "way", "count_at"} <= set(types)
    assert not wrong


def test_every_type_is_drawn_and_compiles() -> None:
    random = Random(0)
    kinds = FreeKinds(random)
    asks = [draw_ask(random, kinds) for _ in range(1500)]
    assert {ask.type for ask in asks} == set(SHARES)
    assert set().union(*map(constructs, asks)) >= {"side", "pair", "middle", "ordinal", "apart"}
    assert max(depth(ask) for ask in asks) >= 4
    plain = (draw_ask(random, kinds, deepest=1) for _ in range(300))
    assert max(depth(ask) for ask in plain) == 2
    for ask in asks:
        ast.parse(program_of(ask))
    names = clip_names(random)
    clip_asks = [draw_clip_ask(random, names) for _ in range(800)]
    assert {ask.type for ask in clip_asks} == set(CLIP_SHARES)
    for clip_ask in clip_asks:
        ast.parse(clip_program(clip_ask, options=random.random() < 0.5))


def test_compositions_that_are_held_out_stay_out_of_training() -> None:
    random = Random(1)
    kinds = FreeKinds(random)
    for _ in range(1500):
        assert not any(pair <= constructs(draw_ask(random, kinds)) for pair in HELD_OUT_PAIRS)
    for _ in range(100):
        ask = draw_ask(random, kinds, held_out=True)
        assert any(pair <= constructs(ask) for pair in HELD_OUT_PAIRS)
