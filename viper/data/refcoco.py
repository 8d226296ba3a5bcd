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

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from viper.data.layout import OfficialSet, of_files
from viper.data.plain_pickle import load_plain
from viper.data.sample import Sample
from viper.data.source import Record, SourceFile

ORIGIN = "https://github.com/lichengunc/refer (the set's zip: refs and instances.json)"
PICTURES = "https://cocodataset.org/#download (2014 Train images)"
FOLDER = "images/mscoco/images/train2014"

UNC = ("val", "testA", "testB", "test", "train")
GOOGLE = ("google:val", "google:test", "google:train")
UMD = ("val", "test", "train")


def _files(name: str, split_by: str, root: Path, split: str) -> list[SourceFile]:
    """Return the files of refs and instances under the root of the sets."""
    split_by = split.split(":")[0] if ":" in split else split_by
    folder = f"{name}/"
    if not (root / folder).is_dir() and (root / "instances.json").is_file():
        is_named = root.absolute().name == name
        root, folder = (root.absolute().parent, folder) if is_named else (root, "")
    names = (f"{folder}refs({split_by}).p", f"{folder}instances.json")
    return [SourceFile(root, each, ORIGIN) for each in names]


def _read(sources: Sequence[SourceFile], split: str) -> Iterator[Sample]:
    refs, instances = sources
    part = split.split(":")[-1]
    read = Record({"refs": load_plain(refs)}, refs, "").records("refs")
    record = Record.of(instances.read_json(_drop_outline), instances, "")
    boxes = {each.whole("id"): each.coco_box("bbox") for each in record.records("annotations")}
    files = {each.whole("id"): each.file_name("file_name") for each in record.records("images")}
    categories = {each.whole("id"): each.text("name") for each in record.records("categories")}
    for ref in read:
        its_split = ref.text("split")
        if its_split != part and not (part == "test" and its_split.startswith("test")):
            continue
        box, image = boxes.get(ref.whole("ann_id")), ref.whole("image_id")
        if box is None:
            raise ref.wrong("ann_id", "an annotation of instances.json")
        if image not in files:
            raise ref.wrong("image_id", "a picture of instances.json")
        category = categories.get(ref.whole("category_id"))
        for sentence in ref.records("sentences"):
            yield of_files(
                refs.root,
                [f"{FOLDER}/{files[image]}"],
                sample_id=f"{ref.whole('ref_id')}-{sentence.whole('sent_id')}",
                text=sentence.text("sent"),
                task="ground",
                target=box,
                groups={"category": category} if category else {},
                cluster=str(image),
            )


def _drop_outline(value: dict[str, object]) -> dict[str, object]:
    """Drop an annotation's outline while the file is read. It is most of the bytes."""
    value.pop("segmentation", None)
    return value


def _set(name: str, splits: tuple[str, ...], split_by: str, summary: str) -> OfficialSet:
    """Build one of the three sets; ``split_by`` is the division of splits without a prefix."""
    files = partial(_files, name, split_by)
    return OfficialSet(name, splits, "grounding", summary, PICTURES, files, _read)


REFCOCO = _set("refcoco", UNC + GOOGLE, "unc", "find what an expression refers to (Yu et al. 2016)")
REFCOCO_PLUS = _set("refcoco+", UNC, "unc", "the same without words of position (Yu et al. 2016)")
REFCOCOG = _set("refcocog", UMD + GOOGLE, "umd", "the same with long expressions (Mao et al. 2016)")
