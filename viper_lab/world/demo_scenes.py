"""Scenes and clips of the embedded world, with generated queries about each.

No query is selected for a right answer. The kinds of queries are drawn as the data set draws them.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from viper.web.demo.session import DemoExample, DemoScene
from viper_lab.world.clips import render_clip, sample_clip
from viper_lab.world.layout import sample_scene
from viper_lab.world.queries import compositional, temporal
from viper_lab.world.queries.clip_truth import ClipTruth
from viper_lab.world.queries.generate import PROPOSALS
from viper_lab.world.queries.lexicon import NoSuchNounError
from viper_lab.world.queries.meaning import SHARES
from viper_lab.world.queries.scene_nouns import SceneNouns
from viper_lab.world.queries.truth import SceneTruth, UnanswerableError
from viper_lab.world.render import render_scene

# Split of the scenes, which neither a training nor the final test uses.
SPLIT = "val"

# Queries of a family about one scene.
EACH = 3


def draw_picture(index: int) -> DemoScene:
    """Return scene number ``index`` (``viper lab world render --index``) and queries about it."""
    rendered = render_scene(sample_scene(SPLIT, index))
    truth, random = SceneTruth(rendered), Random(f"demo scene {index}")
    nouns = SceneNouns(truth, random, held_out=False)

    def examples(family: str) -> list[DemoExample]:
        by_text: dict[str, DemoExample] = {}
        for type_ in _types(SHARES[family], random):
            try:
                meaning = compositional.draw_about_scene(family, type_, nouns, random)
                truth.answer(meaning)
            except (NoSuchNounError, UnanswerableError):
                continue
            _, text = compositional.say_about_scene(family, meaning, random, SPLIT)
            by_text[text] = DemoExample(text)
            if len(by_text) == EACH:
                break
        return list(by_text.values())

    queries = (*examples("referring"), *examples("question"))
    return DemoScene(rendered.image, f"scene {index}", queries)


def draw_clip(index: int) -> DemoScene:
    """Return clip number ``index``, with questions and possible answers."""
    clip = sample_clip(SPLIT, index)
    truth, random = ClipTruth(clip.objects, clip.events), Random(f"demo clip {index}")
    by_text: dict[str, DemoExample] = {}
    for type_ in _types(temporal.WEIGHTS, random):
        example = _about_clip(truth, type_, random)
        if example is not None:
            by_text.setdefault(example.text, example)
        if len(by_text) == EACH:
            break
    return DemoScene(render_clip(clip).frames, f"clip {index}", tuple(by_text.values()))


def _about_clip(truth: ClipTruth, type_: str, random: Random) -> DemoExample | None:
    """Return a query of a type that the clip has an answer to."""
    meanings = truth.meanings(type_)
    random.shuffle(meanings)
    for meaning in meanings:
        try:
            event = truth.answer(meaning)
        except UnanswerableError:
            continue
        _, text = temporal.say_temporal(meaning, random, SPLIT)
        return DemoExample(text, tuple(truth.options(meaning, event, random, held_out=False)))
    return None


def _types(weights: Mapping[str, float], random: Random) -> list[str]:
    return random.choices(tuple(weights), tuple(weights.values()), k=PROPOSALS)
