"""What a fit says: lines for the terminal, and ``report.html``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from viper.evaluate.intervals import Estimate
from viper.evaluate.reports.page import rendered_page
from viper.evaluate.reports.plots import risk_plot
from viper.evaluate.reports.tables import with_interval
from viper.jobs.job import JobRecord


def told(record: JobRecord) -> Iterator[str]:
    """Yield the lines that the terminal shows."""
    yield f"right on unseen cases: {with_interval(vars(record.estimate))}, {record.labelled} labels"
    for name, estimate in record.baselines.items():
        yield f"  {name}: {with_interval(vars(estimate))}"
    yield from (f"note: {remark}" for remark in record.remarks)
    if text := promised(record):
        yield f"promised: {text}"
    yield f"program ({record.kept[0].origin}):"
    yield from (f"  {line}" for line in record.kept[0].program.strip().splitlines())


def promised(record: JobRecord) -> str:
    """Return the promise in words; "" if none can be given."""
    promise = record.promise
    if promise is None or not promise.certified:
        return ""
    return (
        f"with 90 % confidence at most {promise.bound:.1%} of the given answers are wrong; "
        f"{promise.answered:.0%} of cases get one"
    )


def report_page(record: JobRecord) -> str:
    """Return the page; it needs no network and opens from disk."""
    figures: dict[str, Estimate] = {"the program": record.estimate, **record.baselines}
    order = sorted(record.judged, key=lambda case: (case.right, case.confidence))
    surest = sorted(record.judged, key=lambda case: -case.confidence)
    wrong = [not case.right for case in surest]
    steps = [(c.confidence, i + 1, sum(wrong[: i + 1])) for i, c in enumerate(surest)]
    return rendered_page(
        "report.html",
        Path(__file__).parent,
        title=record.query,
        record=record,
        promised=promised(record),
        figures=[
            ["answer by", "right on unseen cases [95% interval]"],
            *([name, with_interval(vars(estimate))] for name, estimate in figures.items()),
        ],
        plot_of_risk=risk_plot({"n": len(steps), "steps": steps}),
        cases=order,
    )
