"""RefCOCO, RefCOCO+ and RefCOCOg: expressions that refer to one object of a photograph.

Files, as https://github.com/lichengunc/refer lays them out: ``NAME/refs(SPLITBY).p``, a pickled
list of ``{ref_id, ann_id, category_id, image_id, split, sentences: [{sent_id, sent}], …}``;
``NAME/instances.json`` (COCO: ``images``, ``annotations`` with ``bbox`` [x, y, width, height],
``categories``); pictures in ``images/mscoco/images/train2014/``. The root may also be the folder
NAME itself, beside ``images/``. The pickle is read by :mod:`viper.data.plain_pickle`, which
imports and calls nothing.

One sample is one expression (``sent``, as the peers evaluate); its id is ``REFID-SENTID``, its
cluster the picture, its target ``(x0, y0, x1, y1)`` in pixels from the top-left corner.
Splits are of the standard division (unc for RefCOCO and RefCOCO+, umd for RefCOCOg); another
one comes before a colon: ``google:val``. ``test`` of unc is testA and testB together.

Source: Yu et al., ECCV 2016; Mao et al., CVPR 2016; Nagaraja et al., ECCV 2016 (umd).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from viper.data.layout import check_official, root_of, split_of, unique
from viper.data.plain_pickle import load_plain
from viper.data.record import Record
from viper.data.sample import DatasetSpec, Finding, MediaFiles, Sample
from viper.data.source import SourceFile
from viper.schema import PixelBox

ORIGIN = "https://github.com/lichengunc/refer (the set's zip: refs and instances.json)"
PICTURES = "https://cocodataset.org/#download (2014 Train images)"
FOLDER = "images/mscoco/images/train2014"

UNC = ("val", "testA", "testB", "test", "train")
GOOGLE = ("google:val", "google:test", "google:train")
UMD = ("val", "test", "train")


@dataclass(frozen=True)
class RefCoco:
    """One of the three data sets; see the module.

    Attributes:
        split_by: the division of splits without a prefix.
    """

    name: str
    splits: tuple[str, ...]
    split_by: str
    summary: str
    metric: str = "grounding"

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return one sample per expression, in the order of the refs and of their sentences."""
        refs, instances = self._sources(root_of(self, spec), split_of(self, spec))
        part = split_of(self, spec).split(":")[-1]
        read = Record({"refs": load_plain(refs)}, refs, "").records("refs")
        shown_in = _Instances.read(instances)
        of_split = (ref for ref in read if _is_in(ref.text("split"), part))
        return unique((sample for ref in of_split for sample in _expressions(ref, shown_in)), refs)

    def check(self, spec: DatasetSpec) -> Sequence[Finding]:
        """Check refs, instances, samples and pictures."""
        sources = self._sources(root_of(self, spec), split_of(self, spec))
        return check_official(sources, lambda: self.samples(spec), PICTURES)

    def _sources(self, root: Path, split: str) -> tuple[SourceFile, SourceFile]:
        """Return the files of refs and instances under the root of the sets."""
        split_by = split.split(":")[0] if ":" in split else self.split_by
        folder = f"{self.name}/"
        if not (root / folder).is_dir() and (root / "instances.json").is_file():
            is_named = root.absolute().name == self.name
            root, folder = (root.absolute().parent, folder) if is_named else (root, "")
        refs = SourceFile(root, f"{folder}refs({split_by}).p", ORIGIN)
        return refs, SourceFile(root, f"{folder}instances.json", ORIGIN)


REFCOCO = RefCoco(
    "refcoco", UNC + GOOGLE, "unc", "find what an expression refers to (Yu et al. 2016)"
)
REFCOCO_PLUS = RefCoco(
    "refcoco+", UNC, "unc", "the same without words of position (Yu et al. 2016)"
)
REFCOCOG = RefCoco(
    "refcocog", UMD + GOOGLE, "umd", "the same with long expressions (Mao et al. 2016)"
)


@dataclass(frozen=True)
class _Instances:
    """Annotations, pictures and categories of ``instances.json`` by id."""

    boxes: Mapping[int, PixelBox]
    files: Mapping[int, str]
    categories: Mapping[int, str]

    @classmethod
    def read(cls, source: SourceFile) -> _Instances:
        record = Record.of(source.read_json(_drop_outline), source, "")
        return cls(
            {each.whole("id"): each.coco_box("bbox") for each in record.records("annotations")},
            {each.whole("id"): each.file_name("file_name") for each in record.records("images")},
            {each.whole("id"): each.text("name") for each in record.records("categories")},
        )


def _drop_outline(value: dict[str, object]) -> dict[str, object]:
    """Drop an annotation's outline while the file is read. It is most of the bytes."""
    value.pop("segmentation", None)
    return value


def _is_in(split: str, part: str) -> bool:
    return split.startswith("test") if part == "test" else split == part


def _expressions(ref: Record, instances: _Instances) -> Iterator[Sample]:
    box = instances.boxes.get(ref.whole("ann_id"))
    if box is None:
        raise ref.wrong("ann_id", "an annotation of instances.json")
    image = ref.whole("image_id")
    if image not in instances.files:
        raise ref.wrong("image_id", "a picture of instances.json")
    category = instances.categories.get(ref.whole("category_id"))
    name = f"{FOLDER}/{instances.files[image]}"
    for sentence in ref.records("sentences"):
        yield Sample(
            f"{ref.whole('ref_id')}-{sentence.whole('sent_id')}",
            sentence.text("sent"),
            task="ground",
            media="image",
            target=box,
            load=MediaFiles(ref.source.root, (name,)),
            groups={"category": category} if category else {},
            cluster=str(image),
            files=(name,),
        )
