"""Data sets by name: shipped, from the hub, from installed packages, or a user's own file.

An installed package adds one by an entry point of the group ``viper.datasets`` that names an
object with :class:`viper.data.sample.DataSet`'s attributes, or a class or function that builds
one without arguments. A shipped one is a module of this package, a row in ``DATASETS`` and a row
in ``docs/datasets.md``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from viper.data.sample import DataSet, DatasetSpec, DrawnSet, Sample
from viper.errors import DataError, UsageError
from viper.plugins import Registry

DATASETS = Registry(
    "viper.datasets",
    "data set",
    {
        "refcoco": "viper.data.refcoco:REFCOCO",
        "refcoco+": "viper.data.refcoco:REFCOCO_PLUS",
        "refcocog": "viper.data.refcoco:REFCOCOG",
        "gqa": "viper.data.gqa:GQA",
        "nextqa": "viper.data.nextqa:NEXTQA",
        "nlvr": "viper.data.nlvr:NLVR",
        "nlvr2": "viper.data.nlvr:NLVR2",
        "okvqa": "viper.data.okvqa:OKVQA",
        "infoseek": "viper.data.infoseek:INFOSEEK",
        "vstar": "viper.data.vstar:VSTAR",
        "hrbench": "viper.data.parquet:HRBENCH",
        "countbench": "viper.data.parquet:COUNTBENCH",
        "blink": "viper.data.parquet:BLINK",
        "cvbench": "viper.data.parquet:CVBENCH",
        "hub:lmms-lab/RefCOCO": "viper.data.hub:REFCOCO",
        "hub:lmms-lab/RefCOCOplus": "viper.data.hub:REFCOCO_PLUS",
        "hub:lmms-lab/RefCOCOg": "viper.data.hub:REFCOCOG",
        "hub:lmms-lab/GQA": "viper.data.hub:GQA",
        "hub:lmms-lab/NExTQA": "viper.data.hub:NEXTQA",
        "hub:lmms-lab/OK-VQA": "viper.data.hub:OKVQA",
    },
)


def named_like(splits: Sequence[str], name: str) -> str | None:
    """Return the split of this name, else the first that begins with it, else None."""
    if name in splits:
        return name
    return next((split for split in splits if split.startswith(name)), None)


def training_split(name: str, *, alike: bool = False, option: str = "--split") -> str:
    """Return the split ``train`` of a set, or its only split.

    Args:
        alike: else the first that begins so, see :func:`named_like`.
        option: names another split; for the message.

    Raises:
        UsageError: there are several splits, none of them for training.
    """
    splits = data_set(name).splits
    split = named_like(splits, "train")
    if split == "train" or (split and alike):
        return split
    if len(splits) > 1:
        raise UsageError(
            f"{name} has no split train; choose one of {', '.join(splits)} with {option}, and "
            "do not judge by it afterwards"
        )
    return splits[0]


def data_set(name: str) -> DataSet:
    """Return the set of this name. A name that ends in .csv or .jsonl is a file of the user.

    Raises:
        UnknownNameError: no such set; lists the known ones.
        UsageError: two packages offer the name.
        DataError: what a package offers is no data set.
    """
    from viper.data.own import SUFFIXES, OwnFile

    if name.endswith(SUFFIXES):
        return OwnFile(Path(name))
    offered = DATASETS.load(name, beside=("FILE.csv", "FILE.jsonl"))
    is_made = isinstance(offered, DataSet) and not isinstance(offered, type)
    dataset = offered if is_made or not callable(offered) else offered()
    if not isinstance(dataset, DataSet):
        attributes = ("name", "splits", "metric", "summary", "samples", "check")
        lacks = ", ".join(attribute for attribute in attributes if not hasattr(dataset, attribute))
        raise DataError(f"the data set {name!r} lacks {lacks}; see viper.data.sample.DataSet")
    return dataset


def samples_by_id(name: str, spec: DatasetSpec, ids: Iterable[str]) -> dict[str, Sample]:
    """Return the samples with these ids, in the order of the ids; unknown ids are absent.

    Raises:
        UnknownNameError: no such set or split.
        DataError: files are missing or broken.
    """
    samples, unique_ids = data_set(name), list(dict.fromkeys(ids))
    if isinstance(samples, DrawnSet):
        by_id = samples.by_id(spec, unique_ids)
    else:
        by_id = {sample.sample_id: sample for sample in samples.samples(replace(spec, limit=None))}
    return {sample: by_id[sample] for sample in unique_ids if sample in by_id}


def choose(samples: Sequence[Sample], limit: int | None, seed: int) -> list[Sample]:
    """Return the samples of an evaluation: all, or ``limit`` of them at random, in their order.

    The choice depends on the seed and the samples' ids alone, and a smaller limit's samples are
    among a larger one's.
    """
    if limit is None or limit >= len(samples):
        return list(samples)

    def rank(index: int) -> bytes:
        name = f"{seed}:{samples[index].sample_id}"
        return hashlib.blake2b(name.encode(), digest_size=16).digest()

    ranked = sorted(range(len(samples)), key=rank)
    return [samples[index] for index in sorted(ranked[: max(0, limit)])]
