"""The MCP server: an agent reads the API, sends a program, and gets its answer with a picture.

A model writes one program against a typed API instead of calling a tool for each step. Results
begin with facts as text, because many clients do not show pictures to their model.

Source: Model Context Protocol, versions 2025-11-25 and 2026-07-28.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import math
import secrets
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from cachetools import LRUCache
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, ContentBlock, ImageContent, ResourceLink, TextContent
from mcp_types import ToolAnnotations as Annotations
from pydantic import Field
from starlette.types import ASGIApp

from viper.draw import draw_answer
from viper.errors import UsageError
from viper.models.libraries import Image
from viper.models.media import Media
from viper.prompting.router import overview
from viper.prompting.template import MODULE_NAMES
from viper.run_result import RunResult
from viper.schema import Trial
from viper.serve import forms
from viper.serve.gate import AccessRules, Gate
from viper.serve.replies import error_body, is_internal
from viper.serve.service import Edge, Service

LOG = logging.getLogger("viper.serve")

PATH = "/mcp"

# Length of the text of ``api``: about 1,500 tokens of a current language model, little beside its
# context, and enough for a line on each function and the fitting ones in full.
API_CHARACTERS = 5_000

# Bounds of the longer side of a picture in a result, in pixels: clients scale larger ones down, and
# smaller ones show nothing.
MAX_SIDE, MIN_SIDE = 1_024, 64

# Number of characters of one fact: programs control the length of an answer.
MAX_TEXT = 4_000

# Memory for the media of the runs whose trace page can be read: those of seven
# photographs of 12 megapixels, or of many small ones.
TRACE_BYTES = 256 << 20

_INSTRUCTIONS = (
    "Answers questions about pictures and video clips by Python programs. Call `api` with the "
    "question to read the functions, write one program for the whole question, and call "
    "`run_program`. `look` shows a picture or an enlarged region. `ask` lets this server write the "
    "program. Name files by their path under a media root; URLs are refused."
)

_RULES = """\
A program is one Python function that returns the answer:
execute_command(image), execute_command(image_list) for several pictures, or
execute_command(video, question, possible_answers) for a clip.

def execute_command(image):
    cubes = ImagePatch(image).find("red cube")
    if not cubes:
        return "no"
    return cubes[0].simple_query("What color is this?")

Coordinates in programs are pixels from the lower left corner: x grows to the right, y upwards.
A patch has left, lower, right, upper, width, height, horizontal_center and vertical_center.
find returns [] if nothing was found. Return a patch, a short text, a number or a truth value.
VideoSegment(video) has start, end and num_frames; ImagePatch(segment, frame) is one frame.
Programs import only {modules}.

Functions, those that fit the question again in full below:
"""

_READ_ONLY = Annotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)

_Paths = Annotated[
    list[str],
    Field(min_length=1, description="Paths of one or more pictures, or of one video clip."),
]
_Query = Annotated[str, Field(description="The question, or the object to find.")]
_Options = Annotated[list[str], Field(description="Candidate answers of a multiple choice.")]
_Like = Annotated[
    list[list[float]],
    Field(description="Boxes [x0, y0, x1, y1] of up to four examples; programs get `marked`."),
]
_Fields = Annotated[
    list[str], Field(description='Fields to read from a document, each as "total:money".')
]


def create_server(service: Service) -> MCPServer[Any]:
    """Build the MCP server of a service. The caller starts the service's warm-up."""
    server: MCPServer[Any] = MCPServer(
        "viper",
        title="viper: visual reasoning by programs",
        instructions=_INSTRUCTIONS,
        version=version("viper-reasoner"),
        log_level="WARNING",
    )
    tools = VisionTools(service)
    for tool in (tools.api, tools.run_program, tools.look, tools.ask):
        server.add_tool(tool, annotations=_READ_ONLY)
    page = server.resource("viper://trace/{trace_id}", name="trace", mime_type="text/html")
    page(tools.trace)
    return server


def create_mcp_app(server: MCPServer[Any], service: Service) -> ASGIApp:
    """Build the application of the streamable HTTP transport, with the service's access control."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        max_request_body_size=service.settings.max_upload_bytes,
        # The gate checks Host and Origin, and a token where other machines can call.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return Edge(Gate(app, AccessRules.to_service(service.settings)), service)


def serve_stdio(server: MCPServer[Any], service: Service) -> None:
    """Serve the client that started this process, until it closes standard input.

    Raises:
        KeyboardInterrupt: Ctrl-C; runs are cancelled.
    """

    async def serve() -> None:
        try:
            await server.run_stdio_async()
        finally:
            await service.drain(0.0)

    service.warmup.start()
    asyncio.run(serve())


class VisionTools:
    """Tools of the server, each a public coroutine whose docstring the client's model reads."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._results: LRUCache[str, RunResult] = LRUCache(TRACE_BYTES, _media_bytes)

    async def api(self, query: Annotated[str, Field(description="The question.")] = "") -> str:
        """Return the functions that programs may call; those that fit the query come in full."""
        with _as_tool_errors():
            components = self._service.reasoner.components
            names = components.library.api_set(components.settings.api)
            entries = {
                (entry.owner, entry.name): entry
                for task in ("question", "ground", "choice")
                for entry in names.entries(task)
                if entry.needs in ("", *components.toolbox.models.roles)
            }
            rules = _RULES.format(modules=MODULE_NAMES)
            return rules + overview(tuple(entries.values()), query, API_CHARACTERS - len(rules))

    async def run_program(
        self,
        code: Annotated[str, Field(description="Python that defines execute_command.")],
        media: _Paths,
        ctx: Context[Any, Any],
        query: Annotated[str, Field(description="Text that the program gets as question.")] = "",
        options: _Options = [],  # noqa: B006 - the schema needs the default, nothing changes it
        like: _Like = [],  # noqa: B006
        fields: _Fields = [],  # noqa: B006
    ) -> CallToolResult:
        """Run a Python program on the media in a sandbox; vision models answer its calls.

        Call `api` first for the functions. The result holds the answer or the failure with its
        line, what was printed, and a picture with the answer. Boxes are [x0, y0, x1, y1] in
        pixels from the top-left corner.
        """
        asked = {"query": query, "options": options, "like": like, "fields": fields}
        return await self._run(forms.ExecForm, {**asked, "program": code}, media, ctx)

    async def ask(
        self,
        query: _Query,
        media: _Paths,
        ctx: Context[Any, Any],
        options: _Options = [],  # noqa: B006
        like: _Like = [],  # noqa: B006
        fields: _Fields = [],  # noqa: B006
    ) -> CallToolResult:
        """Answer a question about the media by the strategy of this server's profile.

        If a program answered, the result also holds it; `run_program` can run it again or on other
        media.
        """
        asked = {"query": query, "options": options, "like": like, "fields": fields}
        return await self._run(forms.RUN_FORM, asked, media, ctx)

    async def look(
        self,
        media: Annotated[str, Field(description="Path of a picture or clip.")],
        box: Annotated[
            list[float] | None,
            Field(description="[x0, y0, x1, y1] in pixels from the top-left corner."),
        ] = None,
        size: Annotated[int, Field(ge=MIN_SIDE, le=MAX_SIDE)] = 768,
        frame: Annotated[int, Field(ge=0, description="Frame of a clip.")] = 0,
    ) -> CallToolResult:
        """Show a picture, or the region in a box enlarged, with `size` pixels on its longer side.

        Ask for a small region to see small things.
        """
        with _as_tool_errors():
            intake = forms.media_of(self._names([media]), self._service.settings)
            slot = self._service.admission.enter()
            try:
                await slot.turn()
                facts, picture = await asyncio.to_thread(
                    lambda: _region(intake.load(), media, box, size, frame)
                )
            finally:
                slot.leave()
            return _reply(facts, picture)

    def trace(self, trace_id: str) -> str:
        """Return the page of a run: program, calls with their pictures, values line by line."""
        result = self._results.get(trace_id)
        if result is None or result.page is None:
            raise ResourceNotFoundError("no such trace here; the server keeps only the latest runs")
        return result.page(result.trace, result.media, "")

    async def _run(
        self,
        form: type[forms.Form],
        asked: dict[str, Any],
        media: list[str],
        ctx: Context[Any, Any],
    ) -> CallToolResult:
        with _as_tool_errors():
            values = {**asked, "path": self._names(media)}
            result = await self._result(forms.checked(form, values), ctx)

            def drawn() -> Any:
                picture = draw_answer(result.trace, result.media, result.picture)
                picture.thumbnail((MAX_SIDE, MAX_SIDE))
                return picture

            picture = None if result.answer is None else await asyncio.to_thread(drawn)
            link = None
            if result.page is not None and _media_bytes(result) <= TRACE_BYTES:
                name = secrets.token_urlsafe(16)  # nobody can guess it
                self._results[name] = result
                link = ResourceLink(
                    uri=f"viper://trace/{name}",
                    name="trace",
                    title="How the answer came about",
                    mime_type="text/html",
                )
            return _reply(_facts(result), picture, link, result.answer is None)

    async def _result(self, form: Any, ctx: Context[Any, Any]) -> RunResult:
        """Answer the request in a job of the service; report each trial as progress."""
        service, settings = self._service, self._service.settings
        intake = forms.media_of(form.path, settings)
        with ExitStack() as cleanup:
            slot = service.admission.enter()
            cleanup.callback(slot.leave)
            job = service.start_job(slot, form.work(service.reasoner, intake), cleanup)
        trials = 0
        with job.limited(settings.deadline_s, settings.deadline_s):
            while isinstance(event := await job.next(), Trial):
                trials += 1
                service.metrics.count_event(event)
                outcome = "answered" if event.failure is None else event.failure.kind
                await ctx.report_progress(trials, message=f"trial {trials}: {outcome}")
        if isinstance(event, BaseException):
            raise event
        service.metrics.count_event(event)
        return event

    def _names(self, paths: list[str]) -> list[str]:
        """Return the paths relative to a media root; agents on this machine name whole paths."""
        roots = [root.resolve() for root in self._service.settings.media_roots]
        names = []
        for name in paths:
            above = next(filter(Path(name).is_relative_to, roots), None)
            names.append(name if above is None else str(Path(name).relative_to(above)))
        return names


@contextmanager
def _as_tool_errors() -> Iterator[None]:
    """Report errors as ``code: message``; those of the server itself only to its log."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the boundary of one call
        request_id = secrets.token_hex(8)
        if is_internal(error):
            LOG.error("call %s failed", request_id, exc_info=error)
        detail = error_body(error, request_id)["error"]
        raise ToolError(f"{detail['code']}: {detail['message']}") from None


def _facts(result: RunResult) -> dict[str, Any]:
    """Return the facts of a run for the client's model, without empty ones."""
    trace = result.trace
    answer, failure, trial = trace.answer, trace.failure, trace.answering
    facts: dict[str, Any] = {}
    if answer is not None:
        facts |= {
            "answer": answer.value if answer.box is None else "a box",
            "box": None if answer.box is None else [round(side, 1) for side in answer.box],
            "image": answer.image_index if len(result.media.images) > 1 else None,
            "confidence": answer.confidence,
        }
    elif failure is not None:
        facts |= {"failure": failure.kind, "message": failure.message, "line": failure.source_line}
    facts["warnings"] = [warning.text for warning in trace.warnings]
    facts["printed"] = trial.stdout if trial else ""
    facts["program"] = trace.program if trace.strategy != "exec" else ""
    facts["calls"] = [call.tool for call in trace.tool_calls]
    return {name: value for name, value in facts.items() if value not in (None, "", [])}


def _region(
    media: Media, name: str, box: list[float] | None, size: int, frame: int
) -> tuple[dict[str, Any], Any]:
    """Return facts about a region, and the region as a PIL picture.

    Raises:
        UsageError: the medium has no such frame, or the box lies outside.
    """
    frames = media.images if media.video is None else media.video
    if frame >= len(frames):
        raise UsageError(f"frame {frame} of {name}: expected 0 to {len(frames) - 1}")
    picture = Image.fromarray(frames[frame])
    sides = [0.0, 0.0, *picture.size] if box is None else box
    if len(sides) != 4 or not all(map(math.isfinite, sides)):
        raise UsageError(f"box {sides}: expected four numbers [x0, y0, x1, y1]")
    x0, y0 = (max(0, math.floor(side)) for side in sides[:2])
    x1, y1 = (min(side, math.ceil(end)) for side, end in zip(picture.size, sides[2:], strict=True))
    if x0 >= x1 or y0 >= y1:
        raise UsageError(
            f"box {sides}: nothing of {name}, which has {picture.width} x {picture.height} pixels"
        )
    scale = size / max(x1 - x0, y1 - y0)
    shape = max(1, round((x1 - x0) * scale)), max(1, round((y1 - y0) * scale))
    facts: dict[str, Any] = {"pixels": f"{picture.width} x {picture.height}"}
    if media.video is not None:
        facts["frame"] = f"{frame} of {len(frames)}"
    facts |= {"shown": [x0, y0, x1, y1], "scale": round(scale, 2)}
    return facts, picture.resize(shape, Image.Resampling.LANCZOS, (x0, y0, x1, y1))


def _reply(
    facts: dict[str, Any], picture: Any, link: ResourceLink | None = None, is_error: bool = False
) -> CallToolResult:
    lines = []
    for name, value in facts.items():
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        cut = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text):,} characters)"
        lines.append(f"{name}: {cut}" if "\n" not in cut else f"{name}:\n{cut}")
    content: list[ContentBlock] = [TextContent(text="\n".join(lines))]
    if picture is not None:
        stream = io.BytesIO()
        picture.save(stream, "JPEG", quality=90)
        data = b64encode(stream.getvalue()).decode("ascii")
        content.append(ImageContent(data=data, mime_type="image/jpeg"))
    if link is not None:
        content.append(link)
    return CallToolResult(content=content, structured_content=facts, is_error=is_error)


def _media_bytes(result: RunResult) -> int:
    media = result.media
    arrays = [*media.images, *([] if media.video is None else [media.video])]
    return sum(array.nbytes for array in arrays) or 1
