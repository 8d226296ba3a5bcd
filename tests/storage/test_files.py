"""Files are written whole or not at all, into what the user named, and never over what was read."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from viper.errors import StoreError, UsageError
from viper.storage.files import check_is_no_input, write_file
from viper.storage.json_lines import append_line


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_file(pipe, "text")
    reader.join(20)
    assert read == [b"text"] and pipe.is_fifo() and [*tmp_path.iterdir()] == [pipe]


def test_a_device_stays_a_device() -> None:
    write_file(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()
    if Path("/dev/full").exists():
        with pytest.raises(StoreError, match="disk is full"):
            write_file(Path("/dev/full"), "text")
        assert Path("/dev/full").is_char_device()


def test_a_link_that_the_user_named_is_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("before")
    (tmp_path / "link").symlink_to("target")
    write_file(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text() == "after"


def test_links_in_a_received_folder_are_refused(tmp_path: Path) -> None:
    mine, run = tmp_path / "mine", tmp_path / "run"
    mine.mkdir()
    run.mkdir()
    (mine / "notes").write_text("mine")
    (run / "report.json").symlink_to(mine / "notes")
    (run / "samples").symlink_to(mine)
    for name in ("report.json", "samples/notes"):
        with pytest.raises(StoreError, match="leads out of"):
            write_file(run / name, "theirs", inside=run)
    with pytest.raises(StoreError):
        append_line(run / "report.json", {"a": 1})
    assert (mine / "notes").read_text() == "mine"
    write_file(run / "deep" / "new.json", "text", inside=run)


def test_an_input_is_not_written_over_by_any_name(tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    photo.write_bytes(b"photo")
    (tmp_path / "link.png").symlink_to(photo)
    os.link(photo, tmp_path / "same.png")
    for name in ("photo.png", "link.png", "same.png", "./photo.png"):
        with pytest.raises(UsageError, match="is the input"):
            check_is_no_input(tmp_path / name, [photo])
    check_is_no_input(tmp_path / "other.png", [photo, "http://x/y", "a question?\0"])
