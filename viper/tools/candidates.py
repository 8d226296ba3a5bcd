"""Candidates behind the result of a tool, with their scores.

A tool returns the best candidate, or those above a threshold. Error attribution needs all of them
to see which other answer was close. Everything here comes from cached encodings and results, so it
costs next to nothing after the call itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viper.sandbox import Ref
from viper.tools import tool_functions
from viper.tools.session import ToolSession


def boxes(session: ToolSession, patch: Any, name: str) -> list[tuple[Ref, float]]:
    """Return every box of a phrase in a patch with its score in [0, 1], best first, no threshold
    applied.

    As in ``find``, a plural is searched in the singular if none of its boxes passes the threshold.
    """
    region = session.region(patch)
    detected = tool_functions.detections(session, region, name)
    threshold = session.threshold("detector.threshold")
    if name.endswith("s") and all(item.score < threshold for item in detected):
        detected = tool_functions.detections(session, region, name[:-1]) or detected
    return [(session.patch_ref(region.image_id, item.box), item.score) for item in detected]


def text_fits(session: ToolSession, patch: Any, texts: Sequence[str]) -> list[float]:
    """Return the log-probability of each text for a patch, among the texts."""
    return _log_softmax(tool_functions.similarities(session, [session.region(patch)], texts)[0])


def patch_fits(session: ToolSession, patches: Sequence[Any], texts: Sequence[str]) -> list[float]:
    """Return the log-probability of each patch for the texts together, among the patches."""
    regions = [session.region(patch) for patch in patches]
    return _log_softmax(tool_functions.similarities(session, regions, texts).mean(axis=1))


def answer_likelihoods(
    session: ToolSession, patch: Any, question: str, answers: Sequence[str]
) -> list[float] | None:
    """Return the log-likelihood of each answer, or None if the VQA model gives none."""
    if not hasattr(session.toolbox.models.get("vqa"), "score_answers"):
        return None
    region = session.region(patch)
    encoding = tool_functions.vqa_encoding(session, region)
    content = session.media.content_hash(region.image_id)
    key = ("likelihoods", content, region.box, question, tuple(answers))
    return session.computed("vqa", key, "score_answers", encoding, question, list(answers))


def option_likelihoods(
    session: ToolSession, info: Any, question: str, options: Sequence[str]
) -> list[float] | None:
    """Return the log-likelihood of each option, or None if the language model gives none."""
    if not hasattr(session.toolbox.models.get("text"), "score_options"):
        return None
    facts = tool_functions.information(info)
    key = ("likelihoods", facts, question, tuple(options))
    return session.computed("text", key, "score_options", facts, question, list(options))


def _log_softmax(values: np.ndarray[Any, Any]) -> list[float]:
    shifted = values.astype(np.float64) - values.max()
    return [float(value) for value in shifted - np.log(np.exp(shifted).sum())]
