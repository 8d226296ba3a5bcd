"""Pages that commands write: traces of runs and reports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from viper.api.library import Library, library_for
from viper.commands.terminal import counter
from viper.data.sample import Sample
from viper.errors import SandboxHostError, SandboxUnavailableError, UsageError, ViperError
from viper.evaluate.reports.page import MOST_SAMPLES, report_page
from viper.evaluate.runs.manifest import Manifest
from viper.evaluate.runs.store import PAGE, RunStore, samples_of_run
from viper.sandbox.sandbox import Mode
from viper.storage.files import write_file
from viper.strategies.replay import Replayer
from viper.web.sample_pages import write_sample_page


def write_report_page(
    store: RunStore, report: Mapping[str, Any], samples: Mapping[str, Sample], mode: Mode
) -> Path:
    """Write the report of a run as a page, and a trace page for every sample that it lists.

    The report is written before the trace pages, so after Ctrl-C it exists without links.

    Args:
        samples: samples by id; a missing sample gets no trace page.
        mode: mode of the sandbox in which programs run again.

    Raises:
        StoreError: a file cannot be written.
    """
    path = store.folder / PAGE
    write_file(path, report_page(store, report))
    rows = [row for row in store.worst(MOST_SAMPLES) if row.sample_id in samples]
    links = {}
    try:
        with (
            Replayer(library_of(store.manifest), mode) as replayer,
            counter("trace pages", len(rows)) as advance,
        ):
            for row in rows:
                address = write_sample_page(store, row, samples[row.sample_id], replayer)
                if address is not None:
                    links[row.sample_id, row.seed] = address
                advance("")
    except (UsageError, SandboxUnavailableError, SandboxHostError) as error:
        click.echo(f"viper: no trace pages: {error}", err=True)
        links = {}
    if links:
        write_file(path, report_page(store, report, links))
    return path


def samples_of(store: RunStore, root: Path | None) -> dict[str, Sample]:
    """Return the samples that the report of a run lists; print why if they are missing."""
    ids = [row.sample_id for row in store.worst(MOST_SAMPLES)]
    try:
        return samples_of_run(store, root, ids)
    except (ViperError, OSError) as error:
        click.echo(f"viper: no trace pages: {error}", err=True)
        return {}


def library_of(manifest: Manifest) -> Library:
    """Return the names that the programs of a run could call.

    Raises:
        UsageError: a file of routines is missing.
    """
    path, of_profile = manifest.document.get("path"), manifest.document.get("run", {}).get("api")
    base = Path(path).parent if path and manifest.api == of_profile else None
    return library_for(manifest.api, base)
