"""Streams of real servers are watched as files are, and broken ones end in a line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import av
import pytest

from tests.watch.test_watching import FLASHES, lit_video, watched
from viper.errors import MediaError, UsageError
from viper.models.decoding import decode
from viper.reasoner import Reasoner
from viper.watch import recording
from viper.watch.recording import LOGIN, Recorded, Recorder, is_stream

# From when to when the light is on. Files of the recording end at 4, 8, 12 … seconds.
LIT = [(3.5, 6.5), (11.9, 12.6), (16.0, 17.0), (23.0, 30.0)]

Reply = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 seconds as an MPEG transport stream, which may begin a frame each second."""
    folder = tmp_path_factory.mktemp("stream")
    video = lit_video(folder / "light.mp4", LIT, 30)
    path = folder / "light.ts"
    with av.open(str(video)) as source, av.open(str(path), "w", format="mpegts") as target:
        track = target.add_stream("libx264", rate=8)
        track.width = track.height = 32
        track.pix_fmt = "yuv420p"
        track.options = {"g": "8", "bf": "2", "x264-params": "scenecut=0"}
        for frame in source.decode(video=0):
            frame.pict_type = 0  # the encoder decides
            target.mux(track.encode(frame))
        target.mux(track.encode())
    return path


@pytest.fixture
def serve() -> Iterator[Callable[[Reply], str]]:
    servers: list[ThreadingHTTPServer] = []

    def served(reply: Reply) -> str:
        handler = type("Handler", (BaseHTTPRequestHandler,), {
            "do_GET": reply, "log_message": lambda *_: None, "wbufsize": 0,
        })  # fmt: skip
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/live.ts"

    yield served
    for server in servers:
        server.shutdown()
        server.server_close()


def sends(data: bytes) -> Reply:
    """Replies with these bytes."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(data)

    return reply


def recorded(
    reasoner: Reasoner, address: str, out: Path, words: str = "while it is light", **changes: Any
) -> list[dict[str, Any]]:
    """Watch a stream to its end; return the rows."""
    once, said = changes.get("once", True), changes.get("say", lambda text: None)
    out.mkdir(exist_ok=True)
    last = (
        json.loads((out / "state.json").read_text())["file"]
        if (out / "state.json").exists()
        else ""
    )
    recorder = Recorder(
        address, out / "recording", last, lead=changes.pop("lead", 0.0), segment=4.0, once=once,
        say=said,
    )  # fmt: skip
    try:
        return watched(reasoner, out / "recording", out, words, recorder=recorder, **changes)
    finally:
        recorder.close()


def test_a_stream_has_the_events_of_its_file(
    reasoner: Reasoner, stream: Path, serve: Callable[[Reply], str], tmp_path: Path
) -> None:
    rows = recorded(reasoner, serve(sends(stream.read_bytes())), tmp_path / "out")
    of_file = watched(reasoner, stream, tmp_path / "file", "while it is light")
    assert [(row["kind"], row["clock"]) for row in rows] == [
        (row["kind"], row["clock"]) for row in of_file
    ]
    assert len(rows) == 7 and not [*(tmp_path / "out" / "recording").iterdir()]
    assert all(row["utc"].startswith("20") for row in rows)
    clip = decode(tmp_path / "out" / rows[2]["clip"])  # of 11.9 to 12.6 s
    assert {bool(frame.mean() > 128) for frame in clip.pixels} == {True, False}


@pytest.mark.parametrize("every", [1.0, 5.0])
def test_windows_slide_over_the_files_of_a_stream(
    reasoner: Reasoner, stream: Path, serve: Callable[[Reply], str], tmp_path: Path, every: float
) -> None:
    """What begins where two files meet is seen once, with the seconds around it."""
    windows: list[Any] = []
    rows = recorded(
        reasoner, serve(sends(stream.read_bytes())), tmp_path / "out", lead=2.0, program=FLASHES,
        every=every, on_window=windows.append,
    )  # fmt: skip
    assert [row["clock"] for row in rows] == pytest.approx([3.5, 11.9, 16, 23], abs=0.2)
    assert sum(window.end - window.start for window in windows) == pytest.approx(30, abs=0.2)


def test_a_broken_stream_is_taken_up_again_and_said_once(
    reasoner: Reasoner, stream: Path, serve: Callable[[Reply], str], tmp_path: Path
) -> None:
    data, calls, said = stream.read_bytes(), [0], list[str]()

    def reply(handler: BaseHTTPRequestHandler) -> None:
        calls[0] += 1
        if calls[0] == 2:  # it is away for a moment
            handler.send_error(503)
        else:
            sends(data[: len(data) // 2 if calls[0] == 1 else None])(handler)

    ends: list[Any] = []

    def stop(window: Any) -> None:
        ends.extend([window] * (window.is_last and "-end" in window.path.name))
        if len(ends) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recorded(
            reasoner, serve(reply), tmp_path / "out", once=False, say=said.append, on_window=stop
        )
    rows = (tmp_path / "out" / "events.jsonl").read_text().splitlines()
    kinds = [json.loads(row)["kind"] for row in rows]
    assert len(kinds) >= 8 and kinds[:2] == ["began", "ended"]
    assert all("trying again" in line and "127.0.0.1" in line for line in said)
    assert 2 <= len(said) <= calls[0]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (sends(bytes(range(256)) * 2000), "."),
        (sends(b""), "."),
        (lambda handler: time.sleep(3), "."),
        (lambda handler: handler.send_error(404), "404"),
    ],
    ids=["noise", "nothing", "silence", "not found"],
)
def test_what_is_no_stream_ends_in_a_line_without_the_password(
    serve: Callable[[Reply], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reasoner: Reasoner,
    reply: Reply,
    message: str,
) -> None:
    monkeypatch.setattr(recording._Asked, "__init__", _impatient)
    address = serve(reply).replace("://", "://me:sesame@") + "?key=sesame"
    with pytest.raises(MediaError, match=message) as failed:
        recorded(reasoner, address, tmp_path / "out")
    assert "sesame" not in str(failed.value) and "\n" not in str(failed.value)


_ASKED = recording._Asked.__init__


def _impatient(self: Any, *values: Any) -> None:
    _ASKED(self, *values, 1.0, 4_000)


def test_what_nobody_reads_is_bounded(
    stream: Path, serve: Callable[[Reply], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording._Asked, "__init__", _impatient)
    data, said = stream.read_bytes(), list[str]()
    recorder = Recorder(
        serve(sends(data)), tmp_path, "", lead=0.0, segment=4.0, once=True, say=said.append
    )
    while not recorder.has_ended():
        time.sleep(0.05)
    recorder.check()
    recorder.close()
    names = [*tmp_path.iterdir()]
    assert 0 < sum(path.stat().st_size for path in names) < 8_000
    assert len(said) == 1 and "slower than the stream" in said[0]
    assert all(Recorded.read(path.name) for path in names)


def test_times_that_jump_end_the_file(
    stream: Path, serve: Callable[[Reply], str], tmp_path: Path
) -> None:
    """As of a camera that sets its clock: else a file would have hours without a frame."""
    address = serve(sends(stream.read_bytes() * 2))
    recorder = Recorder(
        address, tmp_path, "", lead=2.0, segment=4.0, once=True, say=lambda text: None
    )
    while not recorder.has_ended():
        time.sleep(0.05)
    recorder.close()
    read = [(Recorded.read(path.name), decode(path).seconds) for path in sorted(tmp_path.iterdir())]
    assert all(name is not None and seconds < 10 for name, seconds in read)
    assert read[-1][0] is not None and read[-1][0].is_end
    assert sum(seconds - name.lead for name, seconds in read if name) == pytest.approx(30, abs=0.5)


def test_a_watch_that_ends_leaves_a_whole_file(
    stream: Path, serve: Callable[[Reply], str], tmp_path: Path
) -> None:
    data = stream.read_bytes()

    def reply(handler: BaseHTTPRequestHandler) -> None:
        sends(data[: len(data) // 2])(handler)
        with suppress(BrokenPipeError, ConnectionResetError):  # it goes on, slowly
            for begin in range(len(data) // 2, len(data), len(data) // 80):
                time.sleep(0.3)
                handler.wfile.write(data[begin:][: len(data) // 80])

    recorder = Recorder(
        serve(reply), tmp_path, "", lead=0.0, segment=100.0, once=False, say=lambda text: None
    )
    while not [*tmp_path.glob(".*.mkv")]:
        time.sleep(0.05)
    time.sleep(1)
    recorder.close()
    (path,) = tmp_path.iterdir()
    name = Recorded.read(path.name)
    assert name is not None and name.is_end and decode(path).seconds > 5


def test_the_login_comes_from_the_environment(
    stream: Path, serve: Callable[[Reply], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[str | None] = []

    def reply(handler: BaseHTTPRequestHandler) -> None:
        got.append(handler.headers.get("Authorization"))
        if got[-1] is None:
            handler.send_response(401)
            handler.send_header("WWW-Authenticate", "Basic realm=camera")
            handler.end_headers()
        else:
            sends(stream.read_bytes())(handler)

    monkeypatch.setenv(LOGIN, "me:sesame")
    recorder = Recorder(
        serve(reply), tmp_path, "", lead=0.0, segment=4.0, once=True, say=lambda text: None
    )
    while not recorder.has_ended():
        time.sleep(0.05)
    recorder.check()
    recorder.close()
    assert got[-1] is not None and got[-1].startswith("Basic ")


def test_a_playlist_names_no_file_of_this_machine(
    reasoner: Reasoner, stream: Path, serve: Callable[[Reply], str], tmp_path: Path
) -> None:
    head = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:30\n#EXTINF:30,\n"

    def reply(handler: BaseHTTPRequestHandler, address: str) -> None:
        is_list = handler.path.endswith("m3u8")
        listed = f"{head}{address}\n#EXT-X-ENDLIST\n".encode()
        sends(listed if is_list else stream.read_bytes())(handler)

    good = serve(lambda handler: reply(handler, "live.ts")).replace("live.ts", "list.m3u8")
    assert len(recorded(reasoner, good, tmp_path / "good")) == 7
    bad = serve(lambda handler: reply(handler, f"file://{stream}")).replace("live.ts", "list.m3u8")
    with pytest.raises(MediaError):
        recorded(reasoner, bad, tmp_path / "bad")


def test_the_recorder_ends_with_the_watch(
    stream: Path, serve: Callable[[Reply], str], tmp_path: Path
) -> None:
    """Killed, a watch leaves no process that writes on beside that of the next one."""
    address = serve(lambda handler: time.sleep(20))
    program = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from viper.watch.recording import Recorder\n"
        f"one = Recorder({address!r}, Path({str(tmp_path)!r}), '', lead=0.0, segment=4.0, "
        "once=True, say=print)\n"
        "print(one._process.pid, flush=True)\n"
        "time.sleep(1)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == -9
    for _ in range(100):
        try:
            os.kill(int(ended.stdout), 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("it still runs")


@pytest.mark.parametrize(
    "source", ["file:///etc/passwd", "concat://a", "ftp://host/x", "udp://239.0.0.1:1234"]
)
def test_other_addresses_are_refused(source: str, tmp_path: Path) -> None:
    assert is_stream(source)
    with pytest.raises(UsageError, match="expected one of http, https, rtsp"):
        Recorder(source, tmp_path, "", lead=0, segment=4, once=True, say=print)


_RTSP = """
import sys
import gi
gi.require_version("Gst", "1.0"); gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer
Gst.init(None)
server = GstRtspServer.RTSPServer(); server.set_service("0"); server.set_address("127.0.0.1")
made = GstRtspServer.RTSPMediaFactory()
made.set_launch(f"( filesrc location={sys.argv[1]} ! tsdemux ! h264parse ! rtph264pay name=pay0 )")
server.get_mount_points().add_factory("/live", made)
server.attach(None)
print(server.get_bound_port(), flush=True)
GLib.MainLoop().run()
"""


def test_an_rtsp_server_is_watched(reasoner: Reasoner, stream: Path, tmp_path: Path) -> None:
    """The server is GStreamer's, where it is installed."""
    asked = [
        "/usr/bin/python3", "-c", "import gi; gi.require_version('GstRtspServer', '1.0')",
    ]  # fmt: skip
    if not Path(asked[0]).exists() or subprocess.run(asked, capture_output=True).returncode:
        pytest.skip("GStreamer's RTSP server is not installed")
    server = subprocess.Popen(
        [asked[0], "-c", _RTSP, str(stream)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        rows = recorded(reasoner, f"rtsp://127.0.0.1:{port}/live", tmp_path / "out")
    finally:
        server.kill()
        server.wait()
    assert [row["kind"] for row in rows[:4]] == ["began", "ended", "began", "ended"]
    assert rows[1]["clock"] - rows[0]["clock"] == pytest.approx(3, abs=0.6)
