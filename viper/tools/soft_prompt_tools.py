"""What abilities do where a tool was taught something that matters for a call.

A tool that was taught nothing about a call never comes here: its results, and the keys under which
they are kept, are those of the tool as it came. Soft prompts are mixed for the input by the
source (:mod:`viper.models.vision.soft_prompts`). The backend gets the mixture as a
:class:`LearnedPrompt`.

Source: CLOVA (Gao et al. 2024), sec. 3.4.1 and its supplement, sec. 8, "Inference".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from viper.models.vision.roles import Detection, Floats, Segment
from viper.models.vision.soft_prompts import NEAREST, LearnedPrompt, mixed, named_in
from viper.tools.session import Region, ToolSession

LEAST_CONFIDENCE = 0.1
"""A prompt of the detector that finds nothing so sure in a picture is not used on it."""

_ALIKE = np.ones(1, np.float32)
"""The feature of every input of the inpainter: what it paints is not there yet to be compared."""


def learned_concepts(session: ToolSession, role: str, tool: str) -> Collection[str]:
    """The concepts that the tool was taught, for the model that plays the role now."""
    models = session.toolbox.models
    if role not in models.roles:
        return ()
    return session.toolbox.soft_prompts.concepts(tool, models.trait(role, "model_id"))


def concepts_named_in(session: ToolSession, role: str, tool: str, text: str) -> tuple[str, ...]:
    """Those of them that a text names."""
    known = learned_concepts(session, role, tool)
    return named_in(text, known) if known else ()


def prompt_keys(prompts: Sequence[LearnedPrompt]) -> tuple[str, ...]:
    """What a result depends on beside its input: part of the key under which it is kept."""
    return ("taught", *(prompt.digest for prompt in prompts))


def detect(
    session: ToolSession, where: tuple[Any, ...], encoding: Any, phrase: str
) -> list[Detection] | None:
    """What the detector finds for a phrase that names a taught concept; None: it names none.

    Prompts whose best box is not above :data:`LEAST_CONFIDENCE` are left out.

    Args:
        where: content and box of the picture, as in the keys of its other results.
    """
    prompts = []
    for concept in concepts_named_in(session, "detector", "loc", phrase):
        feature = session.computed("detector", (*where, "feature"), "feature", encoding)
        fit = [
            one
            for one in _candidates(session, "detector", "loc", concept)
            if _surest(session, where, encoding, phrase, LearnedPrompt(concept, one.vectors))
            > LEAST_CONFIDENCE
        ]
        prompts += _mixture(session, "loc", concept, mixed(fit, feature, NEAREST.get("loc")))
    if not prompts:
        return None
    key = (*where, phrase, *prompt_keys(prompts))
    found: list[Detection] = session.computed(
        "detector", key, "detect_adapted", encoding, phrase, prompts
    )
    return found


def _surest(
    session: ToolSession, where: tuple[Any, ...], encoding: Any, phrase: str, one: LearnedPrompt
) -> float:
    key = (*where, phrase, "surest", *prompt_keys([one]))
    found: float = session.computed("detector", key, "surest", encoding, phrase, [one])
    return found


def match(
    session: ToolSession,
    region: Region,
    text: str,
    plain: Floats,
    look: Callable[[], Any],
) -> float | None:
    """Cosine of a region and a text that names a taught concept; None: it names none.

    Args:
        plain: the region's embedding by the matcher as it came, float32 [D].
        look: gives the pixels that the matcher sees of the region.
    """
    prompts = []
    for concept in concepts_named_in(session, "matcher", "match", text):
        prompts += _ensemble(session, "matcher", "match", concept, plain)
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
    session: ToolSession, where: tuple[Any, ...], encoding: Any, question: str
) -> str | None:
    """The VQA model's answer where cases like this one were learned; None: none were.

    Args:
        where: content and box of the picture, as in the keys of its other results.
    """
    if not learned_concepts(session, "vqa", "vqa"):
        return None
    feature = session.computed("vqa", (*where, question, "feature"), "feature", encoding, question)
    prompts = _ensemble(session, "vqa", "vqa", "", feature)
    if not prompts:
        return None
    key = (*where, question, *prompt_keys(prompts))
    found: str = session.computed("vqa", key, "answer_adapted", encoding, question, prompts[0])
    return found


def segments(session: ToolSession, where: tuple[Any, ...], encoding: Any) -> list[Segment] | None:
    """The segments of a picture, those of taught concepts among them; None: nothing was taught.

    Args:
        where: content and box of the picture, as in the keys of its other results.
    """
    prompts = []
    for concept in sorted(learned_concepts(session, "segmenter", "seg")):
        feature = session.computed("segmenter", (*where, "feature"), "feature", encoding)
        prompts += _ensemble(session, "segmenter", "seg", concept, feature)
    if not prompts:
        return None
    key = (*where, *prompt_keys(prompts))
    found: list[Segment] = session.computed("segmenter", key, "segments_adapted", encoding, prompts)
    return found


def inpainter_prompts(session: ToolSession, text: str) -> list[LearnedPrompt]:
    """What the inpainter was taught of a text; nothing where it names no taught concept."""
    prompts = []
    for concept in concepts_named_in(session, "inpainter", "replace", text):
        prompts += _ensemble(session, "inpainter", "replace", concept, _ALIKE)
    return prompts


def _candidates(session: ToolSession, role: str, tool: str, concept: str) -> Sequence[Any]:
    model_id = session.toolbox.models.trait(role, "model_id")
    return session.toolbox.soft_prompts.candidates(tool, concept, model_id)


def _ensemble(
    session: ToolSession, role: str, tool: str, concept: str, feature: Floats
) -> list[LearnedPrompt]:
    model_id = session.toolbox.models.trait(role, "model_id")
    found = session.toolbox.soft_prompts.ensemble(tool, concept, feature, model_id=model_id)
    return _mixture(session, tool, concept, found)


def _mixture(
    session: ToolSession, tool: str, concept: str, vectors: Floats | None
) -> list[LearnedPrompt]:
    if vectors is None:
        return []
    session.note_soft_prompt(f"{tool}: {concept}" if concept else tool)
    return [LearnedPrompt(concept, vectors)]
