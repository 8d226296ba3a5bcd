"""What a manifest must not tell: keys and secrets, and where somebody's home is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HIDDEN = "[hidden]"

_SECRET_NAME = re.compile(
    r"(^|[-_])(api[-_]?key|key|secret|passw(or)?d|token|authorization|credentials?)$", re.IGNORECASE
)
_SECRET_VALUE = re.compile(r"\b(sk|hf|ghp|gsk|xai)[-_][A-Za-z0-9_-]{16,}|\bBearer\s+\S+")
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")


def redacted(value: Any) -> Any:
    """JSON values without what a name or a form gives away as secret, homes written as ``~``."""
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if item and _SECRET_NAME.search(str(key)) else redacted(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redacted(item) for item in value]
    return _text(value) if isinstance(value, str) else value


def redacted_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """A command line as typed, the values of options like ``--api-key`` hidden."""
    shown: list[str] = []
    hide = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        secret = argument.startswith("--") and bool(_SECRET_NAME.search(name))
        if hide:
            shown.append(HIDDEN)
        elif secret and equals:
            shown.append(f"{name}={HIDDEN}")
        else:
            shown.append(_text(argument))
        hide = secret and not equals
    return tuple(shown)


def _text(text: str) -> str:
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?=/|$)", "~", text)
    return _SECRET_VALUE.sub(HIDDEN, _USER_IN_URL.sub(f"{HIDDEN}@", text))
