"""Builders of prompts as builders of text, for tests that read what a prompt says."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from viper.models.llm.messages import Prompt, as_text


def textual(build: Callable[..., Prompt]) -> Callable[..., str]:
    """Return the builder with its prompt as text, see :func:`viper.models.llm.messages.as_text`."""

    @wraps(build)
    def text(*args: Any, **named: Any) -> str:
        return as_text(build(*args, **named))

    return text
