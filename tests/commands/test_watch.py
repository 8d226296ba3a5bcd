"""``viper watch`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.test_bad_input import viper
from tests.watch.test_watching import BRIGHT, lit_video


def test_a_writer_writes_the_program_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    video = lit_video(tmp_path / "light.mp4", [(1, 2)], 3)
    out = tmp_path / "out"
    line = ("watch", str(video), "when there is a red ball", "--out", str(out), "--profile")
    code, printed, _ = viper(capsys, *line, "embedded")
    program = (out / "program.py").read_text()
    assert code in (0, 1) and "ball" in program and "def execute_command" in program
    assert not printed
    (out / "program.py").write_text(program + "# mine\n")
    viper(capsys, *line, "embedded")
    assert (out / "program.py").read_text().endswith("# mine\n")


def test_the_program_of_a_watch_that_never_began_is_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text("def execute_command(image):\n    return False\n")
    (tmp_path / "bright.py").write_text(BRIGHT)
    line = ("--out", str(tmp_path / "out"), "--profile", "embedded", "--hold", "0", "--program")
    missing = str(tmp_path / "typo.mp4")
    assert viper(capsys, "watch", missing, *line, str(tmp_path / "a.py"))[0] == 2
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "program.py").write_text("def execute_command(image):\n    return False\n")
    video = str(lit_video(tmp_path / "light.mp4", [(1, 2)], 3))
    code, printed, _ = viper(capsys, "watch", video, *line, str(tmp_path / "bright.py"))
    assert code == 0 and len(printed.splitlines()) == 1


def test_events_that_were_not_delivered_are_said_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bright.py").write_text(BRIGHT)
    video = str(lit_video(tmp_path / "light.mp4", [(1, 2)], 3))
    line = ("watch", video, "--program", str(tmp_path / "bright.py"), "--profile", "embedded")
    line = (*line, "--hold", "0")
    code, _, err = viper(capsys, *line, "--out", str(tmp_path / "out"), "--on-event", "false")
    assert code == 1 and "the same line again delivers them" in err
    code, _, err = viper(capsys, *line, "--out", str(tmp_path / "out"), "--on-event", "true")
    assert code == 0


def test_a_terminal_gets_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.py").write_text(
        "def execute_command(image):\n    raise ValueError('\\x1b]0;gotcha\\x07')\n"
    )
    video = str(lit_video(tmp_path / "light.mp4", [], 2))
    code, _, err = viper(
        capsys, "watch", video, "--program", str(tmp_path / "bad.py"), "--profile", "embedded",
        "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert code == 1 and "gotcha" in err and "\x1b" not in err
    assert "failed on 2 windows" in err


def test_rows_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    video = lit_video(tmp_path / "light.mp4", [(1, 2)], 3)
    (tmp_path / "bright.py").write_text(BRIGHT)
    line = ("watch", str(video), "every 0.5 s, while it is light", "--profile", "embedded")
    line = (*line, "--program", str(tmp_path / "bright.py"), "--out", str(tmp_path))
    code, printed, _ = viper(capsys, *line[:-1], str(tmp_path / "out"), "--gap", "0.5")
    rows = [json.loads(row) for row in printed.splitlines()]
    assert code == 0 and [(row["kind"], row["time"]) for row in rows] == [
        ("began", 1), ("ended", 2),
    ]  # fmt: skip
    code, printed, _ = viper(capsys, *line[:-1], str(tmp_path / "usual"))
    (row,) = printed.splitlines()  # the second of dark is shorter than the gap of the profile
    assert code == 0 and json.loads(row)["kind"] == "began"


def test_rare_looks_need_not_be_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The times of a profile are for a look each second."""
    video = lit_video(tmp_path / "light.mp4", [(8, 13)], 20)
    (tmp_path / "bright.py").write_text(BRIGHT)
    line = ("watch", str(video), "every 5 s, while it is light", "--profile", "embedded")
    code, printed, _ = viper(
        capsys, *line, "--program", str(tmp_path / "bright.py"), "--out", str(tmp_path / "out")
    )
    assert code == 0 and [json.loads(row)["time"] for row in printed.splitlines()] == [10, 15]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["VIDEO"], 2, "expected a condition, or --program"),
        (["nowhere.mp4", "it is light"], 2, "nowhere.mp4: no such file or folder"),
        (["EMPTY", "it is light"], 2, "no video yet, for which to write a program"),
        (["TEXT", "it is light"], 2, "TEXT"),
        (["VIDEO", "every 5 s"], 2, "names no condition"),
        (["VIDEO", "it is light", "--every", "0"], 2, "--every"),
        (["VIDEO", "it is light", "--on-event", ""], 2, "--on-event is empty"),
        (["VIDEO", "it is light", "--program", "none.py"], 2, "none.py: no such program file"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    lit_video(tmp_path / "VIDEO", [], 1)
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "TEXT").write_text("no video")
    line = [str(tmp_path / a) if a in ("VIDEO", "EMPTY", "TEXT") else a for a in arguments]
    got, printed, err = viper(
        capsys, "watch", *line, "--out", str(tmp_path / "out"), "--profile", "embedded"
    )
    assert (got, printed) == (code, "") and said in err.splitlines()[-1]
