"""What the environment answers to code, in words that an agent reads.

A value as a notebook shows it, what was printed before it, an error with the line it arose on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from viper.sandbox import Outcome, Ref
from viper.schema import Failure

MOST_ITEMS = 12
"""Of a list that are shown; the rest is counted."""

MOST_TEXT = 400
"""Characters of a text that are shown."""

MOST_PRINTED = 800

NOTHING = "(nothing)"

TRACEBACK = "Traceback"
"""How the answer to code that failed begins."""


def shown_outcome(outcome: Outcome) -> str:
    """What was printed, then the value or the error; "(nothing)" where there is none of them."""
    parts = [_cut(outcome.stdout.rstrip(), MOST_PRINTED)]
    if outcome.failure is not None:
        parts.append(shown_failure(outcome.failure))
    elif outcome.value is not None:
        parts.append(shown_value(outcome.value))
    return "\n".join(filter(None, parts)) or NOTHING


def shown_failure(failure: Failure) -> str:
    """The error with the line that it arose on, as the last lines of a traceback have them."""
    where = f" (line {failure.line})" if failure.line is not None else ""
    line = f"\n    {failure.source_line.strip()}" if failure.source_line else ""
    what = failure.exception or failure.kind
    return f"{TRACEBACK}{where}:{line}\n{what}: {failure.message}"


def shown_value(value: Any) -> str:
    """A value in one line; a text as it is, within lists and records in quotes."""
    return _cut(value, MOST_TEXT) if isinstance(value, str) else _shown(value, 0)


def _shown(value: Any, depth: int) -> str:
    if isinstance(value, Ref):
        return _reference(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        return f"array of {value.dtype} {list(value.shape)}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, str):
        return repr(_cut(value, MOST_TEXT))
    if depth > 2 and isinstance(value, list | tuple | Mapping):
        return "…"
    if isinstance(value, Mapping):
        items = [f"{_shown(k, depth + 1)}: {_shown(v, depth + 1)}" for k, v in value.items()]
        return f"{{{_listed(items)}}}"
    if isinstance(value, list | tuple):
        inside = _listed([_shown(item, depth + 1) for item in value])
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return _cut(str(value), MOST_TEXT)


def _reference(value: Ref) -> str:
    numbers = [round(float(one)) for one in value.fields[1:5] if isinstance(one, int | float)]
    names = {"patch": "ImagePatch", "segment": "VideoSegment", "image": "image", "video": "video"}
    name = names.get(value.kind, value.kind)
    if value.kind in ("patch", "segment"):
        return f"{name}({', '.join(map(str, numbers))})"
    return f"<{name}>"


def _listed(items: list[str]) -> str:
    more = len(items) - MOST_ITEMS
    shown = items[:MOST_ITEMS]
    return ", ".join([*shown, f"… {more} more"] if more > 0 else shown)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
