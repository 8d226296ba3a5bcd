"""Exact match of answers, both sides brought to one form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from viper.agreement import normalised


def answer_correct(prediction: Any, target: str | Iterable[str]) -> bool:
    """Whether the prediction is the target, or one of the targets, after :func:`normalised`.

    None, and an answer of which nothing is left, is never right.
    Source: GQA (Hudson and Manning 2019) compares strings exactly.
    Differs: both sides are normalised, because free answers of programs are compared with
    annotations of one fixed form; ViperGPT normalises the prediction alone, which makes
    ``the dog``, ``t-shirt`` or ``two`` wrong wherever the annotation says just that.
    """
    if prediction is None:
        return False
    said = normalised(prediction)
    targets = [target] if isinstance(target, str) else list(target)
    return bool(said) and any(said == normalised(one) for one in targets)
