"""The addresses of the atlas' pages: what a filter looks like there, and back."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from viper.web.atlas.index import Wanted

_LONGEST = 500
"""Characters of a field; longer ones are cut."""


def wanted_from(given: Mapping[str, str]) -> Wanted:
    """The filter of an address; what makes no sense in it is passed over."""

    def text(name: str) -> str:
        return given.get(name, "")[:_LONGEST]

    name, equals, value = text("kind").partition("=")
    return Wanted(
        text=text("text").strip(),
        failure=text("failure"),
        tool=text("tool"),
        part=text("part"),
        kind=(name, value) if equals else None,
        low=_share(text("low")),
        high=_share(text("high")),
        seed=whole(text("seed_is")),
        change=text("change"),
        sort=text("sort") or "order",
        page=max(0, whole(text("page")) or 0),
    )


def address(given: Mapping[str, str], changed: Mapping[str, str]) -> str:
    """The grid's address with some fields changed; empty ones are left out."""
    fields = {**given, **changed}
    if "page" not in changed and changed:
        fields.pop("page", None)
    return "?" + urlencode(
        {name: value for name, value in fields.items() if value != ""}, quote_via=quote
    )


def whole(text: str) -> int | None:
    """A whole number that SQLite can take; None for anything else."""
    try:
        value = int(text)
    except ValueError:
        return None
    return value if abs(value) < 2**40 else None


def _share(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None
