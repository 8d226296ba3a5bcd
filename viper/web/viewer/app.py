"""Viewer of runs as a web application, behind a random token.

The grid asks the :class:`~viper.web.viewer.index.ViewerIndex` which results pass a filter, and a
card shows each with its thumbnail from the :class:`~viper.web.viewer.gallery.RunGallery`. A trace
page replays the program of one result. The viewer never changes a result; feedback of a visitor is
stored beside the run.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from urllib.parse import quote, urlencode

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from viper.errors import StoreError, UnknownNameError, UsageError, ViperError
from viper.evaluate.awareness import CAUSES, Awareness, run_awareness
from viper.evaluate.intervals import Estimate
from viper.evaluate.reports.report import headline_of
from viper.evaluate.reports.tables import with_interval
from viper.evaluate.runs import feedback
from viper.evaluate.runs.index import SORTS, verdict_of
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.serve.gate import AccessRules
from viper.strategies.replay import Replayer
from viper.web.behind_token import behind_token, form_of
from viper.web.pages import line_changes, rendered
from viper.web.sample_pages import sample_page
from viper.web.trace_page import Extras, FeedbackForm
from viper.web.viewer.gallery import RunGallery
from viper.web.viewer.index import MOST_WITH_TEXT, RowFilter, ViewerIndex

_POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


# Strategy of runs whose tools have a page.
EXPLORE = "explore"

_IN_OUR_FRAMES = {"Content-Security-Policy": "frame-ancestors 'self'"}

# Most characters of a field of an address; longer fields are cut. Queries are shorter.
_LONGEST_FIELD = 500

# Limit for a form: two texts of four bytes a character, each percent-encoded as three, with room.
_MOST_BYTES = 8 * 4 * feedback.LONGEST

# A run of usual size has its figure by then, and a page does not wait longer.
_PATIENCE_S = 1.0

# More remarks about one sample are no use to who looks at it; the file keeps all.
_REMARKS_SHOWN = 20


@dataclass(frozen=True)
class ViewedRun:
    """Run with its store and its pictures."""

    name: str
    store: RunStore
    gallery: RunGallery


@dataclass(frozen=True)
class Viewer:
    """State that the routes share.

    Attributes:
        shelves: one run, or two to compare.
        replayer: replays programs for their pages.
        access: who may read the pages.
    """

    shelves: tuple[ViewedRun, ...]
    index: ViewerIndex
    replayer: Replayer
    access: AccessRules


def create_viewer(viewer: Viewer) -> Starlette:
    """Build the application. All its routes lie below ``/TOKEN/``."""
    routes = [
        Route("/", partial(_grid, viewer), name="grid"),
        Route("/sample", partial(_sample, viewer), name="sample"),
        Route("/tools", partial(_tools, viewer), name="tools"),
        Route("/trace", partial(_trace, viewer), name="trace"),
        Route("/feedback", partial(_feedback, viewer), methods=["POST"], name="feedback"),
        Route("/small", partial(_small, viewer), name="small"),
    ]
    return behind_token(routes, viewer.access, _POLICY)


def _grid(viewer: Viewer, request: Request) -> Response:
    fields = dict(request.query_params)
    viewer.index.refresh()
    row_filter = filter_from(fields)
    results = viewer.index.find(row_filter)
    if row_filter.page >= results.pages:
        row_filter = replace(row_filter, page=results.pages - 1)
        results = viewer.index.find(row_filter)
    for shelf in viewer.shelves:
        shelf.gallery.expect([sample_id for sample_id, _ in results.keys])
    page = rendered(
        "viewer.html",
        viewer=viewer,
        facets=viewer.index.facets,
        sorts=tuple(SORTS),
        row_filter=row_filter,
        fields=fields,
        results=results,
        cards=[
            {"rows": rows, "key": urlencode({"id": key[0], "seed": key[1]})}
            for key in results.keys
            if (rows := [shelf.store.row(*key) for shelf in viewer.shelves])[0] is not None
        ],
        verdict_of=verdict_of,
        address=partial(address, fields),
        abouts=[_about(shelf) for shelf in viewer.shelves],
        most_with_text=MOST_WITH_TEXT,
        explores=any(shelf.store.manifest.strategy == EXPLORE for shelf in viewer.shelves),
    )
    return HTMLResponse(page)


def _about(shelf: ViewedRun) -> tuple[str, str]:
    """Return the main figure of a run, and its settings."""
    manifest, rows = shelf.store.manifest, shelf.store.count()
    expected = manifest.set.samples * len(manifest.seeds)
    n = f"n = {rows:,}" + (f" of {expected:,}, unfinished" if rows < expected else "")
    set_name = " ".join(filter(None, [manifest.set.name, manifest.set.split]))
    date = manifest.created.replace("T", " ")[:16]
    about = f"{set_name} · profile {manifest.profile} · {manifest.strategy} · {date} UTC"
    return _headline(shelf.store).text(rows, n), about


class _Headline:
    """Main figure of a run, computed aside, since a million answers take half a minute."""

    def __init__(self, store: RunStore) -> None:
        self._store, self._turn = store, threading.Lock()
        self._rows, self._figure, self._problem = -1, "", ""
        self._thread = threading.Thread()

    def text(self, rows: int, n: str) -> str:
        """Return the figure and ``n``; an earlier figure, or none, while a new one is computed."""
        with self._turn:
            if self._rows != rows and not self._thread.is_alive():
                self._thread = threading.Thread(target=self._compute, args=(rows,), daemon=True)
                self._thread.start()
                self._thread.join(_PATIENCE_S)
        if self._problem or not self._figure:
            return f"{n} ({self._problem or 'its figure is being computed: reload the page'})"
        old = "" if self._rows == rows else f" of the first {self._rows:,}"
        return f"{self._figure}{old}, {n}"

    def _compute(self, rows: int) -> None:
        try:
            name, estimate = headline_of(self._store)
            self._figure = f"{name} {with_interval(estimate)}"
        except UnknownNameError:
            self._problem = f"metric {self._store.manifest.metric} is not installed"
        except StoreError as error:
            self._problem = str(error)
        self._rows = rows


_headline = lru_cache(maxsize=8)(_Headline)


def _tools(viewer: Viewer, request: Request) -> Response:
    """Render tables of tool awareness, with a cell for each run; empty for one without turns."""
    runs = [_awareness(shelf.store, shelf.store.count()) for shelf in viewer.shelves]

    def cells(text: Callable[[Awareness], str]) -> list[str]:
        return [text(run) if run else "" for run in runs]

    costs = [
        ("questions", cells(lambda run: f"{run.samples:,}")),
        ("answered rightly", cells(lambda run: _share(run.right))),
        ("calls of tools, a question", cells(lambda run: f"{run.calls.value:,.1f}")),
        ("turns", cells(lambda run: f"{run.turns.value:,.1f}")),
        ("tokens", cells(lambda run: f"{run.tokens.value:,.1f}")),
        ("seconds", cells(lambda run: f"{run.seconds.value:,.1f}")),
    ]
    for cause in CAUSES:
        if any(run and cause in run.causes for run in runs):
            shares = [_share(run.share_of(cause)) if run else "" for run in runs]
            costs.append((f"wrong: {cause}", shares))
    names = sorted({(tool.tool, tool.kind) for run in runs if run for tool in run.tools})
    page = rendered(
        "tools.html",
        viewer=viewer,
        costs=[((name,), line) for name, line in costs],
        tools=[(name, [_usefulness(run, *name) if run else "" for run in runs]) for name in names],
        is_explored=any(runs),
    )
    return HTMLResponse(page)


@lru_cache(maxsize=8)
def _awareness(store: RunStore, rows: int) -> Awareness | None:
    """Return the tool awareness of a run. It is read again once the run has grown."""
    return run_awareness(store)


def _usefulness(run: Awareness, tool: str, kind: str) -> str:
    entry = next((each for each in run.tools if (each.tool, each.kind) == (tool, kind)), None)
    if entry is None:
        return ""
    calls = f"{entry.calls / max(1, run.samples):.2f} calls a question"
    if not entry.answers:
        return calls
    abandoned = f", {entry.abandoned} abandoned" if entry.abandoned else ""
    return f"{calls}; {entry.answers} answers, right {_share(entry.right)}{abandoned}"


def _share(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f} % [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def _sample(viewer: Viewer, request: Request) -> Response:
    """Render both runs' answers to a sample, with their programs line by line."""
    rows = [_row(shelf, request) for shelf in viewer.shelves]
    programs = [result.program or "" for result in rows]
    page = rendered(
        "compared.html",
        viewer=viewer,
        rows=rows,
        key=urlencode({"id": rows[0].sample_id, "seed": rows[0].seed}),
        changes=line_changes(programs[0], programs[-1]),
    )
    return HTMLResponse(page)


async def _feedback(viewer: Viewer, request: Request) -> Response:
    fields = await form_of(request, _MOST_BYTES)
    answer = fields.get("answer", "").strip()
    comment = fields.get("comment", "").strip().replace("\r\n", "\n")
    shelf = _shelf(viewer, request)
    result = _row(shelf, request)
    try:
        await anyio.to_thread.run_sync(
            feedback.give_feedback, shelf.store.folder, result, answer, comment
        )
    except (UsageError, StoreError) as error:
        again = {"refused": str(error), "answer": answer, "comment": comment}
        return await anyio.to_thread.run_sync(_trace, viewer, request, again)
    return RedirectResponse(f"trace?{request.url.query}#feedback", 303)


def _trace(viewer: Viewer, request: Request, again: Mapping[str, str] | None = None) -> Response:
    """Render a result's page.

    Args:
        again: what was typed into the feedback form, and why it was not stored.
    """
    shelf = _shelf(viewer, request)
    result = _row(shelf, request)
    trace = shelf.store.read_trace(result.sample_id, result.seed)
    if trace is None:
        raise HTTPException(404, "nothing ran for this sample: there is no trace")
    shelf.gallery.wait(30)
    media = shelf.gallery.media(result.sample_id)
    if media is None:
        problem = shelf.gallery.problem or "unreadable"
        raise HTTPException(404, f"the sample's pictures are not here ({problem})")
    form = FeedbackForm(
        address=f"feedback?{request.url.query}",
        right_is=feedback.RIGHT_IS.get(result.task, "in words"),
        known=_remarks(shelf.store.folder, result),
        **(again or {}),
    )
    extras = Extras(back="./", saying=form)
    page = sample_page(shelf.store, result, trace, media, viewer.replayer, extras)
    return HTMLResponse(page, 400 if again else 200, headers=_IN_OUR_FRAMES)


def _small(viewer: Viewer, request: Request) -> Response:
    shelf = _shelf(viewer, request)
    jpeg = shelf.gallery.small(*_key(request))
    if jpeg is None:
        raise HTTPException(404 if shelf.gallery.wait(0) else 503, "no picture")
    return Response(
        jpeg, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"}
    )


def _key(request: Request) -> tuple[str, int]:
    fields = request.query_params
    return fields.get("id", ""), whole(fields.get("seed", "0")) or 0


def _shelf(viewer: Viewer, request: Request) -> ViewedRun:
    number = whole(request.query_params.get("run", "0")) or 0
    if not 0 <= number < len(viewer.shelves):
        raise HTTPException(404, "no such run")
    return viewer.shelves[number]


def _row(shelf: ViewedRun, request: Request) -> SampleResult:
    result = shelf.store.row(*_key(request))
    if result is None:
        raise HTTPException(404, "no such sample in this run")
    return result


def filter_from(fields: Mapping[str, str]) -> RowFilter:
    """Read the filter from the fields of an address. Invalid values are ignored."""

    def text(name: str) -> str:
        return fields.get(name, "")[:_LONGEST_FIELD]

    name, equals, value = text("kind").partition("=")
    return RowFilter(
        text=text("text").strip(),
        failure=text("failure"),
        tool=text("tool"),
        part=text("part"),
        kind=(name, value) if equals else None,
        low=_score(text("low")),
        high=_score(text("high")),
        seed=whole(text("seed_is")),
        change=text("change"),
        sort=text("sort") or RowFilter.sort,
        page=max(0, whole(text("page")) or 0),
    )


def address(fields: Mapping[str, str], changed: Mapping[str, str]) -> str:
    """Return the grid's address with some fields changed. Empty fields are left out."""
    merged = {**fields, **changed}
    if "page" not in changed and changed:
        merged.pop("page", None)
    return "?" + urlencode(
        {name: value for name, value in merged.items() if value != ""}, quote_via=quote
    )


def whole(text: str) -> int | None:
    """Return a whole number that SQLite can store; None for anything else."""
    try:
        value = int(text)
    except ValueError:
        return None
    return value if abs(value) < 2**40 else None


def _score(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None


def _remarks(run: Path, result: SampleResult) -> list[tuple[str, str, str]]:
    """Return the last remarks about a result; none if they cannot be read."""
    try:
        remarks = feedback.read_feedback(run)
    except ViperError:
        return []
    shown = []
    for remark in remarks:
        if (remark.sample_id, remark.seed) != (result.sample_id, result.seed):
            continue
        answer = remark.answer
        if type(answer) is int and result.task == "choice" and 0 <= answer < len(result.options):
            answer = result.options[answer]
        if not isinstance(answer, str):
            answer = "" if answer is None else json.dumps(answer)
        shown.append((answer, remark.comment, remark.given))
    return shown[-_REMARKS_SHOWN:]
