"""The page of ``viper watch --live``: the last frame, what the program saw in it, and the events.

The page asks for :meth:`Live.state` each second. Lines and zones that are drawn on the frame become
lines of a program, in its coordinates: pixels from the bottom-left corner.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from viper.errors import PARSE_ERRORS
from viper.evaluate.reports.page import rendered_page
from viper.models.media import media_from
from viper.run_result import RunResult
from viper.schema import ToolCall
from viper.serve.gate import AccessRules
from viper.watch.events import PAGES, Event, EventLog
from viper.watch.windows import Window
from viper.web.behind_token import behind_token
from viper.web.pages import embedded

_HERE = Path(__file__).parent

_POLICY = (
    "default-src 'none'; img-src data:; media-src 'self'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# An evidence page brings its own script and styles; it must not reach this page.
_EVIDENCE_POLICY = "sandbox allow-scripts; frame-ancestors 'none'"

# Bytes of a frame, which is sent once a second.
_PICTURE_BYTES = 150_000

# Events beside the frame, the newest first.
_EVENTS = 20

_EVIDENCE = re.compile(r"[0-9]{12,}(-[0-9]+)?\.(html|mp4)")

# A track is drawn at a frame if it has a box within this time of it, in seconds.
_NEAR_S = 0.6


@dataclass
class Live:
    """What the page shows, of one watch."""

    log: EventLog
    title: str
    program: str
    events: deque[Event] = field(init=False)
    _seen: tuple[Window, RunResult] | None = None

    def __post_init__(self) -> None:
        self.events = deque(self.log.latest(_EVENTS), _EVENTS)

    def look(self, window: Window, result: RunResult) -> None:
        """Show a window from now on; nothing is computed before a page asks."""
        self._seen = window, result

    def state(self) -> dict[str, Any]:
        """Return what the page draws; boxes and shapes from the bottom-left corner, in pixels."""
        state = self.log.state
        shown: dict[str, Any] = {
            "watched": round(state.clock + state.read, 1), "failed": state.failed,
            "waiting": self.log.waiting > 0, "events": [asdict(e) for e in list(self.events)],
        }  # fmt: skip
        if self._seen is None:
            return shown
        window, result = self._seen
        media = window.media
        if media.video is None:
            frame, name = media.images[0], "image0"
        else:
            frame, name = media.video[-1], f"video0#{len(media.video) - 1}"
        (picture,) = embedded(media_from(frame), _PICTURE_BYTES).values()
        last = result.trace.trials[-1].tool_calls if result.trace.trials else ()
        time = window.start if media.video is None else media.times[-1]
        answer = None if result.answer is None else result.answer.value
        return shown | {
            "source": window.path.name, "time": round(time, 2), "answer": str(answer),
            "frame": picture.address, "height": frame.shape[0], "width": frame.shape[1],
            "boxes": [box for call in last for box in _boxes(call, name, time)],
            "shapes": shapes(self.program),
        }  # fmt: skip


def shapes(program: str) -> list[list[tuple[float, float]]]:
    """Return the lines and zones that a program has as literals: tuples of two points or more."""
    try:
        nodes = [n for n in ast.walk(ast.parse(program)) if isinstance(n, ast.Tuple | ast.List)]
    except PARSE_ERRORS:
        return []
    found = []
    for node in nodes:
        try:
            points = [(float(x), float(y)) for x, y in ast.literal_eval(node)]
        except (TypeError, ValueError, OverflowError, RecursionError):
            continue
        if len(points) > 1 and all(map(isfinite, chain(*points))):
            found.append(points)
    return found


def _boxes(call: ToolCall, picture: str, time: float) -> list[dict[str, Any]]:
    """Return the boxes that a call of a tool found in a picture, with what it looked for."""
    name = next((arg for arg in call.args if isinstance(arg, str)), call.tool)
    result: Any = call.result
    if isinstance(result, dict) and isinstance(result.get("tracks"), list):
        found = list[dict[str, Any]]()
        for number, track in enumerate(result["tracks"]):
            at, *box = min(track, key=lambda each: abs(result["times"][each[0]] - time))
            if abs(result["times"][at] - time) <= _NEAR_S:
                way = [[(b[1] + b[3]) / 2, (b[2] + b[4]) / 2] for b in track]
                found.append({"box": box, "name": f"{number + 1}", "way": way})
        return found
    patches = result if isinstance(result, list) else [result]
    return [
        {"box": patch["fields"][1:5], "name": name, "way": []}
        for patch in patches
        if isinstance(patch, dict)
        and patch.get("kind") == "patch"
        and patch["fields"][0] == picture
    ]


def create_live(live: Live, access: AccessRules) -> Starlette:
    """Build the application. All its routes lie below ``/TOKEN/``."""
    routes = [
        Route("/", partial(_page, live)),
        Route("/state", lambda request: JSONResponse(live.state())),
        Route(f"/{PAGES}/{{name}}", partial(_evidence, live)),
    ]
    return behind_token(routes, access, _POLICY, _HERE / "live.js")


def _page(live: Live, request: Request) -> Response:
    page = rendered_page("live.html", _HERE, title=live.title, program=live.program)
    return HTMLResponse(page)


def _evidence(live: Live, request: Request) -> Response:
    name = request.path_params["name"]
    path = live.log.folder / PAGES / name
    if not _EVIDENCE.fullmatch(name) or path.is_symlink() or not path.is_file():
        raise HTTPException(404, "no such event")
    headers = {"Content-Security-Policy": _EVIDENCE_POLICY} if path.suffix == ".html" else None
    return FileResponse(path, headers=headers)
