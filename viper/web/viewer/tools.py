"""Tool awareness of one run, or of two beside each other, for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from viper.evaluate.intervals import Estimate
from viper.evaluate.runs.store import RunStore
from viper.learning.awareness import CAUSES, Awareness, OfTool, run_awareness


@dataclass(frozen=True)
class TableLine:
    """A line of a table: what it is about, and a cell for each run."""

    name: tuple[str, ...]
    cells: tuple[str, ...]


@dataclass(frozen=True)
class ToolsPage:
    """Tables of what agents did and of what their tools' answers were worth."""

    costs: tuple[TableLine, ...]
    tools: tuple[TableLine, ...]
    is_explored: bool


def tools_page(stores: Sequence[RunStore]) -> ToolsPage:
    """The tables of runs; empty cells where a run has no turns."""
    found = [_awareness(store, store.count()) for store in stores]
    names = sorted({(one.tool, one.kind) for each in found if each for one in each.tools})
    return ToolsPage(
        tuple(_costs(found)),
        tuple(
            TableLine((tool, kind), tuple(_tool(each, tool, kind) for each in found))
            for tool, kind in names
        ),
        any(one is not None for one in found),
    )


@lru_cache(maxsize=8)
def _awareness(store: RunStore, rows: int) -> Awareness | None:
    """Read anew once the run has grown."""
    return run_awareness(store)


def _costs(found: Sequence[Awareness | None]) -> list[TableLine]:
    def line(name: str, told: Sequence[str]) -> TableLine:
        return TableLine((name,), tuple(told))

    lines = [
        line("questions", [f"{one.samples:,}" if one else "" for one in found]),
        line("answered rightly", [_share(one.right) if one else "" for one in found]),
    ]
    for name, figure in (
        ("calls of tools, a question", "calls"),
        ("turns", "turns"),
        ("tokens", "tokens"),
        ("seconds", "seconds"),
    ):
        told = [f"{getattr(one, figure).value:,.1f}" if one else "" for one in found]
        lines.append(line(name, told))
    for cause in CAUSES:
        if any(one and cause in one.causes for one in found):
            told = [_share(one.share_of(cause)) if one else "" for one in found]
            lines.append(line(f"wrong: {cause}", told))
    return lines


def _tool(found: Awareness | None, tool: str, kind: str) -> str:
    one = next((each for each in found.tools if (each.tool, each.kind) == (tool, kind)), None) \
        if found else None  # fmt: skip
    return _told(one, found.samples) if one and found else ""


def _told(one: OfTool, samples: int) -> str:
    calls = f"{one.calls / max(1, samples):.2f} calls a question"
    if not one.answers:
        return calls
    abandoned = f", {one.abandoned} abandoned" if one.abandoned else ""
    return f"{calls}; {one.answers} answers, right {_share(one.right)}{abandoned}"


def _share(one: Estimate) -> str:
    return f"{100 * one.value:.1f} % [{100 * one.low:.1f}, {100 * one.high:.1f}]"
