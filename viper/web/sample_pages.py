"""Trace pages of the samples of a stored run, in a folder beside its report."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from viper.data.sample import Sample
from viper.errors import ViperError
from viper.evaluate.reports.tables import target_words
from viper.evaluate.runs.learning_record import JOURNAL, Journal, LearningRecord
from viper.evaluate.runs.manifest import Manifest
from viper.evaluate.runs.store import PAGE, RunStore
from viper.evaluate.sample_result import SampleResult
from viper.models.media import Media, media_from
from viper.record import record_from_json
from viper.schema import Trace
from viper.storage.files import write_file
from viper.strategies.replay import Replayer
from viper.web.trace_page import Extras, Truth, replay_all, trace_page

FOLDER = "traces"
# Limit for the pictures of one page, since there are hundreds of pages.
MOST_BYTES = 300_000

# Options of a run that a line for one of its samples leaves out or replaces.
_OF_THE_WHOLE_RUN = ("--out", "--ids", "--limit", "--seed", "--seeds", "--judgements", "--track")

# With seed, hash and suffix well below the 255 bytes of a file name, and still readable.
_LONGEST_NAME = 60


def write_sample_page(
    store: RunStore, result: SampleResult, sample: Sample, replayer: Replayer
) -> str | None:
    """Write the page of a result, and return its address relative to the report.

    A page is written once, since results of a run never change. Return None if there is no trace
    or its pictures cannot be read.

    Raises:
        StoreError: the page cannot be written.
    """
    # A readable and unique name of a file.
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", result.sample_id).strip("-.")[:_LONGEST_NAME]
    digest = hashlib.sha256(f"{result.seed} {result.sample_id}".encode()).hexdigest()[:10]
    address = f"{FOLDER}/{readable or 'sample'}-{result.seed}-{digest}.html"
    path = store.folder / address
    if path.exists():
        return address
    values = store.trace(result.sample_id, result.seed)
    if values is None:
        return None
    try:
        trace, media = record_from_json(Trace, values), media_from(sample.load())
    except (ViperError, OSError, TypeError):
        return None
    extras = Extras(back=f"../{PAGE}", most_bytes=MOST_BYTES)
    page = sample_page(store, result, trace, media, replayer, extras)
    write_file(path, page, inside=store.folder)
    return address


def sample_page(
    store: RunStore,
    result: SampleResult,
    trace: Trace,
    media: Media,
    replayer: Replayer,
    extras: Extras,
) -> str:
    """Render the page of a result, with what the run knows about it beside these extras."""
    extras = replace(
        extras,
        command=rerun_command(store.manifest, result),
        truth=truth_of(result),
        score=result.score,
        record=record_of(store.folder, result),
    )
    return trace_page(trace, media, replay_all(trace, media, replayer), extras)


def record_of(folder: Path, result: SampleResult) -> LearningRecord | None:
    """Return the learning record of a result, or None if the run learned nothing from it.

    Raises:
        StoreError: the run's journal cannot be read.
    """
    path = folder / JOURNAL
    if not path.is_file():
        return None
    status = path.stat()
    return _records(folder, status.st_mtime_ns, status.st_size).get((result.sample_id, result.seed))


@lru_cache(4)
def _records(folder: Path, changed: int, size: int) -> Mapping[tuple[str, int], LearningRecord]:
    return {record.key: record for record in Journal(folder).records()}


def truth_of(result: SampleResult) -> Truth:
    """Return the right answer of a result's sample."""
    target = result.target
    if result.task == "ground" and isinstance(target, list | tuple) and len(target) == 4:
        x0, y0, x1, y1 = (float(side) for side in target)
        return Truth(box=(x0, y0, x1, y1))
    return Truth(target_words(result))


def rerun_command(manifest: Manifest, result: SampleResult) -> str:
    """Return a command line that answers only this sample again, into a new run.

    Return "" if the run was not made by ``viper eval``. The first seed stays, since data sets draw
    their samples by it, so a later seed comes with those before it.
    """
    if "eval" not in manifest.arguments:
        return ""
    words, arguments = ["viper"], iter(manifest.arguments[1:])
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name in _OF_THE_WHOLE_RUN:
            if not equals:
                next(arguments, "")
        elif equals and name.startswith("--"):
            words += [name, value]
        elif argument not in ("--resume", "--dry-run"):
            words.append(argument)
    first = manifest.seeds[0]
    words += ["--ids", result.sample_id, "--seed", str(first)]
    words += ["--seeds", str(result.seed - first + 1)]
    # A manifest has ~ for the home folder, which a shell expands only outside of quotes.
    return " ".join(
        f"~/{shlex.quote(word[2:])}" if word.startswith("~/") else shlex.quote(word)
        for word in words
    )
