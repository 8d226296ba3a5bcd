"""Reports and error diagrams of runs side by side: terminal, CSV, Markdown, JSON.

`rendered` and `rendered_errors` write every format. Table and Markdown share their cells (a line
for each run, a column for each figure); CSV has a line for each figure.
`sections` adds the groups, failures and costs of a single report.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from viper.escape import csv_text, for_csv, for_markdown, for_terminal
from viper.evaluate.reports.error_diagram import PARTS
from viper.evaluate.sample_result import SampleResult
from viper.storage.json_lines import plain

Format = Literal["table", "csv", "markdown", "json"]

FAILED = "errors together"

_ABOUT = ("run", "set", "split", "strategy", "api", "profile")


@dataclass(frozen=True)
class NamedReport:
    """A run's report under the name that tables give it; tables of errors read ``errors`` alone."""

    name: str
    report: Mapping[str, Any]

    @property
    def errors(self) -> Mapping[str, Any]:
        """The error diagram, as ``ErrorDiagram.to_json`` gives it."""
        return self.report["errors"]


def rendered(reports: Sequence[NamedReport], form: Format) -> str:
    """Render the reports in this format, ending with a line end.

    CSV has one line per figure of each run, groups and failures included (tidy data).
    """
    if form == "json":
        return _json([{"run": run.name, **run.report} for run in reports])
    if form == "csv":
        lines = [[*_ABOUT, "kind", "group", "figure", "value", "low", "high", "n"]]
        for run in reports:
            about = [for_csv(cell) for cell in _about(run)]
            for kind, group, name, estimate in _figures(run.report):
                numbers = [estimate[key] for key in ("value", "low", "high", "n")]
                lines.append([*about, kind, for_csv(group), for_csv(name), *numbers])
        return csv_text(lines)
    names = list(dict.fromkeys(name for run in reports for name in run.report["figures"]))
    cells = [[*_ABOUT, *names, "n", "failed"]]
    cells += [[*_about(run), *_numbers(run.report, names)] for run in reports]
    table = aligned if form == "table" else _markdown_table
    escaped: Callable[[str], str] = for_terminal if form == "table" else for_markdown
    parts = [table(cells)]
    for run in reports:
        parts += [f"\n{escaped(run.name)}: {escaped(note)}\n" for note in run.report["notes"]]
    if form == "table" and len(reports) == 1:
        for title, section in sections(reports[0].report):
            parts.append(f"\n{for_terminal(title)}\n" + aligned(section))
    return "".join(parts)


def with_interval(estimate: Mapping[str, Any]) -> str:
    """Return a value with its 95% interval, as ``0.523 [0.491, 0.554]``."""
    return f"{estimate['value']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}]"


def sections(report: Mapping[str, Any]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield title and lines of a report's other tables. The first line is the header."""
    for kind, groups in report["groups"].items():
        lines = [[name, with_interval(entry), f"{entry['n']:,}"] for name, entry in groups.items()]
        yield f"by {kind}", [[kind, report["headline"], "n"], *lines]
    errors = report["errors"]
    lines = [
        [part, f"{entry['count']:,}", _share(entry)]
        for part, entry in [*errors["parts"].items(), (FAILED, errors["failed"])]
    ]
    yield "errors", [["part", "count", "share"], *lines]
    for title, kinds in (("failures", report["failures"]), ("marks", report["marks"])):
        if kinds:
            lines = [
                [kind, f"{entry['count']:,}", _share(entry), ", ".join(entry["examples"])]
                for kind, entry in kinds.items()
            ]
            yield title, [["kind", "count", "share", "for example"], *lines]
    if confidence := report.get("confidence"):
        lines = [
            ["expected calibration error", with_interval(confidence["calibration_error"])],
            ["area under risk by coverage", with_interval(confidence["area"])],
        ]
        for coverage, risk in confidence["risk_at"].items():
            lines.append([f"wrong among the {coverage} most confident", with_interval(risk)])
        yield "confidence", [["figure", "value"], *lines]
    seeds = report["seeds"]
    if len(seeds["values"]) > 1:
        lines = [[seed, f"{value:.3f}"] for seed, value in seeds["values"].items()]
        lines.append(["mean ± deviation", f"{seeds['mean']:.3f} ± {seeds['deviation']:.3f}"])
        yield "seeds", [["seed", report["headline"]], *lines]
    usage, seconds = report["timing"]["usage"], report["timing"]["sample_seconds"]
    lines = [
        ["calls of the language model", f"{usage['llm_calls']:,}"],
        ["tokens read", f"{usage['prompt_tokens']:,}"],
        ["tokens written", f"{usage['completion_tokens']:,}"],
        ["calls of vision models", f"{usage['model_calls']:,}"],
    ]
    if usage["cost_usd"] is not None:
        unknown = usage["samples_without_cost"]
        more = f" and what {unknown:,} answers without a price cost" if unknown else ""
        lines.append(["cost", f"{usage['cost_usd']:.4f} USD{more}"])
    if seconds:
        if pace := report["timing"].get("pace"):
            rate = f"{pace['answers'] / pace['seconds']:.2f} answers a second"
            lines.append(["throughput", f"{rate} ({pace['answers']:,} in {pace['seconds']:.0f} s)"])
        within = f"{seconds['median']:.2f} s (95% within {seconds['p95']:.2f} s)"
        lines.append(["latency of an answer, waiting for shared models included", within])
    yield "usage", [["", ""], *lines]


def _numbers(report: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    figures = report["figures"]
    for name in names:
        yield with_interval(figures[name]) if name in figures else "-"
    yield f"{report['n']:,}" if report["complete"] else f"{report['n']:,} of {report['expected']:,}"
    failed = sum(kind["count"] for kind in report["failures"].values())
    yield f"{failed:,} ({failed / report['n']:.1%})" if report["n"] else "0"


def _about(run: NamedReport) -> list[str]:
    manifest = run.report["manifest"]
    values = [run.name, run.report["set"], run.report["split"]]
    values += [manifest["strategy"], manifest["api"], manifest["profile"]]
    return ["-" if value is None else str(value) for value in values]


def _figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    for name, estimate in report["figures"].items():
        yield "overall", "", name, estimate
    if report["fallbacks"] is not None:
        for name, estimate in report["fallbacks"]["figures_without"].items():
            yield "without_fallbacks", "", name, estimate
    for kind, groups in report["groups"].items():
        for name, estimate in groups.items():
            yield "group", f"{kind}: {name}", report["headline"], estimate
    for what in ("failures", "marks"):
        for kind, kind_json in report[what].items():
            yield what, "", kind, {**kind_json, "value": kind_json["share"], "n": report["n"]}


def rendered_errors(runs: Sequence[NamedReport], form: Format) -> str:
    """Render the diagrams in this format, ending with a line end."""
    if form == "json":
        return _json([{"run": run.name, **run.errors} for run in runs])
    if form == "csv":
        lines = [["run", "part", "count", "share", "low", "high", "n"]]
        for run in runs:
            for part, entry in [*run.errors["parts"].items(), (FAILED, run.errors["failed"])]:
                numbers = [entry[name] for name in ("count", "share", "low", "high")]
                lines.append([for_csv(run.name), part, *numbers, run.errors["n"]])
        return csv_text(lines)
    lines = error_lines(runs)
    return aligned(lines) if form == "table" else _markdown_table(lines)


def error_lines(runs: Sequence[NamedReport]) -> list[list[str]]:
    """Return the lines of a table: header first, a line for each part, a column for each run."""
    lines = [["share of answers [95% interval]", *[run.name for run in runs]]]
    for part in parts_of(runs):
        lines.append([part, *[_share(run.errors["parts"].get(part)) for run in runs]])
    lines.append([FAILED, *[_share(run.errors["failed"]) for run in runs]])
    lines.append(["n", *[f"{run.report['errors']['n']:,}" for run in runs]])
    return lines


def parts_of(runs: Sequence[NamedReport]) -> list[str]:
    """Return the parts that any of the runs has, from best to worst."""
    return [part for part in PARTS if any(part in run.errors["parts"] for run in runs)]


def _share(entry: Mapping[str, Any] | None) -> str:
    return "-" if entry is None else with_interval({**entry, "value": entry["share"]})


def _json(runs: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"schema": 1, "runs": runs}, indent=2, allow_nan=False) + "\n"


def _markdown_table(lines: Sequence[Sequence[str]]) -> str:
    header, *rest = [[for_markdown(cell) for cell in line] for line in lines]
    rows = [header, ["---"] * len(header), *rest]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Return the lines as columns of equal width, safe for a terminal."""
    table = [[for_terminal(cell) for cell in line] for line in lines if any(line)]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    padded = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]
    return "\n".join(padded) + "\n"


def answer_words(result: SampleResult) -> str:
    """Return the answer in words; ``none`` without an answer."""
    prediction = result.prediction
    if prediction is None:
        return "none"
    if prediction.box is not None:
        return "[" + ", ".join(f"{side:.0f}" for side in prediction.box) + "]"
    index = prediction.choice_index
    if index is not None and 0 <= index < len(result.options):
        return result.options[index]
    if isinstance(prediction.value, dict) and "picture" in prediction.value:
        return "a picture"
    return str(prediction.value if index is None else index)


def target_words(row: SampleResult) -> str:
    """Return the right answer in words."""
    target = row.target
    if isinstance(target, int) and not isinstance(target, bool) and 0 <= target < len(row.options):
        return row.options[target]
    if isinstance(target, str):
        return target
    value = plain(target)
    if isinstance(value, dict) and {"operation", "old", "new"} <= value.keys():
        return " ".join(filter(None, [value["operation"], value["old"], value["new"]]))
    return json.dumps(value, ensure_ascii=False)
