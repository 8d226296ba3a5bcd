"""The study as a web application: a page made on the server, forms, no script.

A participant is known by a random id in a cookie, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from viper.errors import ViperError
from viper.evaluate.reports.page import rendered_page
from viper.serve.gate import AccessRules
from viper.strategies.seek.graph import ACTIONS
from viper.web.behind_token import behind_token, form_of
from viper.web.pages import embedded
from viper_lab.study.sessions import ParticipantState, Sessions, is_participant, new_participant

_HERE = Path(__file__).parent

COOKIE = "viper-study"
# Characters of what a participant writes.
WORDS = 2_000

_MOST_BYTES = 16 * WORDS
_MOST_PICTURE = 1_000_000
_FORMS = ("take", "judge", "back", "end")

_POLICY = (
    "default-src 'none'; img-src data:; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)


def create_study(sessions: Sessions, access: AccessRules) -> Starlette:
    """Create the application. All its pages are below ``/TOKEN/``."""
    forms = [
        Route(f"/{name}", partial(_sent, sessions, name), methods=["POST"], name=name)
        for name in _FORMS
    ]
    page = Route("/", partial(_page, sessions), name="study")
    return behind_token([page, *forms], access, _POLICY, _HERE / "study.css")


async def _page(sessions: Sessions, request: Request) -> Response:
    participant = _participant(request)
    identifier = participant or new_participant()
    html = await anyio.to_thread.run_sync(_html, sessions, identifier)
    response = HTMLResponse(html)
    if not participant:
        response.set_cookie(
            COOKIE, identifier, httponly=True, samesite="strict", path=request.url.path
        )
    return response


def _html(sessions: Sessions, participant: str) -> str:
    state = sessions.state(participant)
    with state.lock:
        message, state.message = state.message, ""
        pictures = embedded(state.media, _MOST_PICTURE) if state.media is not None else {}
        return rendered_page(
            "study.html",
            _HERE,
            state=state,
            search=state.search,
            message=message,
            total=len(state.order),
            pictures=list(pictures.values()),
            box=_box(state),
            actions=ACTIONS,
            longest=WORDS,
        )


def _box(state: ParticipantState) -> tuple[float, ...] | None:
    """Return the box of the object in view, in pixels from the top-left corner."""
    if state.search is None or state.search.now.focus is None:
        return None
    region = state.search.tools.session.region(state.search.now.focus)
    return tuple(map(float, region.box))


async def _sent(sessions: Sessions, name: str, request: Request) -> Response:
    participant = _participant(request)
    if not participant:
        raise HTTPException(400, "this page needs its cookie; load the page again")
    fields = await form_of(request, _MOST_BYTES)

    def field(name: str) -> str:
        return " ".join(fields.get(name, "").split())[:WORDS]

    await anyio.to_thread.run_sync(_carry_out, sessions, participant, name, field)
    return RedirectResponse("./", 303)


def _carry_out(sessions: Sessions, person: str, name: str, field: Callable[[str], str]) -> None:
    state = sessions.state(person)
    with state.lock:
        search = state.search
        if search is None:
            return
        try:
            if name == "take":
                search.take(field("action"), field("words"))
            elif name == "judge":
                search.judge(field("worth"), field("told"))
            elif name == "back":
                search.back()
            else:
                sessions.end(state, field("found") == "yes", field("answer"))
        except ViperError as error:
            state.message = str(error)


def _participant(request: Request) -> str:
    cookie = request.cookies.get(COOKIE, "")
    return cookie if is_participant(cookie) else ""
