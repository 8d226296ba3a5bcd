"""The page of a review: one case at a time, one key an answer, boxes drawn with the mouse."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from viper.errors import MediaError, StoreError, UsageError
from viper.evaluate.campaign import ProgressBar
from viper.evaluate.reports.page import rendered_page
from viper.jobs.review import Review
from viper.models.media import media_from
from viper.serve.gate import AccessRules
from viper.web.behind_token import behind_token, form_of
from viper.web.pages import embedded

_HERE = Path(__file__).parent

_POLICY = (
    "default-src 'none'; img-src data:; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

# Bytes of the pictures of a case: they load at once on a phone.
_MOST_PICTURE = 1_500_000

# Frames of a clip that are shown, in the order of time.
_FRAMES = 6

# An answer of a page of text, and the id of the case.
_MOST_BYTES = 16_000


def create_review(review: Review, access: AccessRules, progress: ProgressBar) -> Starlette:
    """Build the application. All its routes lie below ``/TOKEN/``."""
    routes = [
        Route("/", partial(_page, review), name="case"),
        Route("/state", partial(_state, review), name="state"),
        Route("/label", partial(_label, review), methods=["POST"], name="label"),
        Route("/undo", partial(_undo, review), methods=["POST"], name="undo"),
        Route("/refit", partial(_refit, review, progress), methods=["POST"], name="refit"),
    ]
    return behind_token(routes, access, _POLICY, _HERE / "review.js")


def _page(review: Review, request: Request, refused: str = "", status: int = 200) -> Response:
    case = review.next()
    pictures = []
    try:
        if case is not None:
            media = media_from(case.label.media)
            if media.video is not None:
                step = max(1, len(media.video) // _FRAMES)
                media = media_from(list(media.video[::step][:_FRAMES]))
            pictures = [*embedded(media, _MOST_PICTURE).values()]
    except MediaError as error:
        refused = f"{error}; skip it"
    labelled = len(review.known().keys() & {each.label.case for each in review.cases})
    page = rendered_page(
        "review.html",
        _HERE,
        title=review.record.query,
        review=review,
        case=case,
        pictures=pictures,
        draws=review.record.task == "ground",
        labelled=labelled,
        estimate=review.estimate(),
        refused=refused,
        record=review.record,
    )
    return HTMLResponse(page, status)


async def _label(review: Review, request: Request) -> Response:
    fields = await form_of(request, _MOST_BYTES)
    try:
        await anyio.to_thread.run_sync(
            review.give, fields.get("case", ""), fields.get("answer", "")
        )
    except (UsageError, StoreError) as error:
        return await anyio.to_thread.run_sync(_page, review, request, str(error), 400)
    return RedirectResponse("./", 303)


async def _undo(review: Review, request: Request) -> Response:
    await form_of(request, _MOST_BYTES)
    await anyio.to_thread.run_sync(review.undo)
    return RedirectResponse("./", 303)


async def _refit(review: Review, progress: ProgressBar, request: Request) -> Response:
    await form_of(request, _MOST_BYTES)
    if not review.known():
        raise HTTPException(409, "no labels")
    review.refit(progress)
    return RedirectResponse("./", 303)


def _state(review: Review, request: Request) -> Response:
    return JSONResponse({"busy": review.is_fitting, "said": review.said})
