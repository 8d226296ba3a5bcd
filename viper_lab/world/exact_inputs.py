"""Exact inputs near a query about the embedded world, for verification of its programs.

An input is a scene or clip whose objects have the looks that the query names, with the tools that
know its truth (:class:`viper_lab.world.oracle.Oracle`). Of a scene only the truth is needed, so its
geometry is drawn from a few rendered scenes and its looks are new; no picture is rendered for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np

from viper.models.media import Media
from viper.schema import Query
from viper.strategies.exact import ExactInput
from viper_lab.world.clips import sample_clip
from viper_lab.world.events import object_name
from viper_lab.world.everyday.words import in_world_words
from viper_lab.world.layout import sample_scene
from viper_lab.world.oracle import Oracle
from viper_lab.world.render import render_scene
from viper_lab.world.scene import CLIP_FRAMES, CLIP_HEIGHT, CLIP_WIDTH, RenderedScene, SceneObject
from viper_lab.world.vocabulary import COLOURS, MATERIALS, SHAPES, SIZES

# Number of rendered scenes whose boxes and depths are used.
GEOMETRIES = 24

# Number of the first scene and clip of the train split that is used.
FIRST_SEED = 7_700_000

# Share of objects that look like one of the query's phrases; half of them differ in one word.
NAMED = 0.7

_FAMILIES = {"size": SIZES, "colour": COLOURS, "material": MATERIALS, "shape": SHAPES}
_TASKS = {"image": ("ground", "question", "statement", "choice"), "video": ("choice", "question")}

# Words by attribute of :class:`SceneObject`.
Look = dict[str, Any]


def exact_inputs(query: Query, count: int) -> Sequence[ExactInput]:
    """Return exact inputs near a query; none for tasks whose answer is a picture or tags."""
    if query.task not in _TASKS.get(query.media, ()):
        return []
    random = Random(f"exact {query.text} {query.options}")
    looks = named_looks(" . ".join((query.text, *query.options)))
    make = _scene_input if query.media == "image" else _clip_input
    return [make(random, looks) for _ in range(count)]


def named_looks(text: str) -> list[Look]:
    """Return the looks that a text names: its runs of attribute words, each once."""
    looks: list[Look] = []
    look: Look = {}
    for word in [*in_world_words(text.lower()).replace("?", " ").replace(",", " ").split(), "."]:
        single = word.removesuffix("s") if word.removesuffix("s") in SHAPES else word
        family = next((name for name, words in _FAMILIES.items() if single in words), None)
        if family is not None and family not in look:
            look[family] = single
        if look and (family is None or family == "shape"):
            if look not in looks:
                looks.append(look)
            look = {}
    return looks


def _scene_input(random: Random, looks: Sequence[Look]) -> ExactInput:
    return exact_scene(scene_near(random, looks))


def exact_scene(rendered: RenderedScene) -> ExactInput:
    """Return a scene with tools that know its truth."""
    return ExactInput(Media((rendered.image,), None, ("image0",)), Oracle(rendered))


def scene_near(random: Random, looks: Sequence[Look]) -> RenderedScene:
    """Return a scene in which most of the looks occur; its image shows another one."""
    rendered = _geometry(random.randrange(GEOMETRIES))
    objects = [replace(thing, **_look(random, looks)) for thing in rendered.scene.objects]
    for place, look in zip(random.sample(range(len(objects)), len(objects)), looks, strict=False):
        if random.random() < NAMED:  # mostly each phrase names something
            objects[place] = replace(objects[place], **look)
    return replace(rendered, scene=replace(rendered.scene, objects=tuple(objects)))


def _clip_input(random: Random, looks: Sequence[Look]) -> ExactInput:
    clip = sample_clip("train", FIRST_SEED + random.randrange(10**6))
    objects: list[SceneObject] = list(clip.objects)
    places = random.sample(range(len(objects)), len(objects))
    for place, look in zip(places, random.sample(looks, len(looks)), strict=False):
        other = replace(objects[place], **look)
        if object_name(other) not in map(object_name, objects):
            objects[place] = other
    frames = np.broadcast_to(np.uint8(0), (CLIP_FRAMES, CLIP_HEIGHT, CLIP_WIDTH, 3))
    media = Media((), frames, ("video0",))
    return ExactInput(media, Oracle(objects=objects, events=clip.events))


def _look(random: Random, looks: Sequence[Look]) -> Look:
    """Return a random look, mostly one that a phrase of the query names or nearly names."""
    look = {family: random.choice(words) for family, words in _FAMILIES.items()}
    if looks and random.random() < NAMED:
        look |= random.choice(looks)
        if random.random() < 0.5:
            family = random.choice(list(_FAMILIES))
            look[family] = random.choice(_FAMILIES[family])
    return look


@cache
def _geometry(number: int) -> RenderedScene:
    return render_scene(sample_scene("train", FIRST_SEED + number))
