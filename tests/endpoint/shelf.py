"""A text search that knows one passage, by name in a profile: ``tests.endpoint.shelf:Shelf``."""

from __future__ import annotations

from viper.search.findings import Passage, TextFindings


class Shelf:
    """Finds its passage by the name in it."""

    def __init__(self, name: str) -> None:
        self.model_id = self.name = name

    def search(self, query: str, limit: int) -> TextFindings:
        found = "tarnix" in query.lower()
        return TextFindings((Passage("tarnix", "Tarnix was founded in 1893."),) if found else ())
