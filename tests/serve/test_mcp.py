"""`viper mcp` with the SDK's own client, over standard input and over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests import forked
from tests.processes import descendants
from tests.serve.bench import LEFTMOST, WAIT_S, Writer, png
from tests.strategies.bench import Bench
from viper import Reasoner, load_profile
from viper.embedded import MEDIA
from viper.serve.mcp_server import API_CHARACTERS, create_server
from viper.serve.service import Service
from viper.serve.settings import ServeSettings

COUNT = "def execute_command(image):\n    return len(ImagePatch(image).find('cube'))\n"
TASKS = [
    (COUNT, "table.png"),
    ("def execute_command(image):\n    return ImagePatch(image).exists('cube')\n", "table.png"),
    (LEFTMOST, "table.png"),
    (COUNT.replace("cube", "sphere"), "table.png"),
    (COUNT.replace("cube", "cone"), "cones.png"),
    (
        "def execute_command(image):\n    return ImagePatch(image).simple_query('What is this?')\n",
        "cones.png",
    ),
    (
        "def execute_command(image):\n"
        "    found = ImagePatch(image).find('object')\n"
        "    return max(found, key=lambda each: each.area)\n",
        "cones.png",
    ),
    (
        "def execute_command(image):\n"
        "    return ImagePatch(image).best_text_match(['a cube', 'a photograph of a dog'])\n",
        "table.png",
    ),
    (
        "def execute_command(video, question, possible_answers):\n"
        "    return VideoSegment(video).num_frames\n",
        "clip.mp4",
    ),
    (
        "def execute_command(video, question, possible_answers):\n"
        "    return ImagePatch(VideoSegment(video), 0).exists('cube')\n",
        "clip.mp4",
    ),
]
"""Programs with the medium that each is about."""


@contextmanager
def served_over_http(folder: Path, *options: str, **environment: str) -> Iterator[str]:
    """Run `viper mcp --http` in a process of its own and yield its address."""
    command = forked.viper("mcp", "--http", "--port", "0", *options)
    with subprocess.Popen(
        [*command, "--media-root", str(folder)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "serving on" in line)
            yield line.split()[-1]
        finally:
            process.terminate()
            assert process.wait(WAIT_S) == 0


def over_stdio(folder: Path) -> StdioServerParameters:
    command, *arguments = forked.viper("mcp", "--media-root", folder)
    return StdioServerParameters(command=command, args=arguments, env=dict(os.environ))


async def facts_of_tasks(server: Any) -> list[tuple[Any, Any]]:
    async with Client(server) as client:
        facts = []
        for code, name in TASKS:
            reply = await client.call_tool("run_program", {"code": code, "media": [name]})
            facts.append((reply.structured_content, reply.content[0].text))
        return facts


@pytest.fixture(scope="module")
def answers() -> list[Any]:
    """What the library itself answers to the ten tasks."""
    with Reasoner(load_profile("embedded")) as reasoner:
        return [reasoner.execute(code, str(MEDIA / name)).answer for code, name in TASKS]


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_sdk_s_client_solves_ten_tasks(transport: str, answers: list[Any]) -> None:
    folder = MEDIA
    if transport == "stdio":
        replies = asyncio.run(facts_of_tasks(over_stdio(folder)))
    else:
        with served_over_http(folder) as address:
            replies = asyncio.run(facts_of_tasks(address))
    assert len(replies) == len(answers) == 10
    for (facts, text), answer in zip(replies, answers, strict=True):
        if answer.box is None:
            assert facts["answer"] == answer.value
            assert f"answer: {facts['answer']}".lower() in text.lower()
        else:
            assert facts["box"] == [round(side, 1) for side in answer.box]
            assert str(facts["box"]) in text


@asynccontextmanager
async def in_process(
    folder: Path, program: str = LEFTMOST, **settings: Any
) -> AsyncIterator[tuple[Client, Bench]]:
    """A client of a server in this process, over fake models and a scripted writer."""
    page = {"page": lambda trace, media, command: f"<p>{trace.query.text}</p>"}
    with Bench(Writer(program), parts=page) as bench:  # type: ignore[arg-type]
        service = Service(bench.reasoner, ServeSettings(media_roots=(folder,), **settings))
        async with Client(create_server(service)) as client:
            yield client, bench


def calls(
    folder: Path, use: Callable[[Client], Awaitable[Any]], program: str = LEFTMOST, **settings: Any
) -> Any:
    async def main() -> Any:
        async with in_process(folder, program, **settings) as (client, _):
            return await use(client)

    return asyncio.run(main())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.png").write_bytes(png())
    (tmp_path / "secret.png").write_bytes(png())
    (root / "link.png").symlink_to(tmp_path / "secret.png")
    return root


def test_tools_are_four_and_say_that_they_change_nothing(folder: Path) -> None:
    tools = calls(folder, lambda client: client.list_tools()).tools
    assert [tool.name for tool in tools] == ["api", "run_program", "look", "ask"]
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert all(not tool.annotations.destructive_hint for tool in tools)


@pytest.mark.parametrize("query", ["", "how many cubes are left of the ball?", "cube " * 700])
def test_the_api_fits_1500_tokens(folder: Path, query: str) -> None:
    reply = calls(folder, lambda client: client.call_tool("api", {"query": query}))
    text = reply.content[0].text
    assert "ImagePatch.find(object_name)" in text
    assert len(text) <= API_CHARACTERS


def test_the_api_shows_in_full_what_fits_the_question(folder: Path) -> None:
    query = {"query": "Who watches before the event?"}
    text = calls(folder, lambda client: client.call_tool("api", query)).content[0].text
    assert "def get_video_segment_before_event(self" in text


def test_ask_reports_trials_and_returns_answer_program_picture_and_page(folder: Path) -> None:
    progress: list[str | None] = []

    async def note(_: float, __: float | None, message: str | None) -> None:
        progress.append(message)

    async def use(client: Client) -> Any:
        reply = await client.call_tool(
            "ask", {"query": "the leftmost cube", "media": ["a.png"]}, progress_callback=note
        )
        page = await client.read_resource(reply.content[2].uri)
        return reply, page.contents[0]

    reply, page = calls(folder, use)
    text, picture, _ = reply.content
    assert not reply.is_error
    assert progress == ["trial 1: answered"]
    assert text.text.startswith("answer: a box\nbox: [10.0, ")
    assert LEFTMOST.strip() in text.text
    assert picture.mime_type == "image/jpeg"
    assert page.mime_type == "text/html"
    assert "the leftmost cube" in page.text


def test_a_failure_names_kind_and_line(folder: Path) -> None:
    code = {"code": "def execute_command(image):\n    return 1 / 0\n", "media": ["a.png"]}
    reply = calls(folder, lambda client: client.call_tool("run_program", code))
    assert reply.is_error
    assert reply.structured_content["failure"] == "runtime"
    assert reply.structured_content["line"].strip() == "return 1 / 0"


def test_look_enlarges_a_region(folder: Path) -> None:
    arguments = {"media": "a.png", "box": [10, 20, 30, 40], "size": 200}
    reply = calls(folder, lambda client: client.call_tool("look", arguments))
    assert reply.structured_content == {
        "pixels": "100 x 60",
        "shown": [10, 20, 30, 40],
        "scale": 10.0,
    }


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("look", {"media": "../secret.png"}, "media: '../secret.png': no such file"),
        ("look", {"media": "/etc/passwd"}, "no such file under a media root"),
        ("look", {"media": "link.png"}, "no such file under a media root"),
        ("look", {"media": "https://example.org/a.png"}, "no such file under a media root"),
        ("look", {"media": "file:///etc/passwd"}, "no such file under a media root"),
        ("look", {"media": "data:image/png;base64,AA=="}, "no such file under a media root"),
        ("look", {"media": "a.png", "box": [90, 0, 10, 10]}, "usage: box"),
        ("look", {"media": "a.png", "frame": 1}, "frame 1 of a.png: expected 0 to 0"),
        ("look", {"media": "a.png", "size": 5_000}, "size"),
        ("ask", {"query": " ", "media": ["a.png"]}, "usage: query"),
        ("ask", {"query": "x", "media": ["a.png"] * 9}, "9 media; at most 8"),
        ("run_program", {"code": "x" * 70_000, "media": ["a.png"]}, "usage: program"),
    ],
)
def test_refusals_are_typed(
    folder: Path, tool: str, arguments: dict[str, Any], message: str
) -> None:
    reply = calls(folder, lambda client: client.call_tool(tool, arguments))
    assert reply.is_error
    assert message in reply.content[0].text


def test_whole_paths_under_a_root_are_read(folder: Path) -> None:
    whole = {"media": str(folder / "a.png")}
    assert not calls(folder, lambda client: client.call_tool("look", whole)).is_error


@pytest.mark.parametrize("handle", ["image1", "image0#1", "video0#0", "edit0", "../secret.png"])
def test_a_program_reaches_no_other_handle(folder: Path, handle: str) -> None:
    code = (
        "def execute_command(image):\n"
        f"    image.image_id = {handle!r}\n"
        "    return ImagePatch(image).simple_query('what color is this?')\n"
    )
    arguments = {"code": code, "media": ["a.png"]}
    reply = calls(folder, lambda client: client.call_tool("run_program", arguments))
    assert reply.is_error


def test_an_unknown_trace_is_refused(folder: Path) -> None:
    async def use(client: Client) -> str:
        with pytest.raises(MCPError) as caught:
            await client.read_resource("viper://trace/abc")
        return str(caught.value)

    assert "no such trace" in calls(folder, use)


def test_a_full_queue_is_refused(folder: Path) -> None:
    writer = Writer(held=True)

    async def main() -> Any:
        with Bench(writer) as bench:  # type: ignore[arg-type]
            settings = ServeSettings(media_roots=(folder,), workers=1, queue=0)
            service = Service(bench.reasoner, settings)
            async with Client(create_server(service)) as client:
                ask = {"query": "the leftmost cube", "media": ["a.png"]}
                first = asyncio.create_task(client.call_tool("ask", ask))
                await asyncio.to_thread(writer.asked.wait, WAIT_S)
                second = await client.call_tool("ask", ask)
                writer.released.set()
                return await first, second

    first, second = asyncio.run(main())
    assert not first.is_error
    assert "queue_full: all 1 places are taken" in second.content[0].text


def test_the_deadline_ends_a_run(folder: Path) -> None:
    slow = {"code": "def execute_command(image):\n    while True:\n        pass\n"}
    arguments = {**slow, "media": ["a.png"]}
    reply = calls(folder, lambda client: client.call_tool("run_program", arguments), deadline_s=0.3)
    assert "deadline: no answer within 0.3 s" in reply.content[0].text


def test_http_needs_the_token(folder: Path) -> None:
    token = "a-token-of-some-length"

    async def tools(address: str, headers: dict[str, str]) -> int:
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(address, http_client=http)
            async with Client(transport) as client:
                return len((await client.list_tools()).tools)

    with served_over_http(folder, VIPER_SERVE_TOKEN=token) as address:
        right = asyncio.run(tools(address, {"Authorization": f"Bearer {token}"}))
        reply = httpx2.post(address, json={"jsonrpc": "2.0", "method": "ping", "id": 1})
        assert httpx2.post(address, headers={"Origin": "http://evil"}).status_code == 401
    assert right == 4
    assert reply.status_code == 401


def test_without_a_token_foreign_pages_are_refused(folder: Path) -> None:
    with served_over_http(folder) as address:
        foreign = httpx2.post(address, headers={"Origin": "http://evil.example"})
        renamed = httpx2.post(address, headers={"Host": "evil.example"})
    assert (foreign.status_code, renamed.status_code) == (403, 403)


CLIENT = """
import asyncio, sys
from mcp import Client
from mcp.client.stdio import StdioServerParameters

async def main():
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "viper", "mcp", "--media-root", sys.argv[1]]
    )
    async with Client(server) as client:
        code = "def execute_command(image):\\n    return 1\\n"
        await client.call_tool("run_program", {"code": code, "media": ["a.png"]})
        print("ready", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def test_a_killed_client_leaves_no_child(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(folder)], stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        children = descendants(client.pid)
        assert len(children) > 1  # the server and the sandbox
        client.send_signal(signal.SIGKILL)
    # The server ends once its models, which load in the background, are loaded.
    deadline = time.monotonic() + 6 * WAIT_S
    while alive := [pid for pid in children if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)


def test_the_command_wants_a_root() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "viper", "mcp"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "no --media-root; name the folder" in result.stderr


def test_fields_of_a_document_are_asked_for(folder: Path) -> None:
    code = "def execute_command(image, fields):\n    return {name: '5.00' for name in fields}\n"
    call = {"code": code, "media": ["a.png"], "fields": ["total:money"]}
    reply = calls(folder, lambda client: client.call_tool("run_program", call))
    (total,) = reply.structured_content["answer"]
    assert (total["field"], total["value"]) == ("total", "5.00")
    call = {"query": "read it", "media": ["a.png"], "fields": ["total:mony"]}
    reply = calls(folder, lambda client: client.call_tool("ask", call))
    assert reply.is_error and "did you mean money" in reply.content[0].text


def test_marked_boxes_reach_programs(folder: Path) -> None:
    code = "def execute_command(image, marked):\n    return len(find_like(marked))\n"
    arguments = {"code": code, "media": ["a.png"], "like": [[1, 2, 30, 40], [50, 5, 60, 20]]}
    reply = calls(folder, lambda client: client.call_tool("run_program", arguments))
    assert not reply.is_error and "2" in reply.content[0].text
    asked = {"query": "find all of these", "media": ["a.png"], "like": [[1, 2, 300, 40]]}
    reply = calls(folder, lambda client: client.call_tool("ask", asked))
    assert reply.is_error and "100 x 60 pixels" in reply.content[0].text
