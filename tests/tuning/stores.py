"""A store and a search from tables, for tests of what asks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from viper.errors import MediaError
from viper.models.vision.roles import Floats, Pixels
from viper.tuning.training_data import AnnotatedPicture, Annotation, FoundPicture


def picture(value: int) -> Pixels:
    return np.full((4, 6, 3), value, np.uint8)


@dataclass
class TableStore:
    """Pictures by number, each with the labels in it."""

    shown: Mapping[int, Sequence[str]]
    name: str = "table"

    def vocabulary(self) -> Sequence[str]:
        return tuple(sorted({label for labels in self.shown.values() for label in labels}))

    def names_of(self, concept: str) -> tuple[str, ...]:
        return (concept,) if concept in self.vocabulary() else ()

    def samples(self, concept: str, limit: int, *, seed: int = 0) -> list[AnnotatedPicture]:
        found = [(n, labels) for n, labels in self.shown.items() if concept in labels]
        known = frozenset(self.vocabulary())
        return [
            AnnotatedPicture(
                f"table:{number}",
                concept,
                tuple(Annotation((label,), (0.0, 0.0, 2.0, 2.0)) for label in labels),
                tuple(i for i, label in enumerate(labels) if label == concept),
                known.difference(labels),
                lambda number=number: picture(number),  # type: ignore[misc]
            )
            for number, labels in found[:limit]
        ]


@dataclass
class TableSearch:
    """The gray values that a text finds; None is a picture that cannot be read."""

    table: Mapping[str, Sequence[int | None]]
    name: str = "table-search"
    asked: list[tuple[str, int]] = field(default_factory=list)

    def search(self, text: str, limit: int) -> list[FoundPicture]:
        self.asked.append((text, limit))
        values = list(self.table.get(text, ()))[:limit]
        return [
            FoundPicture(f"{text}:{i}", text, {"place": i}, lambda value=value: _read(value))  # type: ignore[misc]
            for i, value in enumerate(values)
        ]


def _read(value: int | None) -> Pixels:
    if value is None:
        raise MediaError("the picture is damaged")
    return picture(value)


class LetterMatcher:
    """Texts as counts of their letters, pictures as their mean colour; counts what it embeds."""

    model_id = "letters"
    logit_scale = 1.0

    def __init__(self) -> None:
        self.embedded = 0

    def encode_images(self, images: Sequence[Pixels]) -> Floats:
        self.embedded += len(images)
        means = [np.append(image.mean((0, 1)), 1.0) for image in images]
        rows = np.zeros((len(images), 26), np.float32)
        rows[:, [ord(c) - ord("a") for c in "rgbx"]] = np.array(means).reshape(-1, 4)
        return _unit(rows)

    def encode_texts(self, texts: Sequence[str]) -> Floats:
        letters = [[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts]
        return _unit(np.array(letters, np.float32).reshape(-1, 26))


def _unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.maximum(lengths, 1e-9)).astype(np.float32)
