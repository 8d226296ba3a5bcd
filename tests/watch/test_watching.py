"""A watch tells each event once, at its time, whatever happens to the process."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viper.errors import StoreError, UsageError
from viper.models.media import CLIP_FPS, write_mp4
from viper.reasoner import Reasoner, RunOptions
from viper.watch import delivery
from viper.watch.delivery import Pace, Receiver
from viper.watch.events import EVENTS, STATE, TABLE, Event, EventLog
from viper.watch.watching import Condition, Watch, takes_video, written_program
from viper.watch.windows import files
from viper_lab.world.long_clips import long_clip, write_long_clip

SECONDS = 30

# From when to when the light of the video is on.
LIT = [(4.0, 9.5), (12.0, 12.9), (20.0, 30.0)]

BRIGHT = """
def execute_command(image, question):
    return mean_color(ImagePatch(image))[0] > 128
"""

FLASHES = """
def execute_command(video):
    lit = VideoSegment(video).moments(lambda frame: mean_color(frame)[0] > 128, step=0.125)
    starts = [start for start, end in lit if start > VideoSegment(video).time_of(0) + 0.1]
    return bool(starts), {"moments": starts}
"""


def lit_video(path: Path, spans: list[tuple[float, float]] = LIT, seconds: int = SECONDS) -> Path:
    frames = np.full((seconds * CLIP_FPS, 32, 32, 3), 20, np.uint8)
    for start, end in spans:
        frames[round(start * CLIP_FPS) : round(end * CLIP_FPS)] = 220
    write_mp4(path, frames)
    return path


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lit_video(tmp_path_factory.mktemp("video") / "light.mp4")


def watched(
    reasoner: Reasoner, source: Path, out: Path, words: str = "it is light", **changes: Any
) -> list[dict[str, Any]]:
    """Watch to the end; return the rows of the folder."""
    log = EventLog(out, "one", is_told=changes.get("receiver") is not None)
    options = {
        "program": BRIGHT, "every": 0.5, "margin": 1.0, "hold": 0.0,
        "gap": changes.get("hold", 0.0), "cooldown": 0.0, "once": True,
        "recorder": None, "receiver": None, "on_window": lambda window: None,
        "on_look": lambda window, result: None, "on_event": lambda event: None,
        "say": lambda text: None,
    } | changes  # fmt: skip
    try:
        Watch(
            reasoner, condition=Condition.read(words), options=RunOptions("statement"), log=log,
            video=takes_video(options["program"]), **options,
        ).run(source)  # fmt: skip
    finally:
        log.close()
    path = out / EVENTS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_an_event_is_told_when_it_begins(reasoner: Reasoner, video: Path, tmp_path: Path) -> None:
    rows = watched(reasoner, video, tmp_path)
    assert [(row["kind"], row["time"]) for row in rows] == [
        ("began", 4.0), ("began", 12.0), ("began", 20.0),
    ]  # fmt: skip
    assert all(row["source"] == "light.mp4" for row in rows)
    assert "mean_color" in (tmp_path / rows[0]["page"]).read_text()


def test_while_tells_the_end_too(reasoner: Reasoner, video: Path, tmp_path: Path) -> None:
    rows = watched(reasoner, video, tmp_path, "while it is light")
    assert [(row["kind"], row["time"]) for row in rows] == [
        ("began", 4.0), ("ended", 9.5), ("began", 12.0), ("ended", 13.0), ("began", 20.0),
    ]  # fmt: skip
    assert rows[1]["id"] == f"{rows[0]['id']}-end"


def test_until_ends_the_watch(reasoner: Reasoner, video: Path, tmp_path: Path) -> None:
    assert len(watched(reasoner, video, tmp_path, "until it is light")) == 1
    assert len(watched(reasoner, video, tmp_path, "until it is light")) == 1  # it has ended


def test_a_cooldown_leaves_out_events_that_follow_soon(
    reasoner: Reasoner, video: Path, tmp_path: Path
) -> None:
    rows = watched(reasoner, video, tmp_path, "while it is light", cooldown=5.0)
    assert [row["time"] for row in rows] == [4.0, 9.5, 20.0]


def test_what_holds_too_shortly_does_not_count(reasoner: Reasoner, tmp_path: Path) -> None:
    source = lit_video(tmp_path / "a.mp4", [(2, 2.6), (4, 8), (9, 12), (14, 16)], 20)
    rows = watched(reasoner, source, tmp_path / "out", "while it is light", hold=1.0)
    assert [(row["kind"], row["time"]) for row in rows] == [
        ("began", 4), ("ended", 12), ("began", 14), ("ended", 16),
    ]  # fmt: skip


def test_a_short_gap_is_no_end(reasoner: Reasoner, tmp_path: Path) -> None:
    source = lit_video(tmp_path / "a.mp4", [(2, 4), (5, 8), (12, 14)], 20)
    rows = watched(reasoner, source, tmp_path / "out", "while it is light", gap=2.0)
    assert [(row["kind"], row["time"]) for row in rows] == [
        ("began", 2), ("ended", 8), ("began", 12), ("ended", 14),
    ]  # fmt: skip


class AtDusk:
    """Answers as the reasoner, but takes dusk for light."""

    def __init__(self, reasoner: Reasoner) -> None:
        self._reasoner = reasoner

    def execute(self, program: str, *rest: Any) -> Any:
        return self._reasoner.execute(program.replace("128", "60"), *rest)


def test_what_is_doubtful_neither_begins_nor_ends_a_condition(
    reasoner: Reasoner, tmp_path: Path
) -> None:
    """At dusk the two answers differ."""
    frames = np.full((24 * CLIP_FPS, 32, 32, 3), 20, np.uint8)
    for start, end, value in ((2, 4, 100), (6, 9, 220), (9, 13, 100), (13, 15, 220), (18, 20, 100)):
        frames[start * CLIP_FPS : end * CLIP_FPS] = value
    write_mp4(tmp_path / "a.mp4", frames)
    for name, confirming, expected in (
        ("one", None, [6, 9, 13, 15]),
        ("both", AtDusk(reasoner), [6, 15]),
    ):
        out, words = tmp_path / name, "while it is light"
        rows = watched(reasoner, tmp_path / "a.mp4", out, words, confirming=confirming)
        assert [row["time"] for row in rows] == expected


@pytest.mark.parametrize("every", [0.25, 0.5, 1.0, 4.0, 5.0])
def test_a_moment_near_the_border_of_two_windows_is_one_event(
    reasoner: Reasoner, video: Path, tmp_path: Path, every: float
) -> None:
    rows = watched(reasoner, video, tmp_path, program=FLASHES, every=every)
    assert [row["time"] for row in rows] == pytest.approx([4, 12, 20], abs=0.2)


def moments_program(*moments: str) -> str:
    listed = ", ".join(moments)
    return f"def execute_command(video):\n    return True, {{'moments': [{listed}]}}\n"


@pytest.mark.parametrize("every", [0.25, 5.0, 6.0])
def test_moments_near_a_border_are_matched_with_the_nearest(
    reasoner: Reasoner, tmp_path: Path, every: float
) -> None:
    source = lit_video(tmp_path / "a.mp4", [], 8)
    program = moments_program("4.1", "4.9", "5.4", "7.99", "8.0")
    rows = watched(reasoner, source, tmp_path / "out", program=program, every=every)
    assert [row["time"] for row in rows] == [4.1, 4.9, 5.4, 7.99, 8.0]


def test_what_is_no_time_is_no_moment(reasoner: Reasoner, tmp_path: Path) -> None:
    source = lit_video(tmp_path / "a.mp4", [], 5)
    program = moments_program(
        "4", "float('nan')", "1", "(3, 4)", "10 ** 400", "True", "-0.3", "'2'", "[]", "1e300"
    )
    rows = watched(reasoner, source, tmp_path / "out", program=program, every=5)
    assert [row["time"] for row in rows] == [1, 3, 4]


def test_moments_see_a_window_to_its_end(reasoner: Reasoner, tmp_path: Path) -> None:
    source = lit_video(tmp_path / "a.mp4", [(18.2, 19.8), (58, 59.5)], 60)
    rows = watched(
        reasoner, source, tmp_path / "out", program=FLASHES.replace("0.125", "0.3"), every=20.0,
        margin=0.0,
    )  # fmt: skip
    assert [row["time"] for row in rows] == pytest.approx([18.2, 58], abs=0.3)


def test_a_file_that_is_gone_before_it_was_read_keeps_the_clock(
    reasoner: Reasoner, tmp_path: Path
) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    lit_video(folder / "a.mp4", [(1, 2)], 6)

    def stop(window: Any) -> None:
        if window.start == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watched(reasoner, folder, tmp_path / "out", on_window=stop)
    (folder / "a.mp4").unlink()
    lit_video(folder / "b.mp4", [(2, 3)], 5)
    assert [row["clock"] for row in watched(reasoner, folder, tmp_path / "out")] == [1, 6]


def test_an_end_that_is_not_told_begins_no_cooldown(reasoner: Reasoner, tmp_path: Path) -> None:
    source = lit_video(tmp_path / "a.mp4", [(1, 9), (11, 12)], 14)
    rows = watched(reasoner, source, tmp_path / "out", cooldown=5.0)
    assert [row["time"] for row in rows] == [1, 11]


def test_a_file_that_is_no_video_does_not_hide_the_others(
    reasoner: Reasoner, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("no video")
    with pytest.raises(UsageError, match="no video yet"):
        written_program(reasoner, tmp_path, "there is a red ball")
    lit_video(tmp_path / "z.mp4", [], 2)
    assert "ball" in written_program(reasoner, tmp_path, "there is a red ball")


def test_two_events_of_one_moment_have_two_ids(reasoner: Reasoner, tmp_path: Path) -> None:
    program = moments_program("1.5001", "1.5004")
    source = lit_video(tmp_path / "a.mp4", [], 3)
    rows = watched(reasoner, source, tmp_path / "out", program=program, every=5)
    assert [row["id"] for row in rows] == ["000000001500", "000000001500-2"]
    assert all((tmp_path / "out" / row["page"]).is_file() for row in rows)


def test_a_kill_after_the_last_window_of_a_file_keeps_the_clock(
    reasoner: Reasoner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    lit_video(folder / "a.mp4", [], 3)
    commit = EventLog.commit

    def killed(self: EventLog, **changes: Any) -> None:
        if changes.get("window") == -1:
            raise KeyboardInterrupt
        commit(self, **changes)

    with monkeypatch.context() as patch:
        patch.setattr(EventLog, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            watched(reasoner, folder, tmp_path / "out")
    lit_video(folder / "b.mp4", [(1, 2)], 3)
    assert [row["clock"] for row in watched(reasoner, folder, tmp_path / "out")] == [4]


def test_a_folder_is_one_video_in_the_order_of_its_names(
    reasoner: Reasoner, tmp_path: Path
) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    lit_video(folder / "b.mp4", [(0, 2)], 5)  # goes on from the file before
    lit_video(folder / "a.mp4", [(3, 5)], 5)
    (folder / "aa.txt").write_text("no video")
    (folder / ".part").write_text("hidden")
    said: list[str] = []
    rows = watched(reasoner, folder, tmp_path / "out", "while it is light", say=said.append)
    assert [(row["kind"], row["source"], row["time"], row["clock"]) for row in rows] == [
        ("began", "a.mp4", 3, 3), ("ended", "b.mp4", 2, 7),
    ]  # fmt: skip
    assert len(said) == 1 and "aa.txt" in said[0]
    lit_video(folder / "c.mp4", [(1, 2)], 5)
    rows = watched(reasoner, folder, tmp_path / "out", "while it is light")
    assert [row["clock"] for row in rows] == [3, 7, 11, 12]


def test_a_file_that_still_grows_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    os.utime(tmp_path / "a", (0, 0))
    monkeypatch.setattr("viper.watch.windows._POLL_S", 0.01)
    found = files(tmp_path, "", is_done=False, once=False)
    assert next(found).name == "a"
    threading.Timer(0.2, lambda: os.utime(tmp_path / "b", (0, 0))).start()
    assert next(found).name == "b"


def test_a_program_that_fails_changes_nothing_and_is_counted(
    reasoner: Reasoner, video: Path, tmp_path: Path
) -> None:
    program = BRIGHT.replace("    return", "    assert question\n    return 1 / 0 if 0 else")
    failing = program.replace("if 0", "if mean_color(ImagePatch(image))[0] > 128")
    said: list[str] = []
    assert not watched(reasoner, video, tmp_path, program=failing, say=said.append)
    state = json.loads((tmp_path / STATE).read_text())
    assert state["failed"] == 11 + 2 + 20 and len(said) == 1
    assert "at 4.0 s: no answer (runtime: " in said[0]


@pytest.mark.parametrize("is_dark", [True, False], ids=["nothing seen", "below a threshold"])
def test_a_thing_that_is_not_there_is_not_where_a_condition_says(
    reasoner: Reasoner, tmp_path: Path, is_dark: bool
) -> None:
    """Programs take the first of what they found, and fail where nothing was."""
    program = """
def execute_command(image):
    patch = ImagePatch(image)
    return patch.find("red cube")[0].left < patch.find("blue ball")[0].left
"""
    source = tmp_path / "clip.mp4"
    if is_dark:
        lit_video(source, [], 4)
    else:
        write_long_clip(long_clip("val", 0, 4.0), source)
    assert not watched(reasoner, source, tmp_path / "out", program=program, every=2)
    state = json.loads((tmp_path / "out" / STATE).read_text())
    assert (state["window"], state["failed"]) == (-1, 0)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a dog is there", ("a dog is there", "when", None)),
        ("When a dog is there", ("a dog is there", "when", None)),
        ("whenever a dog is there", ("a dog is there", "when", None)),
        ("every 5 s, while a dog is there", ("a dog is there", "while", 5)),
        ("every 2 minutes until: a dog is there", ("a dog is there", "until", 120)),
        ("every 0.5 seconds a dog is there", ("a dog is there", "when", 0.5)),
        ("every 3600 s a dog is there", ("a dog is there", "when", 3600)),
        ("every dog is there", ("every dog is there", "when", None)),
        ("whiledog", ("whiledog", "when", None)),
    ],
)
def test_words_of_a_condition(words: str, expected: tuple[Any, ...]) -> None:
    read = Condition.read(words)
    assert (read.text, read.mode, read.every) == expected


@pytest.mark.parametrize("words", ["every 0 s it is light", "every 61 minutes it is light"])
def test_a_time_out_of_range_is_said(words: str) -> None:
    with pytest.raises(UsageError, match="expected 0.04 s to 60 minutes"):
        Condition.read(words)


@pytest.mark.parametrize("words", ["when", "every 5 s", " every 5 s, while "])
def test_a_condition_says_something(words: str) -> None:
    with pytest.raises(UsageError, match="names no condition"):
        Condition.read(words)


def test_ten_kills_lose_no_event_and_double_none(tmp_path: Path) -> None:
    """Every delivered event is there, perhaps repeated with the same id."""
    video = lit_video(tmp_path / "a.mp4", [(2 * n + 1, 2 * n + 2) for n in range(20)], 40)
    (tmp_path / "program.py").write_text(BRIGHT)
    told = tmp_path / "told.jsonl"
    line = [
        sys.executable, "-m", "viper", "watch", str(video), "while it is light", "--every", ".25",
        "--program", str(tmp_path / "program.py"), "--out", str(tmp_path / "out"),
        "--profile", "embedded", "--hold", "0", "--gap", "0", "--on-event", f"tee -a {told}",
    ]  # fmt: skip
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    chance, kills, state = random.Random(0), 0, tmp_path / "out" / STATE
    while kills < 10:
        running = subprocess.Popen(line, **quiet)  # type: ignore[call-overload]
        before = state.read_text() if state.exists() else ""
        while running.poll() is None and (not state.exists() or state.read_text() == before):
            time.sleep(0.02)  # until it has begun
        time.sleep(chance.uniform(0, 0.4))
        if running.poll() is not None:
            break
        running.send_signal(signal.SIGKILL)
        running.wait()
        kills += 1
    assert kills == 10
    subprocess.run(line, check=True, **quiet)  # type: ignore[call-overload]
    rows = [json.loads(row) for row in (tmp_path / "out" / EVENTS).read_text().splitlines()]
    expected = [
        (kind, 2.0 * n + at) for n in range(20) for kind, at in (("began", 1), ("ended", 2))
    ]
    assert [(row["kind"], row["time"]) for row in rows] == expected[: len(rows)]
    with (tmp_path / "out" / TABLE).open(newline="") as table:
        assert [row["id"] for row in csv.DictReader(table)] == [row["id"] for row in rows]
    assert len(rows) in (39, 40)  # the last end may be that of the video
    delivered = [json.loads(row)["id"] for row in told.read_text().splitlines()]
    assert list(dict.fromkeys(delivered)) == [row["id"] for row in rows]


class Hook(BaseHTTPRequestHandler):
    got: list[tuple[str | None, dict[str, Any]]]
    status = 200

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.got.append((self.headers.get(delivery.HEADER), body))
        self.send_response(type(self).status)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[tuple[type[Hook], str]]:
    handler = type("OneHook", (Hook,), {"got": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield handler, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_gets_what_it_missed_with_the_secret(
    reasoner: Reasoner,
    video: Path,
    tmp_path: Path,
    hook: tuple[type[Hook], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handler, address = hook
    handler.status = 500
    monkeypatch.setenv(delivery.SECRET, "open sesame")
    monkeypatch.setattr(delivery, "wait_exponential", lambda *_, **__: lambda state: 0)
    said: list[str] = []
    receiver = Receiver.read(address)
    rows = watched(reasoner, video, tmp_path, receiver=receiver, say=said.append)
    assert len(rows) == 3 and said[0].startswith("not delivered: the address replied 500")
    assert "sesame" not in "".join(said)
    handler.status, handler.got[:] = 200, []
    watched(reasoner, video, tmp_path, receiver=receiver)
    assert [(secret, body["id"]) for secret, body in handler.got] == [
        ("open sesame", row["id"]) for row in rows
    ]
    handler.got.clear()
    watched(reasoner, video, tmp_path, receiver=receiver)
    assert not handler.got


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("false", "false ended with exit code 1"),
        ("no-such-command-here", "no-such-command-here: No such file"),
        ("sleep 60", "sleep took over 0.2 s"),
    ],
)
def test_a_command_that_fails_is_said(
    reasoner: Reasoner, video: Path, tmp_path: Path, command: str, said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(delivery, "_TIMEOUT_S", 0.2)
    monkeypatch.setattr(delivery, "_ATTEMPTS", 1)
    remarks: list[str] = []
    rows = watched(reasoner, video, tmp_path, receiver=Receiver.read(command), say=remarks.append)
    assert len(rows) == 3 and len(remarks) == 4 and said in remarks[0]  # once more at the end


def test_no_shell_reads_the_command(reasoner: Reasoner, video: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    watched(reasoner, video, tmp_path / "out", receiver=Receiver.read(f"true; touch {mark}"))
    watched(reasoner, video, tmp_path / "2", receiver=Receiver.read(f"echo $(touch {mark})"))
    assert not mark.exists()


@pytest.mark.parametrize("text", ["", "  ", "echo 'open"])
def test_what_is_no_receiver_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="--on-event"):
        Receiver.read(text)


def test_a_folder_belongs_to_one_watch_and_one_process(tmp_path: Path) -> None:
    log = EventLog(tmp_path, "one")
    log.commit(file="a.mp4")
    with pytest.raises(StoreError, match="this watch is being written by process"):
        EventLog(tmp_path, "one")
    log.close()
    with pytest.raises(UsageError, match="the folder of another watch .* give another --out"):
        EventLog(tmp_path, "two")
    (tmp_path / STATE).write_text('{"fingerprint": "one", "rows": "many"}')
    with pytest.raises(StoreError, match="no state of viper watch"):
        EventLog(tmp_path, "one")
    (tmp_path / STATE).write_text('{"fingerprint": "one", "rows": 80}')
    with pytest.raises(StoreError, match="0 bytes; expected 80: rows were removed"):
        EventLog(tmp_path, "one")


@pytest.mark.parametrize("name", [EVENTS, STATE, TABLE, ".lock", "pages", "program.py"])
def test_a_link_in_the_folder_is_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "theirs").write_text("precious")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(tmp_path / "theirs")
    with pytest.raises(StoreError, match="is a link"):
        EventLog(tmp_path / "out", "one")
    assert (tmp_path / "theirs").read_text() == "precious"


def test_a_file_of_rows_that_is_no_watchs_stays(tmp_path: Path) -> None:
    (tmp_path / EVENTS).write_text("precious\n")
    with pytest.raises(UsageError, match="no folder of viper watch"):
        EventLog(tmp_path, "one")
    assert (tmp_path / EVENTS).read_text() == "precious\n"


def test_the_table_has_every_counted_row_and_no_formula(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "out", "one")
    log.add(Event("1-began", "began", "=1+1.mp4", 2.5, 2.5, info={"way": "left"}))
    log.add(Event("1-end", "ended", "a.mp4", -3.0, 4.0, confidence=0.75, info="-cmd"))
    log.commit()
    log.write_table()
    log.close()
    with (tmp_path / "out" / TABLE).open(newline="") as table:
        first, second = csv.DictReader(table)
    assert (first["source"], first["time"], first["confidence"]) == ("'=1+1.mp4", "2.5", "")
    assert json.loads(first["info"]) == {"way": "left"}
    assert (second["time"], second["confidence"], second["info"]) == ("-3.0", "0.75", "'-cmd")


def test_a_full_disk_is_one_line_and_loses_nothing(
    reasoner: Reasoner, video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, count = EventLog.commit, iter(range(10**6))

    def full(self: EventLog, **changes: Any) -> None:
        if (self.folder / EVENTS).exists() and not next(count):  # after the row of an event
            from viper.storage.files import disk_full

            raise disk_full(self.folder / STATE)
        commit(self, **changes)

    monkeypatch.setattr(EventLog, "commit", full)
    with pytest.raises(StoreError, match="the disk is full"):
        watched(reasoner, video, tmp_path)
    assert len((tmp_path / EVENTS).read_text().splitlines()) == 1
    assert [row["time"] for row in watched(reasoner, video, tmp_path)] == [4, 12, 20]


def test_a_folder_that_cannot_hold_pages_is_one_line(
    reasoner: Reasoner, video: Path, tmp_path: Path
) -> None:
    (tmp_path / "pages").write_text("a file")
    with pytest.raises(StoreError, match="pages: File exists"):
        watched(reasoner, video, tmp_path)


@pytest.mark.parametrize(
    ("quiet", "hour", "allowed"),
    [
        ("22:00-06:30", 21, True),
        ("22:00-06:30", 22, False),
        ("22:00-06:30", 6, False),
        ("22:00-06:30", 7, True),
        ("9:00-17:00", 12, False),
        ("9:00-17:00", 17, True),
        ("9:00-9:00", 9, True),
    ],
)
def test_nothing_is_told_in_quiet_hours(quiet: str, hour: int, allowed: bool) -> None:
    now = time.mktime((2026, 7, 1, hour, 0, 0, 0, 0, -1))
    assert Pace.read(quiet, None).allows(now) is allowed


@pytest.mark.parametrize("quiet", ["22-6", "22:00", "24:00-06:00", "22:60-06:00", ""])
def test_quiet_hours_are_two_times(quiet: str) -> None:
    with pytest.raises(UsageError, match="expected two times, as in 22:00-06:30"):
        Pace.read(quiet, None)


def test_what_waits_is_told_when_its_time_has_come(
    reasoner: Reasoner, video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One event an hour, on a clock that moves by 20 minutes a second of the video."""
    told, now = tmp_path / "told", [0.0]
    monkeypatch.setattr(delivery.time, "time", lambda: now[0])

    def passes(window: Any) -> None:
        now[0] = 1200 * window.start

    receiver = Receiver.read(f"tee -a {told}", Pace.read(None, 1))
    said: list[str] = []
    rows = watched(
        reasoner, video, tmp_path / "out", "while it is light", receiver=receiver,
        on_window=passes, say=said.append,
    )  # fmt: skip
    assert [json.loads(line)["id"] for line in told.read_text().splitlines()] == [
        row["id"] for row in rows
    ]
    assert not said
    told.unlink()
    receiver = Receiver.read(f"tee -a {told}", Pace.read(None, 2))
    now[0] = 0
    rows = watched(
        reasoner, video, tmp_path / "still", "while it is light", receiver=receiver,
        say=said.append,
    )  # fmt: skip
    assert len(told.read_text().splitlines()) == 2 < len(rows) and not said
