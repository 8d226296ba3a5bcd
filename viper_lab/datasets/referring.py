"""Several different referring expressions about each scene of the embedded world.

Other than :func:`viper_lab.world.queries.generate.generate`, which spends a scene on one query,
this asks as the RefCOCO sets do: a few expressions a picture.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from viper_lab.world.layout import sample_scene
from viper_lab.world.queries.generate import PROPOSALS
from viper_lab.world.queries.lexicon import NoSuchNounError
from viper_lab.world.queries.meaning import steps
from viper_lab.world.queries.referring import WEIGHTS, draw_referring, say_referring
from viper_lab.world.queries.sample import WorldSample
from viper_lab.world.queries.scene_nouns import SceneNouns
from viper_lab.world.queries.truth import SceneTruth, UnanswerableError
from viper_lab.world.render import render_scene
from viper_lab.world.splits import SCENES_PER_SPLIT

EXPRESSIONS = 4
"""Expressions about each scene."""


def several_expressions(split: str, seed: int, count: int) -> list[WorldSample]:
    """Referring expressions, each ``EXPRESSIONS`` in a row about one scene, no text twice there.

    The last scene has fewer where ``count`` is no multiple. The same arguments give the same
    samples.
    """
    random = Random(f"several {split} {seed}")
    samples: list[WorldSample] = []
    while len(samples) < count:
        index = random.randrange(SCENES_PER_SPLIT)
        about = _about(split, index, random)
        if len(about) < EXPRESSIONS:
            continue
        name = f"{split}-{seed}-referring{EXPRESSIONS}-{index}"
        samples += [replace(s, sample_id=f"{name}-{n}") for n, s in enumerate(about.values())]
    return samples[:count]


def _about(split: str, index: int, random: Random) -> dict[str, WorldSample]:
    """Text to sample for one scene; fewer than wanted where it yields no more."""
    truth = SceneTruth(render_scene(sample_scene(split, index)))
    nouns = SceneNouns(truth, random, held_out=split == "test")
    found: dict[str, WorldSample] = {}
    for type_ in random.choices(tuple(WEIGHTS), tuple(WEIGHTS.values()), k=PROPOSALS):
        try:
            meaning = draw_referring(type_, nouns, random)
            answer = truth.answer(meaning)
        except (NoSuchNounError, UnanswerableError):
            continue
        template, text = say_referring(meaning, random, split)
        x0, y0, x1, y1 = (float(v) for v in truth.boxes[int(answer)])
        found[text] = WorldSample(
            sample_id="",
            family="referring",
            split=split,
            text=text,
            answer=answer,
            media_index=index,
            query_type=meaning.type,
            template=template,
            steps=steps(meaning),
            meaning=meaning,
            box=(x0, y0, x1, y1),
        )
        if len(found) == EXPRESSIONS:
            break
    return found
