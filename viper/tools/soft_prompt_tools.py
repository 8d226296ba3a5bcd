"""Tool calls that use learned soft prompts.

A call without a matching soft prompt never uses this module, so its results and cache keys are
those of the original tool. The source (:mod:`viper.models.vision.soft_prompts`) mixes the soft
prompts for the input. The backend gets the mixture as a :class:`LearnedPrompt`.

Source: CLOVA (Gao et al. 2024), sec. 3.4.1 and its supplement, sec. 8, "Inference".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from viper.models.vision.roles import Detection, Floats, Segment
from viper.models.vision.soft_prompts import NEAREST, LearnedPrompt, find_named, mix
from viper.tools.session import Region, ToolSession

# Least score of a detector prompt's best box for the prompt to be used on a picture; below it the
# picture shows nothing that the prompt was learned from.
LEAST_CONFIDENCE = 0.1

# Feature of every input of the inpainter, since a painting does not exist before it is made.
_ALIKE = np.ones(1, np.float32)


def learned_concepts(session: ToolSession, role: str, tool: str) -> Collection[str]:
    """Return the concepts that the tool has learned, for the role's current model."""
    models = session.toolbox.models
    if role not in models.roles:
        return ()
    return session.toolbox.soft_prompts.concepts(tool, models.trait(role, "model_id"))


def concepts_named_in(session: ToolSession, role: str, tool: str, text: str) -> tuple[str, ...]:
    """Return the learned concepts that a text names."""
    concepts = learned_concepts(session, role, tool)
    return find_named(text, concepts) if concepts else ()


def prompt_keys(prompts: Sequence[LearnedPrompt]) -> tuple[str, ...]:
    """Return the part of a cache key that stands for the prompts."""
    return ("taught", *(prompt.digest for prompt in prompts))


def detect(
    session: ToolSession, place: tuple[Any, ...], encoding: Any, phrase: str
) -> list[Detection] | None:
    """Return the detector's boxes for a phrase, or None if no soft prompt fits it.

    Prompts whose best box is not above :data:`LEAST_CONFIDENCE` are left out.

    Args:
        place: content and box of the picture, as in the keys of its other results.
    """
    prompts = []
    for concept in concepts_named_in(session, "detector", "loc", phrase):
        feature = session.computed("detector", (*place, "feature"), "feature", encoding)
        model_id = session.toolbox.models.trait("detector", "model_id")
        usable = []
        for candidate in session.toolbox.soft_prompts.candidates("loc", concept, model_id):
            alone = [LearnedPrompt(concept, candidate.vectors)]
            key = (*place, phrase, "surest", *prompt_keys(alone))
            score = session.computed("detector", key, "surest", encoding, phrase, alone)
            if score > LEAST_CONFIDENCE:
                usable.append(candidate)
        prompts += _mixture(session, "loc", concept, mix(usable, feature, NEAREST.get("loc")))
    if not prompts:
        return None
    key = (*place, phrase, *prompt_keys(prompts))
    return session.computed("detector", key, "detect_adapted", encoding, phrase, prompts)


def match(
    session: ToolSession, region: Region, text: str, plain: Floats, look: Callable[[], Any]
) -> float | None:
    """Return the cosine of a region and a text, or None if the text names no learned concept.

    Args:
        plain: the region's embedding by the original matcher, float32 [D].
        look: returns the pixels that the matcher sees of the region.
    """
    concepts = concepts_named_in(session, "matcher", "match", text)
    prompts = _ensemble(session, "matcher", "match", concepts, plain)
    if not prompts:
        return None
    content = session.media.content_hash(region.image_id)
    image: Floats = session.computed_late(
        "matcher",
        ("image", content, region.box, *prompt_keys(prompts)),
        "encode_image_adapted",
        lambda: (look(), prompts),
    )
    words: Floats = session.computed(
        "matcher", ("text", text, *prompt_keys(prompts)), "encode_text_adapted", text, prompts
    )
    return float(image @ words)


def answer(
    session: ToolSession, place: tuple[Any, ...], encoding: Any, question: str
) -> str | None:
    """Return the VQA model's answer, or None if it has learned no case like this one.

    Args:
        place: content and box of the picture, as in the keys of its other results.
    """
    if not learned_concepts(session, "vqa", "vqa"):
        return None
    feature = session.computed("vqa", (*place, question, "feature"), "feature", encoding, question)
    prompts = _ensemble(session, "vqa", "vqa", [""], feature)
    if not prompts:
        return None
    key = (*place, question, *prompt_keys(prompts))
    return session.computed("vqa", key, "answer_adapted", encoding, question, prompts[0])


def segments(session: ToolSession, place: tuple[Any, ...], encoding: Any) -> list[Segment] | None:
    """Return all segments of a picture, learned concepts included, or None if none were learned.

    Args:
        place: content and box of the picture, as in the keys of its other results.
    """
    concepts = sorted(learned_concepts(session, "segmenter", "seg"))
    if not concepts:
        return None
    feature = session.computed("segmenter", (*place, "feature"), "feature", encoding)
    prompts = _ensemble(session, "segmenter", "seg", concepts, feature)
    if not prompts:
        return None
    key = (*place, *prompt_keys(prompts))
    return session.computed("segmenter", key, "segments_adapted", encoding, prompts)


def inpainter_prompts(session: ToolSession, text: str) -> list[LearnedPrompt]:
    """Return the soft prompts of the learned concepts that a text names."""
    concepts = concepts_named_in(session, "inpainter", "replace", text)
    return _ensemble(session, "inpainter", "replace", concepts, _ALIKE)


def _ensemble(
    session: ToolSession, role: str, tool: str, concepts: Sequence[str], feature: Floats
) -> list[LearnedPrompt]:
    prompts = []
    for concept in concepts:
        model_id = session.toolbox.models.trait(role, "model_id")
        vectors = session.toolbox.soft_prompts.ensemble(tool, concept, feature, model_id=model_id)
        prompts += _mixture(session, tool, concept, vectors)
    return prompts


def _mixture(
    session: ToolSession, tool: str, concept: str, vectors: Floats | None
) -> list[LearnedPrompt]:
    if vectors is None:
        return []
    session.note_soft_prompt(f"{tool}: {concept}" if concept else tool)
    return [LearnedPrompt(concept, vectors)]
