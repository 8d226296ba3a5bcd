"""Finds a category by what somebody calls it: its name, a synonym, without a remark, a plural."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from viper.errors import UsageError
from viper.tuning.concept_names import plain, spellings, without_remark


@dataclass(frozen=True)
class Category:
    """One category of an annotated set.

    Attributes:
        names: as the set spells them, the usual one first, then its synonyms.
    """

    category_id: int
    names: tuple[str, ...]
    synset: str | None = None
    definition: str | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The names as they are said, each once."""
        return tuple(dict.fromkeys(map(plain, self.names)))


class CategoryNames:
    """Categories by their names; :meth:`find` prefers the more literal reading of a name."""

    def __init__(self, categories: Iterable[Category]) -> None:
        self.categories: Sequence[Category] = tuple(categories)
        self._steps = tuple(defaultdict[str, list[Category]](list) for _ in range(4))
        whole, synonym, bare, bare_synonym = self._steps
        for each in self.categories:
            first, *others = each.names
            whole[plain(first)].append(each)
            bare[without_remark(first)].append(each)
            for name in others:
                synonym[plain(name)].append(each)
                bare_synonym[without_remark(name)].append(each)

    def find(self, concept: str) -> Category | None:
        """The category of that name; None where there is none.

        Read literally first, then as a plural; each time as a name, as a synonym, as a name whose
        remark in brackets was left out, as such a synonym.

        Raises:
            UsageError: several categories answer to the name equally well.
        """
        for spelling in spellings(concept):
            for step in self._steps:
                found = _once(step, spelling)
                if len(found) > 1:
                    names = ", ".join(repr(each.names[0]) for each in found)
                    raise UsageError(
                        f"{concept!r} may mean {names}; ask for one of them by its whole name"
                    )
                if found:
                    return found[0]
        return None


def _once(step: Mapping[str, list[Category]], spelling: str) -> list[Category]:
    """The categories under a spelling, each once."""
    return list({each.category_id: each for each in step.get(spelling, ())}.values())
