"""Tables of tool awareness for one or two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from viper.evaluate.awareness import CAUSES, Awareness, ToolFigures, run_awareness
from viper.evaluate.intervals import Estimate
from viper.evaluate.runs.store import RunStore


@dataclass(frozen=True)
class TableLine:
    """Line of a table: its names, and a cell for each run."""

    name: tuple[str, ...]
    cells: tuple[str, ...]


@dataclass(frozen=True)
class ToolsPage:
    """Tables of agents' costs and of the usefulness of their tools."""

    costs: tuple[TableLine, ...]
    tools: tuple[TableLine, ...]
    is_explored: bool


def tools_page(stores: Sequence[RunStore]) -> ToolsPage:
    """Build the tables of runs. Cells are empty for a run without turns."""
    runs = [_awareness(store, store.count()) for store in stores]
    names = sorted({(tool.tool, tool.kind) for each in runs if each for tool in each.tools})
    return ToolsPage(
        tuple(_costs(runs)),
        tuple(
            TableLine((tool, kind), tuple(_tool(each, tool, kind) for each in runs))
            for tool, kind in names
        ),
        any(tool is not None for tool in runs),
    )


@lru_cache(maxsize=8)
def _awareness(store: RunStore, rows: int) -> Awareness | None:
    """Return the tool awareness of a run. It is read again once the run has grown."""
    return run_awareness(store)


def _costs(runs: Sequence[Awareness | None]) -> list[TableLine]:
    def line(name: str, cells: Sequence[str]) -> TableLine:
        return TableLine((name,), tuple(cells))

    lines = [
        line("questions", [f"{run.samples:,}" if run else "" for run in runs]),
        line("answered rightly", [_share(run.right) if run else "" for run in runs]),
    ]
    for name, figure in (
        ("calls of tools, a question", "calls"),
        ("turns", "turns"),
        ("tokens", "tokens"),
        ("seconds", "seconds"),
    ):
        cells = [f"{getattr(run, figure).value:,.1f}" if run else "" for run in runs]
        lines.append(line(name, cells))
    for cause in CAUSES:
        if any(run and cause in run.causes for run in runs):
            cells = [_share(run.share_of(cause)) if run else "" for run in runs]
            lines.append(line(f"wrong: {cause}", cells))
    return lines


def _tool(run: Awareness | None, tool: str, kind: str) -> str:
    entry = next((each for each in run.tools if (each.tool, each.kind) == (tool, kind)), None) \
        if run else None  # fmt: skip
    return _usefulness(entry, run.samples) if entry and run else ""


def _usefulness(entry: ToolFigures, samples: int) -> str:
    calls = f"{entry.calls / max(1, samples):.2f} calls a question"
    if not entry.answers:
        return calls
    abandoned = f", {entry.abandoned} abandoned" if entry.abandoned else ""
    return f"{calls}; {entry.answers} answers, right {_share(entry.right)}{abandoned}"


def _share(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f} % [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"
