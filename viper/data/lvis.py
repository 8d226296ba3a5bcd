"""LVIS: photographs of COCO with boxes and outlines of some 1,200 categories.

Files, as https://www.lvisdataset.org lays them out: ``annotations/lvis_v1_train.json`` (or beside
the pictures' folders), a JSON object of ``categories`` with ``name``, ``synonyms``, ``synset`` and
``def``; ``annotations`` with ``bbox`` [x, y, width, height] and ``segmentation``; ``images`` with
``coco_url``, ``neg_category_ids`` and ``not_exhaustive_category_ids``. Pictures are COCO's, in
``train2017/`` and ``val2017/``; the validation part has pictures of both.

It is no set of questions but a store of things to learn from
(:class:`viper.tuning.collect.AnnotatedStore`). A category was looked for in some pictures only: it
is known to be absent where ``neg_category_ids`` says so, and elsewhere nothing is known of it.

Source: Gupta, Dollar and Girshick, CVPR 2019.
"""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from viper.data.category_names import Category, CategoryNames
from viper.data.coco_masks import OutlineError, mask_of
from viper.data.json_records import Progress
from viper.data.lvis_index import open_index, unpacked_outline
from viper.data.source import Source
from viper.errors import DataError, UnknownNameError
from viper.tools.crops import clip_box
from viper.tools.media import read_picture
from viper.tools.roles import Pixels
from viper.tuning.collect import AnnotatedPicture, Annotation, Mask, checked_limit
from viper.tuning.concept_names import plain

ORIGIN = "https://www.lvisdataset.org/dataset"
PICTURES = "https://cocodataset.org/#download (2017 Train and Val images)"

SPLITS = ("train", "val")


class Lvis:
    """One part of LVIS as a store of annotated pictures; safe to use from several threads.

    Args:
        root: the folder of the official files.
        state: the folder of the user's state; an index of the annotations is kept there.
        split: ``train`` or ``val``.
        progress: is told bytes read and bytes in all while the index is made, which is once.

    Raises:
        UnknownNameError: no such split.
        DataError: the annotation file is missing, broken, or not in LVIS's layout.
        StoreError: the index cannot be written.
    """

    def __init__(
        self, root: Path, state: Path, split: str = "train", progress: Progress | None = None
    ) -> None:
        if split not in SPLITS:
            raise UnknownNameError("split of lvis", split, SPLITS)
        self.name = f"lvis:{split}"
        name = f"lvis_v1_{split}.json"
        folder = "annotations/" if not (root / name).is_file() else ""
        self._source = Source(root, folder + name, ORIGIN)
        self._index = open_index(self._source, state, progress)
        self._lock = threading.Lock()
        self._names = CategoryNames(self._categories())
        self._by_id = {each.category_id: each for each in self._names.categories}

    def vocabulary(self) -> Sequence[str]:
        """The usual names of all categories, in the order of their ids."""
        return tuple(dict.fromkeys(each.labels[0] for each in self._names.categories))

    def names_of(self, concept: str) -> tuple[str, ...]:
        """The names of the category that a concept is; see :meth:`CategoryNames.find`."""
        category = self._names.find(concept)
        return () if category is None else category.labels

    def samples(self, concept: str, limit: int, *, seed: int = 0) -> list[AnnotatedPicture]:
        """So many of the category's pictures that are there, drawn by the seed.

        Those in which every object of the category has a box come before the others.

        Raises:
            UsageError: the name may mean several categories, or the limit is out of range.
            DataError: there are pictures of the category, and none is on disk.
        """
        checked_limit(limit)
        category = self._names.find(concept)
        if category is None:
            return []
        ranked = self._ranked(category, seed)
        there = (each for each in ranked if (self._source.root / each[1]).is_file())
        pictures = (self._picture(image, category) for image, *_ in there)
        chosen = list(islice((each for each in pictures if each.positives), limit))
        if ranked and not chosen:
            raise DataError(
                f"{self._source.root / ranked[0][1]}: no such picture, nor any other of "
                f"{len(ranked):,} of {category.labels[0]!r}; they come from {PICTURES}"
            )
        return chosen

    def _ranked(self, category: Category, seed: int) -> list[tuple[int, str, bool]]:
        """Id, file and whether boxes may be missing, of all its pictures in the drawn order."""
        query = (
            "SELECT DISTINCT images.id, file, incomplete FROM annotations "
            "JOIN images ON images.id = image WHERE category = ? ORDER BY images.id"
        )
        rows = [
            (image, file, category.category_id in json.loads(incomplete))
            for image, file, incomplete in self._rows(query, category.category_id)
        ]
        random.Random(f"{seed}:{category.category_id}").shuffle(rows)
        return sorted(rows, key=lambda row: row[2])

    def _picture(self, image: int, category: Category) -> AnnotatedPicture:
        query = "SELECT file, width, height, absent, incomplete FROM images WHERE id = ?"
        ((file, width, height, absent, incomplete),) = self._rows(query, image)
        query = "SELECT id, category, box, outline IS NULL FROM annotations WHERE image = ?"
        things: list[Annotation] = []
        positives: list[int] = []
        for number, kind, box, bare in self._rows(query + " ORDER BY id", image):
            x0, y0, x1, y1 = corners = clip_box(json.loads(box), width, height)
            if x1 <= x0 or y1 <= y0:
                continue
            if kind == category.category_id:
                positives.append(len(things))
            mask = None if bare else partial(self._mask, number, height, width)
            things.append(Annotation(self._by_id[kind].labels, corners, mask))
        return AnnotatedPicture(
            f"{self.name}:{image}",
            category.labels[0],
            tuple(things),
            tuple(positives),
            self._labels(absent),
            partial(_read, self._source.root / file, height, width),
            self._labels(incomplete),
        )

    def _labels(self, ids: str) -> frozenset[str]:
        known = (self._by_id.get(each) for each in json.loads(ids))
        return frozenset(each.labels[0] for each in known if each)

    def _mask(self, annotation: int, height: int, width: int) -> Mask:
        ((packed,),) = self._rows("SELECT outline FROM annotations WHERE id = ?", annotation)
        try:
            return mask_of(unpacked_outline(packed), height, width)
        except OutlineError as error:
            raise self._source.wrong(
                f" annotation {annotation}", str(error), "an outline as COCO writes it"
            ) from None

    def _categories(self) -> Iterator[Category]:
        query = "SELECT id, name, synonyms, synset, definition FROM categories ORDER BY id"
        for number, name, synonyms, synset, definition in self._rows(query):
            others = [each for each in json.loads(synonyms) if plain(each)]
            yield Category(number, (name, *others), synset, definition)

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock, _index_errors(self._source):
            return self._index.execute(query, values).fetchall()


@contextmanager
def _index_errors(source: Source) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise DataError(f"the index of {source.path} is broken ({error}); delete it") from None


def _read(path: Path, height: int, width: int) -> Pixels:
    """The picture, uint8 [H, W, 3], if it has the size that its boxes are in."""
    pixels = read_picture(path)
    if pixels.shape[:2] != (height, width):
        raise DataError(
            f"{path}: has {pixels.shape[1]} x {pixels.shape[0]} pixels where its annotations say "
            f"{width} x {height}; get it again from {PICTURES}"
        )
    return pixels
