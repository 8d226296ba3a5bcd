"""A run's report as one HTML page: no scripts, no network, opens from disk.

All text of data sets, models and programs is escaped. In addition, the page's policy forbids
scripts and requests.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from viper.escape import template_environment
from viper.evaluate.reports import tables
from viper.evaluate.reports.plots import error_plot, failure_plot, group_plot, risk_plot
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult

# The worst ones: more than anyone reads, and more would make the page slow to open.
MOST_SAMPLES = 200

_TEMPLATES = Path(__file__).parent / "templates"

# A screen of text; a cell may hold a whole program or a traceback.
_LONGEST_CELL = 2_000


def rendered_page(template: str, folder: Path = _TEMPLATES, **values: Any) -> str:
    """Return a page; every value is escaped, and only drawings are markup.

    Args:
        template: file name of the template. It extends ``page.html``, which takes a ``title``.
        folder: folder of the template; by default this package's.
    """
    return template_environment(folder, _TEMPLATES).get_template(template).render(**values)


def report_page(
    store: RunStore, report: Mapping[str, Any], traces: Mapping[tuple[str, int], str] | None = None
) -> str:
    """Return the page of a run.

    Args:
        store: store of the run. Its worst samples are listed.
        report: report of the run by :func:`viper.evaluate.reports.report.report`.
        traces: address of the trace page by sample id and seed, if a sample has one.
    """
    traces = traces or {}
    headline = report["headline"]
    plots: defaultdict[str, str] = defaultdict(str)
    for kind, groups in report["groups"].items():
        if groups:
            plots[f"by {kind}"] = group_plot(kind, groups, headline)
    plots["errors"] = error_plot([tables.NamedReport("all answers", report)])
    plots["failures"] = failure_plot(report)
    plots["confidence"] = risk_plot(report.get("confidence"))
    without = report["fallbacks"]["figures_without"] if report["fallbacks"] else {}
    figures = [["figure", "value [95% interval]", *(["without fallbacks"] if without else [])]]
    for name, figure in report["figures"].items():
        both = [figure, without[name]] if name in without else [figure]
        figures.append([name, *map(tables.with_interval, both)])
    return rendered_page(
        "report.html",
        title=f"{report['set']} {report['split'] or ''} · {report['manifest']['strategy']}",
        headline=f"{headline} {tables.with_interval(report['figures'][headline])}",
        n=f"{report['n']:,}",
        notes=report["notes"],
        figures=figures,
        sections=tables.sections(report),
        plots=plots,
        most=MOST_SAMPLES,
        samples=[
            _sample(row, traces.get((row.sample_id, row.seed))) for row in store.worst(MOST_SAMPLES)
        ],
        configuration=json.dumps(report["manifest"], indent=2, ensure_ascii=False),
    )


def errors_page(runs: Sequence[tables.NamedReport]) -> str:
    """Return a page with the error diagrams of several runs side by side."""
    return rendered_page(
        "errors.html",
        title="Where answers go wrong",
        drawing=error_plot(runs),
        lines=tables.error_lines(runs),
    )


def _sample(result: SampleResult, trace: str | None) -> dict[str, Any]:
    failure = " ".join(filter(None, [result.failure and f"{result.failure}:", result.message]))
    texts = {
        "name": f"{result.sample_id} (seed {result.seed})" if result.seed else result.sample_id,
        "text": result.text,
        "answer": tables.answer_words(result),
        "target": tables.target_words(result),
        "failure": failure or "–",
        "program": result.program or "",
    }
    cut = {
        name: text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"
        for name, text in texts.items()
    }
    return {**cut, "trace": trace, "score": f"{result.score:.3f}", "marks": result.marks}
