"""What the tools had to choose from: the candidates behind a result, with their scores.

An ability answers with the best candidate, or with those above a threshold. Who asks which other
answer was near needs all of them. Everything here is read from kept encodings and results, so it
costs next to nothing after the call itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.models.vision.roles import EventWindow
from viper.sandbox import Ref
from viper.tools.session import ToolSession
from viper.tools.tool_functions import (
    detections,
    information,
    similarities,
    video_encoding,
    vqa_encoding,
)


def boxes(session: ToolSession, patch: Any, name: str) -> list[tuple[Ref, float]]:
    """Every box of a phrase in a patch with its score in [0, 1], best first, no threshold applied.

    As ``find`` does, a plural none of whose boxes passes the threshold is asked in the singular.
    """
    region = session.region(patch)
    found = detections(session, region, name)
    threshold = session.threshold("detector.threshold")
    if name.endswith("s") and all(item.score < threshold for item in found):
        found = detections(session, region, name[:-1]) or found
    return [(session.patch_ref(region.image_id, item.box), item.score) for item in found]


def text_fits(session: ToolSession, patch: Any, texts: Sequence[str]) -> list[float]:
    """Log-probability of each text for a patch, among the texts."""
    return _log_softmax(similarities(session, [session.region(patch)], texts)[0])


def patch_fits(session: ToolSession, patches: Sequence[Any], texts: Sequence[str]) -> list[float]:
    """Log-probability of each patch for the texts together, among the patches."""
    regions = [session.region(patch) for patch in patches]
    return _log_softmax(similarities(session, regions, texts).mean(axis=1))


def answer_likelihoods(
    session: ToolSession, patch: Any, question: str, answers: Sequence[str]
) -> list[float] | None:
    """Log-likelihood of each answer to a question; None where the VQA model tells none."""
    if not hasattr(session.toolbox.models.get("vqa"), "score_answers"):
        return None
    region = session.region(patch)
    encoding = vqa_encoding(session, region)
    content = session.media.content_hash(region.image_id)
    key = ("likelihoods", content, region.box, question, tuple(answers))
    found: list[float] = session.computed(
        "vqa", key, "score_answers", encoding, question, list(answers)
    )
    return found


def option_likelihoods(
    session: ToolSession, info: Any, question: str, options: Sequence[str]
) -> list[float] | None:
    """Log-likelihood of each option of a selection; None where the language model tells none."""
    if not hasattr(session.toolbox.models.get("text"), "score_options"):
        return None
    known = information(info)
    key = ("likelihoods", known, question, tuple(options))
    found: list[float] | None = session.computed(
        "text", key, "score_options", known, question, list(options)
    )
    return found


def windows(session: ToolSession, segment: Any, event: str) -> list[EventWindow]:
    """Every window of an event that reaches into a segment, cut to it, best first.

    Raises:
        ToolError: no segment, or no video in the query.
    """
    start, end = session.segment(segment)
    phrase = event.strip()
    if not phrase:
        raise ToolError("the event has no words")
    encoding = video_encoding(session)
    key = (session.media.content_hash("video0"), phrase)
    found = session.computed("video", key, "locate", encoding, phrase)
    return [
        EventWindow(max(item.start, start), min(item.end, end), item.score)
        for item in found
        if min(item.end, end) > max(item.start, start)
    ]


def _log_softmax(values: np.ndarray[Any, Any]) -> list[float]:
    shifted = values.astype(np.float64) - values.max()
    return [float(value) for value in shifted - np.log(np.exp(shifted).sum())]
