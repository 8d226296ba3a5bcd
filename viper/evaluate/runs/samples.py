"""Samples of a stored run, from its data set or from its own folder.

A run of ``viper demo`` stores pictures and clips in its own folder, since no data set has them.
The files of its results are names below the folder ``media``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from viper.data.registry import samples_by_id
from viper.data.sample import DatasetSpec, MediaFiles, Sample
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult

# Name of the data set in the manifest of such a run.
KEPT_SET = "asked"

# Folder in the run's folder.
MEDIA = "media"


def keeps_media(store: RunStore) -> bool:
    """Return whether a run's samples lie in its own folder."""
    return store.manifest.set.name == KEPT_SET


def samples_of_run(store: RunStore, root: Path | None, ids: Iterable[str]) -> dict[str, Sample]:
    """Return the samples of a run by id. Samples that cannot be read are absent.

    Args:
        root: folder of the set's official files.

    Raises:
        UnknownNameError: the run's set or split is not known here.
        DataError: files of the set are missing or broken.
    """
    described = store.manifest.set
    if not keeps_media(store):
        return samples_by_id(
            described.name, DatasetSpec(root, described.split, described.seed), ids
        )
    rows = [store.row(name, seed) for name in dict.fromkeys(ids) for seed in store.manifest.seeds]
    return {row.sample_id: kept_sample(store.folder, row) for row in rows if row is not None}


def kept_sample(folder: Path, result: SampleResult) -> Sample:
    """Return the sample of a result. Only files below ``media`` are used."""
    names = tuple(f"{MEDIA}/{Path(name).name}" for name in result.files)
    return Sample(
        result.sample_id,
        result.text,
        task=result.task,
        media="",
        target=result.target,
        load=MediaFiles(folder, names),
        options=result.options,
        files=names,
    )
