"""Runs a canonical program in this process against an oracle (our own text: no sandbox)."""

from __future__ import annotations

from typing import Any

from viper.api import prelude
from viper.sandbox.wire import Ref
from viper.schema import Box
from viper_lab.world.clips import sample_clip
from viper_lab.world.layout import sample_scene
from viper_lab.world.oracle import Oracle
from viper_lab.world.queries.sample import WorldSample
from viper_lab.world.render import render_scene
from viper_lab.world.scene import (
    CLIP_FRAMES,
    CLIP_HEIGHT,
    CLIP_WIDTH,
    IMAGE_HEIGHT,
    IMAGE_WIDTH,
    RenderedScene,
)


def oracle_of(sample: WorldSample, scene: RenderedScene | None = None) -> Oracle:
    if sample.task == "choice":
        clip = sample_clip(sample.split, sample.media_index)
        return Oracle(objects=clip.objects, events=clip.events)
    return Oracle(scene or render_scene(sample_scene(sample.split, sample.media_index)))


def execute(program: str, sample: WorldSample, oracle: Oracle) -> Any:
    """What the program returns: text, or a pixel box for a patch."""

    def out(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(out(item) for item in value)
        ref = prelude.encode(value)
        return value if ref is None else ref

    def back(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(back(item) for item in value)
        return prelude.decode(value, call) if isinstance(value, Ref) else value

    def call(name: str, *args: Any, **kwargs: Any) -> Any:
        return back(oracle.call(name, out(args), out(kwargs) or {}, None))

    scope: dict[str, Any] = dict(prelude.names(call, {}))
    exec(compile(program, "<program>", "exec"), scope)
    if sample.task == "choice":
        video = prelude.decode(Ref("video", ("video0", CLIP_FRAMES, CLIP_WIDTH, CLIP_HEIGHT)), call)
        return scope["execute_command"](video, sample.text, list(sample.options))
    image = prelude.decode(Ref("image", ("image0", IMAGE_WIDTH, IMAGE_HEIGHT)), call)
    value = scope["execute_command"](image)
    ref = prelude.encode(value)
    if ref is None:
        return value
    return Box(*(float(field) for field in ref.fields[1:5])).to_pixels(IMAGE_HEIGHT)


def is_right(sample: WorldSample, value: Any) -> bool:
    if sample.task == "ground":
        assert sample.box is not None
        return isinstance(value, tuple) and all(
            abs(a - b) < 1 for a, b in zip(value, sample.box, strict=True)
        )
    return bool(value == sample.answer_text)
