"""Viewer of runs as a web application, behind a random token.

It never changes a run. Feedback of a visitor is stored beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlencode

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from viper.errors import StoreError, UsageError, ViperError
from viper.evaluate.runs import feedback
from viper.evaluate.runs.store import RunStore
from viper.evaluate.sample_result import SampleResult
from viper.record import record_from_json
from viper.schema import Trace
from viper.serve.gate import Access
from viper.strategies.replay import Replayer
from viper.web.behind_token import behind_token, form_of
from viper.web.pages import line_changes, rendered
from viper.web.sample_pages import record_of, rerun_command, truth_of
from viper.web.trace_page import Extras, FeedbackForm, replay_all, trace_page
from viper.web.viewer.gallery import Gallery
from viper.web.viewer.index import SORTS, RowFilter, ViewerIndex, verdict_of
from viper.web.viewer.tools import tools_page

_POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


# Strategy of runs whose tools have a page.
EXPLORE = "explore"

_IN_OUR_FRAMES = {"Content-Security-Policy": "frame-ancestors 'self'"}

# Most characters of a field of an address; longer fields are cut.
_LONGEST_FIELD = 500

# Limit for a form: two texts, each character percent-encoded.
_MOST_BYTES = 8 * 4 * feedback.LONGEST

_REMARKS_SHOWN = 20


@dataclass(frozen=True)
class ViewedRun:
    """Run with its store and its pictures."""

    name: str
    store: RunStore
    gallery: Gallery


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
    access: Access


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
    page = rendered(
        "viewer.html",
        viewer=viewer,
        facets=viewer.index.facets,
        sorts=tuple(SORTS),
        row_filter=row_filter,
        fields=fields,
        results=results,
        cards=[_card(viewer, key) for key in results.keys],
        verdict_of=verdict_of,
        address=partial(address, fields),
        explores=any(shelf.store.manifest.strategy == EXPLORE for shelf in viewer.shelves),
    )
    return HTMLResponse(page)


def _tools(viewer: Viewer, request: Request) -> Response:
    page = tools_page([shelf.store for shelf in viewer.shelves])
    return HTMLResponse(rendered("tools.html", viewer=viewer, page=page))


@dataclass(frozen=True)
class SampleCard:
    """Sample with its result in each run; None if a run lacks it."""

    rows: tuple[SampleResult | None, ...]
    key: str

    @property
    def row(self) -> SampleResult:
        assert self.rows[0] is not None
        return self.rows[0]


def _card(viewer: Viewer, key: tuple[str, int]) -> SampleCard:
    sample_id, seed = key
    rows = tuple(shelf.store.row(sample_id, seed) for shelf in viewer.shelves)
    return SampleCard(rows, urlencode({"id": sample_id, "seed": seed}))


def _sample(viewer: Viewer, request: Request) -> Response:
    """Render both runs' answers to a sample, with their programs line by line."""
    rows = [_row(shelf, request) for shelf in viewer.shelves]
    programs = [result.program or "" for result in rows]
    page = rendered(
        "compared.html",
        viewer=viewer,
        rows=rows,
        key=urlencode(_key(request)),
        changes=line_changes(programs[0], programs[-1]),
    )
    return HTMLResponse(page)


def _trace(viewer: Viewer, request: Request) -> Response:
    return HTMLResponse(_trace_page(viewer, request), headers=_IN_OUR_FRAMES)


async def _feedback(viewer: Viewer, request: Request) -> Response:
    form = await read_feedback_form(request)
    shelf = _shelf(viewer, request)
    result = _row(shelf, request)
    refused = await anyio.to_thread.run_sync(save_feedback, shelf.store.folder, result, form)
    if refused:
        page = await anyio.to_thread.run_sync(_trace_page, viewer, request, (form, refused))
        return HTMLResponse(page, 400, headers=_IN_OUR_FRAMES)
    return RedirectResponse(f"trace?{request.url.query}#feedback", 303)


def _trace_page(
    viewer: Viewer, request: Request, refused: tuple[FeedbackInput, str] | None = None
) -> str:
    shelf = _shelf(viewer, request)
    result = _row(shelf, request)
    values = shelf.store.trace(result.sample_id, result.seed)
    if values is None:
        raise HTTPException(404, "nothing ran for this sample: there is no trace")
    shelf.gallery.wait(30)
    media = shelf.gallery.media(result.sample_id)
    if media is None:
        raise HTTPException(
            404, f"the sample's pictures are not here ({shelf.gallery.problem or 'unreadable'})"
        )
    trace = record_from_json(Trace, values)
    extras = Extras(
        command=rerun_command(shelf.store.manifest, result),
        truth=truth_of(result),
        score=result.score,
        back="./",
        record=record_of(shelf.store.folder, result),
        saying=feedback_form(shelf.store.folder, result, f"feedback?{request.url.query}", refused),
    )
    return trace_page(trace, media, replay_all(trace, media, viewer.replayer), extras)


def _small(viewer: Viewer, request: Request) -> Response:
    sample_id, seed = _key(request).values()
    shelf = _shelf(viewer, request)
    jpeg = shelf.gallery.small(str(sample_id), int(seed))
    if jpeg is None:
        raise HTTPException(404 if shelf.gallery.ready else 503, "no picture")
    return Response(
        jpeg, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"}
    )


def _key(request: Request) -> dict[str, str | int]:
    fields = request.query_params
    return {"id": fields.get("id", ""), "seed": whole(fields.get("seed", "0")) or 0}


def _shelf(viewer: Viewer, request: Request) -> ViewedRun:
    number = whole(request.query_params.get("run", "0")) or 0
    if not 0 <= number < len(viewer.shelves):
        raise HTTPException(404, "no such run")
    return viewer.shelves[number]


def _row(shelf: ViewedRun, request: Request) -> SampleResult:
    sample_id, seed = _key(request).values()
    result = shelf.store.row(str(sample_id), int(seed))
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
        low=_share(text("low")),
        high=_share(text("high")),
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


def _share(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None


@dataclass(frozen=True)
class FeedbackInput:
    """Submitted form: the right answer, a comment in words, or both."""

    answer: str = ""
    comment: str = ""


async def read_feedback_form(request: Request) -> FeedbackInput:
    """Read the feedback form of a request.

    Raises:
        HTTPException: the body is too long or not a form.
    """
    fields = await form_of(request, _MOST_BYTES)
    answer, comment = (fields.get(name, "").strip() for name in ("answer", "comment"))
    return FeedbackInput(answer, comment.replace("\r\n", "\n"))


def save_feedback(run: Path, result: SampleResult, form: FeedbackInput) -> str:
    """Store feedback about a result. Return why that failed, or an empty text."""
    try:
        right = feedback.answer_from(form.answer, result) if form.answer else None
        feedback.add_feedback(
            run, feedback.Feedback(result.sample_id, result.seed, right, form.comment)
        )
    except (UsageError, StoreError) as error:
        return str(error)
    return ""


def feedback_form(
    run: Path, result: SampleResult, address: str, refused: tuple[FeedbackInput, str] | None = None
) -> FeedbackForm:
    """Build the feedback form of a result's page.

    Args:
        address: address that takes the form.
        refused: the input that was not stored, and why.
    """
    form, why = refused or (FeedbackInput(), "")
    right_is = feedback.RIGHT_IS.get(result.task, "in words")
    return FeedbackForm(address, right_is, _remarks(run, result), why, form.answer, form.comment)


def _remarks(run: Path, result: SampleResult) -> list[tuple[str, str, str]]:
    """Return the last remarks about a result; none if they cannot be read."""
    try:
        remarks = feedback.read_feedback(run)
    except ViperError:
        return []
    key = (result.sample_id, result.seed)
    own = [remark for remark in remarks if (remark.sample_id, remark.seed) == key]
    latest = own[-_REMARKS_SHOWN:]
    return [(_words(remark, result), remark.comment, remark.given) for remark in latest]


def _words(remark: feedback.Feedback, result: SampleResult) -> str:
    """Return the right answer of a remark in words; empty if it gives none."""
    answer = remark.answer
    if type(answer) is int and result.task == "choice" and 0 <= answer < len(result.options):
        return result.options[answer]
    if answer is None or isinstance(answer, str):
        return answer or ""
    return json.dumps(answer)
