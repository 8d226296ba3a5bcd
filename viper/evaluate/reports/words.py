"""Answers and targets of rows in words, as tables and pages show them."""

from __future__ import annotations

import json

from viper.evaluate.row import Row
from viper.evaluate.runs.plain import plain


def answer_words(row: Row) -> str:
    """What was answered; ``none`` where nothing was."""
    prediction = row.prediction
    if prediction is None:
        return "none"
    if prediction.box is not None:
        return "[" + ", ".join(f"{side:.0f}" for side in prediction.box) + "]"
    index = prediction.choice_index
    if index is not None and 0 <= index < len(row.options):
        return row.options[index]
    if isinstance(prediction.value, dict) and "picture" in prediction.value:
        return "a picture"
    return str(prediction.value if index is None else index)


def target_words(row: Row) -> str:
    """What is right."""
    target = row.target
    if isinstance(target, int) and not isinstance(target, bool) and 0 <= target < len(row.options):
        return row.options[target]
    if isinstance(target, str):
        return target
    found = plain(target)
    if isinstance(found, dict) and {"operation", "old", "new"} <= found.keys():
        return " ".join(filter(None, [found["operation"], found["old"], found["new"]]))
    return json.dumps(found, ensure_ascii=False)
