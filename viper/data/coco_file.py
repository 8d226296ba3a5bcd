"""Files in COCO's form: pictures, boxes of named categories, and what is known to be absent.

:meth:`CocoFile.read` checks a whole annotation file once. The annotated stores that tools learn
from (:mod:`viper.tuning.lvis`) and the data set ``coco`` of the laboratory read by it.

COCO looked for all categories in all pictures, and writes ``iscrowd`` where a group has one box:
such a box is no object, and its category is incomplete there. LVIS looked for a category in some
pictures only, and says in ``neg_category_ids`` where it is absent.

Source: Lin et al., ECCV 2014; Gupta, Dollar and Girshick, CVPR 2019.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from viper.data.source import Record, SourceFile, check_name
from viper.models.media_files import MAX_IMAGE_PIXELS
from viper.schema import PixelBox


class Thing(NamedTuple):
    """One annotation; ``outline`` is as in the file, or None."""

    number: int
    category: int
    box: PixelBox
    outline: Any


class Picture(NamedTuple):
    """One picture of the file, with its categories by id; ``absent`` is None where all others are.

    ``incomplete`` lists the categories whose boxes are not all objects, or not all there.
    """

    file: str
    width: int
    height: int
    absent: list[int] | None
    incomplete: list[int]


@dataclass(frozen=True)
class CocoFile:
    """An annotation file, held in memory.

    Attributes:
        categories: names by id, as the set spells them, the usual name first, then synonyms.
        pictures: by id.
        things: annotations by the picture's id, in the order of the file, without groups.
    """

    source: SourceFile
    categories: Mapping[int, tuple[str, ...]]
    pictures: Mapping[int, Picture]
    things: Mapping[int, Sequence[Thing]]

    @classmethod
    def read(cls, source: SourceFile) -> CocoFile:
        """Read and check a file.

        Raises:
            DataError: it is missing, broken, or not in the layout.
        """
        document = Record.of(source.read_json(_with_packed_polygons), source, "")
        categories = {number: _names(each) for number, each in _by_id(document, "categories")}
        pictures = {number: _picture(each) for number, each in _by_id(document, "images")}
        things: dict[int, list[Thing]] = defaultdict(list)
        for number, each in _by_id(document, "annotations"):
            image, outline = each.whole("image_id"), each.values.get("segmentation")
            if outline is not None and not isinstance(outline, list | dict):
                raise each.wrong("segmentation", "polygons or runs")
            # COCO's own training file has two boxes of height 0
            x0, y0, x1, y1 = box = each.coco_box("bbox", may_be_empty=True)
            thing = Thing(number, each.whole("category_id"), box, outline)
            has_no_box = each.values.get("iscrowd") == 1 or x0 == x1 or y0 == y1
            if has_no_box and image in pictures:
                pictures[image].incomplete.append(thing.category)
                continue
            if image not in pictures or thing.category not in categories:
                raise source.wrong(
                    f" annotation {number}",
                    f"is of picture {image} and category {thing.category}, of which one is not "
                    "there",
                    "ids of the same file",
                )
            things[image].append(thing)
        return cls(source, dict(sorted(categories.items())), pictures, things)


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


def _names(record: Record) -> tuple[str, ...]:
    name = record.text("name")
    synonyms = record.items("synonyms") if record.values.get("synonyms") else ()
    if not any(map(str.isalnum, name)):
        raise record.wrong("name", "a name with letters")
    others = [each for each in synonyms if isinstance(each, str) and any(map(str.isalnum, each))]
    return (name, *others)


def _picture(record: Record) -> Picture:
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
        return Picture(record.file_name("file_name"), width, height, None, lists[1])
    return Picture(_file(record), width, height, *lists)


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
