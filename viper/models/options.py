"""Checks of the options that a profile gives to a backend, with one message for each mistake."""

from __future__ import annotations

from collections.abc import Sequence

from viper.errors import ProfileError


def check_at_least(minimum: int, **options: int) -> None:
    """Raise ProfileError if one of the named options is below the minimum."""
    for name, value in options.items():
        if value < minimum:
            raise ProfileError(f"the option {name} is {value}; expected {minimum} or more")


def check_shares(**options: float) -> None:
    """Raise ProfileError if one of the named options is outside [0, 1]."""
    for name, value in options.items():
        if not 0 <= value <= 1:
            raise ProfileError(f"the option {name} is {value}; expected 0 to 1")


def checked_texts(name: str, value: Sequence[str], *, at_least: int = 0) -> list[str]:
    """Return the texts of an option as a list.

    Raises:
        ProfileError: a single text, something other than texts, or too few.
    """
    texts = [] if isinstance(value, str) else list(value)
    if isinstance(value, str) or not all(isinstance(text, str) for text in texts):
        raise ProfileError(f"the option {name} is {value!r}; expected a list of texts")
    if len(texts) < at_least:
        raise ProfileError(f"the option {name} has {len(texts)} texts; expected {at_least} or more")
    return texts
