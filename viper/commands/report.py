"""``viper report``: tables and pages of evaluation runs, and comparisons of two runs.

`report` decides by the options what is made: tables, pages, error diagrams, a comparison or a log
for Inspect. Each opens the stores of the runs, computes reports from their rows, and delivers to
stdout or a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from viper.api.library import Library, library_for
from viper.commands.options import DataTrust, OutPath, given_by, option, options_as, root_option
from viper.commands.terminal import counter, note, warn
from viper.data.sample import Sample
from viper.errors import SandboxHostError, SandboxUnavailableError, UsageError, ViperError
from viper.escape import for_terminal
from viper.evaluate.predictions import predictions_text
from viper.evaluate.reports import tables
from viper.evaluate.reports.comparison import Comparison, ScoreChange, compare
from viper.evaluate.reports.error_diagram import diagram_of
from viper.evaluate.reports.page import MOST_SAMPLES, errors_page, report_page
from viper.evaluate.reports.report import report as report_of
from viper.evaluate.runs.manifest import Manifest
from viper.evaluate.runs.store import PAGE, RunStore, samples_of_run
from viper.plugins import need_packages
from viper.sandbox.sandbox import Mode
from viper.storage.files import write_file
from viper.strategies.replay import Replayer
from viper.web.sample_pages import write_sample_page

# A list that fits on one screen, in lines that fit a terminal of 100 columns beside the id.
_LISTED, _TEXT_WIDTH = 20, 70


@dataclass(frozen=True, kw_only=True)
class ReportOptions(DataTrust):
    """Options of ``viper report``."""

    # fmt: off
    form: tables.Format | None = option("--format", help="Format of the text. By default table.")
    as_json: bool = option("--json", help="Print JSON, like --format json.")
    html: bool = option("--html",
        help="Write a page with plots into the folder of the run, and a page for each sample that "
             "it lists; with --out, write only the first page.")
    root: Path | None = given_by(root_option)
    sandbox: Mode = option("--sandbox", default="strict",
        help="Sandbox mode for programs that run again for the pages of samples.")
    out: Path | None = option("--out", type=OutPath(), help="Write to this file instead of stdout.")
    compare: bool = option("--compare", help="Compare two runs, BEFORE AFTER, sample by sample.")
    common: bool = option("--common",
        help="With --compare: use only the samples that both runs hold.")
    errors: bool = option("--errors", help="Show where answers go wrong, as shares of all answers.")
    inspect: Path | None = option("--inspect", type=OutPath(), metavar="FILE.eval",
        help="Write the run as a log of inspect_ai, for inspect view.")
    predictions: bool = option("--predictions",
        help="Write the answers as the official predictions file of GQA, OK-VQA or InfoSeek.")
    # fmt: on


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@options_as(ReportOptions)
def report(options: ReportOptions, runs: tuple[Path, ...]) -> None:
    """Write tables and pages of evaluation runs (folders that viper eval wrote).

    Runs that are unfinished can be read, too.

    \b
    viper report runs/a runs/b
    viper report runs/a --html
    viper report --compare runs/a runs/b
    viper report --errors runs/a runs/b
    viper report --errors runs/a runs/b --html --out errors.html
    viper report runs/a --inspect a.eval
    viper report runs/gqa --predictions --out testdev_predictions.json
    """
    if options.as_json and options.form not in (None, "json"):
        raise UsageError(f"--json and --format {options.form} ask for different things")
    if options.common and not options.compare:
        raise UsageError("--common goes with --compare")
    if options.errors and options.compare:
        raise UsageError("--errors and --compare ask for different things")
    form: tables.Format = "json" if options.as_json else options.form or "table"
    reports = []
    if options.inspect is not None:
        if len(runs) > 1:
            raise UsageError(f"--inspect writes the log of one run, and {len(runs)} were named")
        need_packages(("inspect_ai",), "viper report --inspect")
        from viper.bridges.inspect_ai import write_log

        write_log(runs[0], options.inspect)
        click.echo(options.inspect)
    elif options.predictions:
        for run in runs:
            with RunStore.read(run) as store:
                first, *others = store.manifest.seeds
                text = predictions_text(store.manifest.metric, store.rows(first))
            if len(runs) > 1 or others:
                raise UsageError(
                    "--predictions has one answer a sample: name one run with one seed"
                )
            _deliver(text, options.out)
    elif options.errors:
        if options.html and options.out is None:
            raise UsageError(
                "--errors --html writes one page for all runs; name its file with --out FILE"
            )
        for run in runs:
            with read_run(run) as store:
                errors = {"errors": diagram_of(store.parts()).to_json()}
                reports.append(tables.NamedReport(str(run), errors))
        text = errors_page(reports) if options.html else tables.rendered_errors(reports, form)
        _deliver(text, options.out)
    elif options.compare:
        if len(runs) != 2:
            raise UsageError(f"--compare takes two runs, BEFORE and AFTER; got {len(runs)}")
        if options.html or form not in ("table", "json"):
            raise UsageError("--compare prints text or, with --json, JSON")
        with RunStore.read(runs[0]) as before, RunStore.read(runs[1]) as after:
            comparison = compare(before, after, common=options.common)
        if form == "json":
            text = json.dumps(comparison.to_json(), indent=2, allow_nan=False)
        else:
            text = "\n".join(_lines(comparison))
        _deliver(f"{text}\n", options.out)
    elif options.html:
        if options.out is not None and len(runs) > 1:
            raise UsageError(f"--html --out writes one page, and {len(runs)} runs were named")
        for run in runs:
            with read_run(run) as store:
                report_data = report_of(store)
                if options.out is not None:
                    write_file(options.out, report_page(store, report_data))
                    click.echo(options.out)
                else:
                    samples = _listed_samples(store, options.root)
                    page = write_report_page(
                        store, report_data, samples, options.sandbox, options.trust
                    )
                    click.echo(page)
    else:
        for run in runs:
            with read_run(run) as store:
                reports.append(tables.NamedReport(str(run), report_of(store)))
        _deliver(tables.rendered(reports, form), options.out)


@contextmanager
def read_run(folder: Path) -> Iterator[RunStore]:
    """Open a run for reading. A run of an earlier version gets its index, once, with a bar."""
    with RunStore.read(folder) as store:
        if missing := store.behind():
            with counter("indexing the run", missing) as advance:
                store.catch_up(lambda results: advance("", results))
        yield store


def _lines(comparison: Comparison) -> list[str]:
    gain, p_value = comparison.gain.difference, comparison.gain.p_value
    before, after, left_out = comparison.only_before, comparison.only_after, ""
    if before or after:
        left_out = f" that both hold ({before:,} only before, {after:,} only after)"
    lines = [
        f"{comparison.n:,} answers{left_out}",
        f"mean score {comparison.score_before:.3f} before, {comparison.score_after:.3f} after; "
        f"gain {gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}], p = {p_value:.3g}",
    ]
    lines += _listed("to right", comparison.to_right)
    lines += _listed("to wrong", comparison.to_wrong)
    lines += _listed("another failure", comparison.changed_failure, values=True)
    lines += _listed("another program", comparison.changed_program)
    return lines


def _listed(title: str, changes: Sequence[ScoreChange], *, values: bool = False) -> list[str]:
    lines = ["", f"{title}: {len(changes):,}"]
    for change in changes[:_LISTED]:
        name = change.sample_id if not change.seed else f"{change.sample_id} (seed {change.seed})"
        parts = [for_terminal(name), for_terminal(change.text, _TEXT_WIDTH)]
        if values:
            parts.append(for_terminal(f"{change.before or 'none'} -> {change.after or 'none'}"))
        lines.append("  " + "  ".join(parts))
    if len(changes) > _LISTED:
        lines.append(f"  and {len(changes) - _LISTED:,} more (--json lists all)")
    return lines


def _deliver(text: str, out: Path | None) -> None:
    if out is None:
        click.echo(text, nl=False)
    else:
        write_file(out, text)


def write_report_page(
    store: RunStore,
    report: Mapping[str, Any],
    samples: Mapping[str, Sample],
    mode: Mode,
    trust: bool = False,
) -> Path:
    """Write the report of a run as a page, and a trace page for every sample that it lists.

    The report is written before the trace pages, so after Ctrl-C it exists without links.

    Args:
        samples: samples by id; a missing sample gets no trace page.
        mode: mode of the sandbox in which programs run again.
        trust: see :func:`library_of`.

    Raises:
        StoreError: a file cannot be written.
    """
    path = store.folder / PAGE
    write_file(path, report_page(store, report), inside=store.folder)
    rows = [row for row in store.worst(MOST_SAMPLES) if row.sample_id in samples]
    links = {}
    try:
        with (
            Replayer(library_of(store.manifest, trust), mode) as replayer,
            counter("trace pages", len(rows)) as advance,
        ):
            for row in rows:
                address = write_sample_page(store, row, samples[row.sample_id], replayer)
                if address is not None:
                    links[row.sample_id, row.seed] = address
                advance("")
    except (UsageError, SandboxUnavailableError, SandboxHostError) as error:
        note(f"viper: no trace pages: {error}")
        links = {}
    if links:
        write_file(path, report_page(store, report, links), inside=store.folder)
    return path


def _listed_samples(store: RunStore, root: Path | None) -> dict[str, Sample]:
    """Return the samples that the report of a run lists; print why if they are missing."""
    ids = [row.sample_id for row in store.worst(MOST_SAMPLES)]
    try:
        return samples_of_run(store, root, ids)
    except (ViperError, OSError) as error:
        note(f"viper: no trace pages: {error}")
        return {}


def library_of(manifest: Manifest, trust: bool) -> Library:
    """Return the names that the programs of a run could call.

    The routines of files come from the texts in the run, unless ``trust`` lets the files run. A
    warning tells which routines are missing.

    Raises:
        UsageError: a trusted file of routines cannot be used.
    """
    path, own = manifest.document.get("path"), manifest.document.get("run", {}).get("api")
    base = Path(path).parent if path and manifest.api == own else None
    try:
        stored = None if trust else manifest.routines
        library = library_for(manifest.api, base if trust else None, stored)
        return replace(library, depth_ratios=manifest.depth_ratios)
    except UsageError as error:
        if trust:
            raise
        warn(f"{error}; programs that call its routines are not run again")
        return Library()
