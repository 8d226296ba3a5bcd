"""LVIS and files in COCO's form: photographs with boxes and outlines of named categories.

`CocoStore` reads and checks a whole annotation file once; `samples` finds the category of a concept
(`CategoryNames.find`), draws its pictures and builds each with all annotations. `Lvis` finds the
file of LVIS, which has some 1,200 categories.

Files of LVIS, as https://www.lvisdataset.org lays them out: ``annotations/lvis_v1_train.json`` (or
beside the pictures' folders), a JSON object of ``categories`` with ``name`` and ``synonyms``;
``annotations`` with ``bbox`` [x, y, width, height] and ``segmentation``; ``images`` with
``coco_url``, ``neg_category_ids`` and ``not_exhaustive_category_ids``. Pictures are COCO's, in
``train2017/`` and ``val2017/``; the validation part has pictures of both.

It is no set of questions but a store of things to learn from
(:class:`viper.tuning.training_data.AnnotatedStore`). LVIS looked for a category in some pictures
only: it is known to be absent where ``neg_category_ids`` says so, and elsewhere nothing is known.
COCO looked for all categories in all pictures, and writes ``iscrowd`` where a group has one box.

Source: Gupta, Dollar and Girshick, CVPR 2019; Lin et al., ECCV 2014.
"""

from __future__ import annotations

import itertools
import random
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from viper.data.coco_masks import OutlineError, mask_of
from viper.data.source import Record, SourceFile, check_name
from viper.errors import DataError, UsageError
from viper.models.media import read_picture
from viper.models.media_files import MAX_IMAGE_PIXELS
from viper.models.vision.roles import Pixels
from viper.schema import PixelBox
from viper.tools.crops import clip_box
from viper.tuning.training_data import (
    AnnotatedPicture,
    Annotation,
    Mask,
    checked_limit,
    plain,
    spellings,
    without_remark,
)

ORIGIN = "https://www.lvisdataset.org/dataset"
PICTURES = "https://cocodataset.org/#download (2017 Train and Val images)"


@dataclass(frozen=True)
class Category:
    """One category of an annotated set.

    Attributes:
        names: names as the set spells them, the usual name first, then synonyms.
    """

    category_id: int
    names: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names as spoken, each once."""
        return tuple(dict.fromkeys(map(plain, self.names)))


class CategoryNames:
    """Categories by name. :meth:`find` prefers the more literal reading of a name."""

    def __init__(self, categories: Iterable[Category]) -> None:
        self.categories: Sequence[Category] = tuple(categories)
        self._steps = tuple(defaultdict[str, list[Category]](list) for _ in range(4))
        for each in self.categories:
            for place, name in enumerate(each.names):
                self._steps[place > 0][plain(name)].append(each)
                self._steps[2 + (place > 0)][without_remark(name)].append(each)

    def find(self, concept: str) -> Category | None:
        """Return the category of this name, or None.

        Read literally first, then as a plural; each time as a name, as a synonym, as a name whose
        remark in brackets was left out, as such a synonym.

        Raises:
            UsageError: several categories answer to the name equally well.
        """
        for spelling, step in itertools.product(spellings(concept), self._steps):
            matches = list(dict.fromkeys(step.get(spelling, ())))
            if len(matches) > 1:
                names = ", ".join(repr(each.names[0]) for each in matches)
                raise UsageError(
                    f"{concept!r} may mean {names}; ask for one of them by its whole name"
                )
            if matches:
                return matches[0]
        return None


class _Thing(NamedTuple):
    """One annotation; ``outline`` is as in the file, or None."""

    number: int
    category: int
    box: PixelBox
    outline: Any


class _Picture(NamedTuple):
    """One picture of the file, with its categories by id; ``absent`` is None where all others are.

    ``incomplete`` grows by the categories of which a group has one box, or an object none.
    """

    file: str
    width: int
    height: int
    absent: list[int] | None
    incomplete: list[int]


class CocoStore:
    """An annotation file as a store of annotated pictures, held in memory.

    Args:
        source: the file.
        pictures: folder of the pictures; by default ``images`` beside the file if there is one,
            else the folder of the file.
        name: of the store, in evidence.
        leave_out: names of pictures, without their folders, that are never drawn.

    Raises:
        DataError: the file is missing, broken, or not in the layout.
    """

    def __init__(
        self,
        source: SourceFile,
        pictures: Path | None = None,
        name: str = "coco",
        leave_out: Collection[str] = (),
    ) -> None:
        self.name, self._source = name, source
        beside = source.path.parent / "images"
        self.folder = pictures or (beside if beside.is_dir() else source.path.parent)
        document = Record.of(self._source.read_json(_with_packed_polygons), self._source, "")
        categories = [_category(number, each) for number, each in _by_id(document, "categories")]
        self._names = CategoryNames(sorted(categories, key=lambda each: each.category_id))
        self._by_id = {each.category_id: each for each in self._names.categories}
        self._pictures = {number: _picture(each) for number, each in _by_id(document, "images")}
        self._things: dict[int, list[_Thing]] = defaultdict(list)
        self._shown_in: dict[int, set[int]] = defaultdict(set)
        for number, each in _by_id(document, "annotations"):
            image, outline = each.whole("image_id"), each.values.get("segmentation")
            if outline is not None and not isinstance(outline, list | dict):
                raise each.wrong("segmentation", "polygons or runs")
            # COCO's own training file has two boxes of height 0
            x0, y0, x1, y1 = box = each.coco_box("bbox", may_be_empty=True)
            thing = _Thing(number, each.whole("category_id"), box, outline)
            has_no_box = each.values.get("iscrowd") == 1 or x0 == x1 or y0 == y1
            if has_no_box and image in self._pictures:
                self._pictures[image].incomplete.append(thing.category)
                continue
            if image not in self._pictures or thing.category not in self._by_id:
                raise self._source.wrong(
                    f" annotation {number}",
                    f"is of picture {image} and category {thing.category}, of which one is not "
                    "there",
                    "ids of the same file",
                )
            self._things[image].append(thing)
            if PurePosixPath(self._pictures[image].file).name not in leave_out:
                self._shown_in[thing.category].add(image)

    @property
    def files(self) -> dict[str, str]:
        """Return the picture's file below ``folder`` for each id of :meth:`samples`."""
        return {f"{self.name}:{number}": each.file for number, each in self._pictures.items()}

    def vocabulary(self) -> Sequence[str]:
        """Return the usual names of all categories, in the order of their ids."""
        return tuple(dict.fromkeys(each.labels[0] for each in self._names.categories))

    def names_of(self, concept: str) -> tuple[str, ...]:
        """Return the names of the category of a concept; see :meth:`CategoryNames.find`."""
        category = self._names.find(concept)
        return () if category is None else category.labels

    def samples(self, concept: str, limit: int, *, seed: int = 0) -> list[AnnotatedPicture]:
        """Return up to ``limit`` available pictures of the category, drawn by the seed.

        Those in which every object of the category has a box come before the others.

        Raises:
            UsageError: the name may mean several categories, or the limit is out of range.
            DataError: there are pictures of the category, and none is on disk.
        """
        checked_limit(limit)
        category = self._names.find(concept)
        if category is None:
            return []
        ranked = sorted(self._shown_in.get(category.category_id, ()))
        random.Random(f"{seed}:{category.category_id}").shuffle(ranked)
        # pictures that may lack boxes come last
        ranked.sort(key=lambda image: category.category_id in self._pictures[image].incomplete)
        files = {image: self.folder / self._pictures[image].file for image in ranked}
        there = (image for image in ranked if files[image].is_file())
        pictures = (self._annotated(image, category) for image in there)
        chosen = list(itertools.islice((each for each in pictures if each.positives), limit))
        if ranked and not chosen and not any(file.is_file() for file in files.values()):
            todo = f"they come from {PICTURES}" if self._source.origin else "name their folder"
            raise DataError(
                f"{files[ranked[0]]}: no such picture, nor any other of "
                f"{len(ranked):,} of {category.labels[0]!r}; {todo}"
            )
        return chosen

    def _annotated(self, image: int, category: Category) -> AnnotatedPicture:
        file, width, height, absent, incomplete = self._pictures[image]
        shown = {*incomplete, *(thing.category for thing in self._things[image])}
        things: list[Annotation] = []
        positives: list[int] = []
        for thing in sorted(self._things[image], key=lambda each: each.number):
            x0, y0, x1, y1 = corners = clip_box(thing.box, width, height)
            if x1 <= x0 or y1 <= y0:
                continue
            if thing.category == category.category_id:
                positives.append(len(things))
            mask = partial(self._mask, thing, height, width) if thing.outline else None
            things.append(Annotation(self._by_id[thing.category].labels, corners, mask))
        return AnnotatedPicture(
            f"{self.name}:{image}",
            category.labels[0],
            tuple(things),
            tuple(positives),
            self._labels(self._by_id.keys() - shown if absent is None else absent),
            partial(_read, self.folder / file, height, width),
            self._labels(incomplete),
        )

    def _labels(self, ids: Iterable[int]) -> frozenset[str]:
        return frozenset(self._by_id[each].labels[0] for each in ids if each in self._by_id)

    def _mask(self, thing: _Thing, height: int, width: int) -> Mask:
        try:
            return mask_of(thing.outline, height, width)
        except OutlineError as error:
            raise self._source.wrong(
                f" annotation {thing.number}", str(error), "an outline as COCO writes it"
            ) from None


class Lvis(CocoStore):
    """The training part of LVIS.

    Args:
        root: the folder of the official files.
        leave_out: as of :class:`CocoStore`.

    Raises:
        DataError: the annotation file is missing, broken, or not in LVIS's layout.
    """

    def __init__(self, root: Path, leave_out: Collection[str] = ()) -> None:
        name = "lvis_v1_train.json"
        folder = "annotations/" if not (root / name).is_file() else ""
        source = SourceFile(root, folder + name, ORIGIN)
        super().__init__(source, root, "lvis:train", leave_out)


def _with_packed_polygons(value: dict[str, Any]) -> dict[str, Any]:
    """Pack the numbers of an annotation's polygons: they are most of the file."""
    outline = value.get("segmentation")
    if isinstance(outline, list):
        with suppress(TypeError, OverflowError):
            value["segmentation"] = [array("d", polygon) for polygon in outline]
    return value


def _by_id(document: Record, member: str) -> Iterator[tuple[int, Record]]:
    """Yield id and record of each element of a list of the file, which may not be empty."""
    source, ids = document.source, set[int]()
    values = document.values.get(member)
    if not values:
        raise source.wrong("", f"has no {member}", "images, annotations and categories as COCO's")
    if not isinstance(values, list):
        raise source.wrong(f" {member}", "is no list", "a list of records")
    for index, value in enumerate(values):
        record = Record.of(value, source, f" {member}[{index}]")
        number = record.whole("id")
        if number in ids:
            raise record.wrong("id", "an id that no other record has")
        ids.add(number)
        yield number, record


def _category(number: int, record: Record) -> Category:
    name = record.text("name")
    synonyms = record.items("synonyms") if record.values.get("synonyms") else ()
    if not plain(name):
        raise record.wrong("name", "a name with letters")
    others = [each for each in synonyms if isinstance(each, str) and plain(each)]
    return Category(number, (name, *others))


def _picture(record: Record) -> _Picture:
    width, height = record.whole("width"), record.whole("height")
    if width <= 0 or height <= 0 or width * height > MAX_IMAGE_PIXELS:
        raise record.wrong("width", f"a size of 1 to {MAX_IMAGE_PIXELS:,} pixels")
    lists = []
    for key in ("neg_category_ids", "not_exhaustive_category_ids"):
        ids = record.values.get(key) or []
        if not isinstance(ids, list) or not all(type(each) is int for each in ids):
            raise record.wrong(key, "a list of whole numbers")
        lists.append(ids)
    if "neg_category_ids" not in record.values:
        return _Picture(record.file_name("file_name"), width, height, None, lists[1])
    return _Picture(_file(record), width, height, *lists)


def _file(record: Record) -> str:
    """Return ``train2017/000000391895.jpg``: the address's last two parts; in v0.5 the name."""
    if "coco_url" not in record.values:
        return record.file_name("file_name")
    try:
        parts = PurePosixPath(unquote(urlsplit(record.text("coco_url")).path)).parts
    except ValueError:
        raise record.wrong("coco_url", "the address of a picture") from None
    # the slash, the folder and the name
    if len(parts) < 3:
        raise record.wrong("coco_url", "an address that ends as train2017/000000391895.jpg")
    return check_name("/".join(parts[-2:]), record, "coco_url")


def _read(path: Path, height: int, width: int) -> Pixels:
    """Return the picture, uint8 [H, W, 3], if it has the size that its boxes refer to."""
    pixels = read_picture(path)
    if pixels.shape[:2] != (height, width):
        raise DataError(
            f"{path}: has {pixels.shape[1]} x {pixels.shape[0]} pixels where its annotations say "
            f"{width} x {height}; COCO's come from {PICTURES}"
        )
    return pixels
