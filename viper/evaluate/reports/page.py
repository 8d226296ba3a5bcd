"""A run's report as one HTML page: no scripts, no network, opens from disk.

Whatever a data set, a model or a program wrote is text there. It is escaped, and the page's
policy forbids scripts and requests besides.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from viper.evaluate.reports.error_plot import error_plot
from viper.evaluate.reports.error_table import NamedErrors, error_lines
from viper.evaluate.reports.escape import for_html
from viper.evaluate.reports.markup import document, framed, scrolling, table
from viper.evaluate.reports.plots import failure_plot, group_plot
from viper.evaluate.reports.table import sections, with_interval
from viper.evaluate.reports.words import answer_words, target_words
from viper.evaluate.row import Row
from viper.evaluate.runs.store import RunStore

MOST_SAMPLES = 200

_LONGEST_CELL = 2_000


def report_page(
    store: RunStore,
    report: Mapping[str, Any],
    traces: Mapping[tuple[str, int], str] | None = None,
) -> str:
    """The page of a run.

    Args:
        store: gives the samples that are listed, the worst first.
        report: what :func:`viper.evaluate.reports.report.report` made of it.
        traces: address of the trace page of a sample under a seed, where there is one.
    """
    title = f"{report['set']} {report['split'] or ''} · {report['manifest']['strategy']}"
    samples = _samples(store, traces or {})
    parts = [*_summary(report), *_breakdowns(report), *samples, *_configuration(report)]
    return document(title, parts)


def errors_page(runs: Sequence[NamedErrors]) -> str:
    """A page with the error diagrams of several runs side by side."""
    plot = error_plot(runs)
    parts = [scrolling("plot of errors", plot)] if plot else []
    return document("Where answers go wrong", [*parts, table("Errors", error_lines(runs))])


def _summary(report: Mapping[str, Any]) -> Iterator[str]:
    headline = report["headline"]
    yield f'<p class="figure">{for_html(headline)} '
    yield f"{for_html(with_interval(report['figures'][headline]))}</p>\n"
    yield f'<p class="soft">value [95% interval] · {report["n"]:,} answers</p>\n'
    for note in report["notes"]:
        yield f'<p class="note">{for_html(note)}</p>\n'
    without = report["fallbacks"]["figures_without"] if report["fallbacks"] else {}
    header = ["figure", "value [95% interval]", *(["without fallbacks"] if without else [])]
    lines = [
        [name, with_interval(one), *([with_interval(without[name])] if name in without else [])]
        for name, one in report["figures"].items()
    ]
    yield "<h2>Figures</h2>\n" + table("All figures", [header, *lines])


def _breakdowns(report: Mapping[str, Any]) -> Iterator[str]:
    plots = {
        f"by {kind}": group_plot(kind, groups, report["headline"])
        for kind, groups in report["groups"].items()
        if groups
    }
    plots["errors"] = error_plot([NamedErrors("all answers", report["errors"])])
    plots["failures"] = failure_plot(report)
    for title, lines in sections(report):
        yield f"<h2>{for_html(title[0].upper() + title[1:])}</h2>\n"
        if plots.get(title):
            yield scrolling(f"plot of {title}", plots[title])
        yield table(title, lines)


def _samples(store: RunStore, traces: Mapping[tuple[str, int], str]) -> Iterator[str]:
    yield f"<h2>Samples</h2>\n<p>The first {MOST_SAMPLES} by score, failed ones first.</p>\n"
    header = ["sample", "asked", "answer", "right is", "score", "failure", "program"]
    worst = store.worst(MOST_SAMPLES)
    rows = (_sample(row, traces.get((row.sample_id, row.seed))) for row in worst)
    yield framed("Samples with the lowest scores", header, rows, "samples")


def _sample(row: Row, trace: str | None) -> str:
    name = _cut(f"{row.sample_id} (seed {row.seed})" if row.seed else row.sample_id)
    if trace is not None:
        name = f'<a href="{for_html(trace)}">{name}</a>'
    marks = "".join(f"<br>{for_html(mark)}" for mark in row.marks)
    failure = " ".join(filter(None, [row.failure and f"{row.failure}:", row.message]))
    cells = [_cut(row.text), _cut(answer_words(row)), _cut(target_words(row))]
    program = "–"
    if row.program:
        program = f"<details><summary>program</summary><pre>{_cut(row.program)}</pre></details>"
    return (
        f'<tr><th scope="row">{name}</th>'
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + f'<td class="number">{row.score:.3f}</td>'
        + f"<td>{_cut(failure) or '–'}{marks}</td><td>{program}</td></tr>\n"
    )


def _configuration(report: Mapping[str, Any]) -> Iterator[str]:
    text = json.dumps(report["manifest"], indent=2, ensure_ascii=False)
    yield "<h2>Configuration</h2>\n<details><summary>models, settings, versions</summary>"
    yield f"<pre>{for_html(text)}</pre></details>\n"


def _cut(text: str) -> str:
    return for_html(text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…")
