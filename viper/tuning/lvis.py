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
:mod:`viper.data.coco_file` reads the files.

Source: Gupta, Dollar and Girshick, CVPR 2019; Lin et al., ECCV 2014.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from viper.data.coco_file import CocoFile, Thing
from viper.data.coco_masks import OutlineError, mask_of
from viper.data.source import SourceFile
from viper.errors import DataError, UsageError
from viper.models.media import read_picture
from viper.models.vision.roles import Pixels
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


class CategoryNames:
    """Categories by name. :meth:`find` prefers the more literal reading of a name.

    Args:
        categories: names by id, as the set spells them, the usual name first, then synonyms.

    Attributes:
        labels: the names as spoken, each once, by id.
    """

    def __init__(self, categories: Mapping[int, Sequence[str]]) -> None:
        self.labels = {
            number: tuple(dict.fromkeys(map(plain, names))) for number, names in categories.items()
        }
        self._categories = categories
        self._steps = tuple(defaultdict[str, list[int]](list) for _ in range(4))
        for number, names in categories.items():
            for place, name in enumerate(names):
                self._steps[place > 0][plain(name)].append(number)
                self._steps[2 + (place > 0)][without_remark(name)].append(number)

    def find(self, concept: str) -> int | None:
        """Return the id of the category of this name, or None.

        Read literally first, then as a plural; each time as a name, as a synonym, as a name whose
        remark in brackets was left out, as such a synonym.

        Raises:
            UsageError: several categories answer to the name equally well.
        """
        for spelling, step in itertools.product(spellings(concept), self._steps):
            matches = list(dict.fromkeys(step.get(spelling, ())))
            if len(matches) > 1:
                names = ", ".join(repr(self._categories[each][0]) for each in matches)
                raise UsageError(
                    f"{concept!r} may mean {names}; ask for one of them by its whole name"
                )
            if matches:
                return matches[0]
        return None


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
        self.name = name
        beside = source.path.parent / "images"
        self.folder = pictures or (beside if beside.is_dir() else source.path.parent)
        self._file = CocoFile.read(source)
        self._names = CategoryNames(self._file.categories)
        self._shown_in: dict[int, set[int]] = defaultdict(set)
        for image, things in self._file.things.items():
            if PurePosixPath(self._file.pictures[image].file).name not in leave_out:
                for thing in things:
                    self._shown_in[thing.category].add(image)

    @property
    def files(self) -> dict[str, str]:
        """Return the picture's file below ``folder`` for each id of :meth:`samples`."""
        return {f"{self.name}:{number}": each.file for number, each in self._file.pictures.items()}

    def vocabulary(self) -> Sequence[str]:
        """Return the usual names of all categories, in the order of their ids."""
        return tuple(dict.fromkeys(labels[0] for labels in self._names.labels.values()))

    def names_of(self, concept: str) -> tuple[str, ...]:
        """Return the names of the category of a concept; see :meth:`CategoryNames.find`."""
        category = self._names.find(concept)
        return () if category is None else self._names.labels[category]

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
        ranked = sorted(self._shown_in.get(category, ()))
        random.Random(f"{seed}:{category}").shuffle(ranked)
        # pictures that may lack boxes come last
        ranked.sort(key=lambda image: category in self._file.pictures[image].incomplete)
        files = {image: self.folder / self._file.pictures[image].file for image in ranked}
        there = (image for image in ranked if files[image].is_file())
        pictures = (self._annotated(image, category) for image in there)
        chosen = list(itertools.islice((each for each in pictures if each.positives), limit))
        if ranked and not chosen and not any(file.is_file() for file in files.values()):
            todo = f"they come from {PICTURES}" if self._file.source.origin else "name their folder"
            raise DataError(
                f"{files[ranked[0]]}: no such picture, nor any other of "
                f"{len(ranked):,} of {self._names.labels[category][0]!r}; {todo}"
            )
        return chosen

    def _annotated(self, image: int, category: int) -> AnnotatedPicture:
        file, width, height, absent, incomplete = self._file.pictures[image]
        labels = self._names.labels
        shown = {*incomplete, *(thing.category for thing in self._file.things.get(image, ()))}
        things: list[Annotation] = []
        positives: list[int] = []
        for thing in sorted(self._file.things.get(image, ()), key=lambda each: each.number):
            x0, y0, x1, y1 = corners = clip_box(thing.box, width, height)
            if x1 <= x0 or y1 <= y0:
                continue
            if thing.category == category:
                positives.append(len(things))
            mask = partial(self._mask, thing, height, width) if thing.outline else None
            things.append(Annotation(labels[thing.category], corners, mask))
        return AnnotatedPicture(
            f"{self.name}:{image}",
            labels[category][0],
            tuple(things),
            tuple(positives),
            self._labels(labels.keys() - shown if absent is None else absent),
            partial(_read, self.folder / file, height, width),
            self._labels(incomplete),
        )

    def _labels(self, ids: Iterable[int]) -> frozenset[str]:
        labels = self._names.labels
        return frozenset(labels[each][0] for each in ids if each in labels)

    def _mask(self, thing: Thing, height: int, width: int) -> Mask:
        try:
            return mask_of(thing.outline, height, width)
        except OutlineError as error:
            raise self._file.source.wrong(
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


def _read(path: Path, height: int, width: int) -> Pixels:
    """Return the picture, uint8 [H, W, 3], if it has the size that its boxes refer to."""
    pixels = read_picture(path)
    if pixels.shape[:2] != (height, width):
        raise DataError(
            f"{path}: has {pixels.shape[1]} x {pixels.shape[0]} pixels where its annotations say "
            f"{width} x {height}; COCO's come from {PICTURES}"
        )
    return pixels
