"""Where nothing can be written, a command says so in a line before it begins."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pytest

from tests.commands.test_bad_input import refused
from tests.strategies.bench import Bench
from viper.cli import main
from viper.embedded import MEDIA
from viper.errors import UsageError

COMMANDS = (
    "profile new mine --out",
    "routine new mine --folder",
    "world render --split val --out",
    "world knowledge",
    "world train vqa --out",
    "tune workflows world --out",
    "tune agent nothing --out",
    "reproduce zero-shot --out",
    "reproduce clova --out",
    "reproduce avis --out",
    "reproduce dwim --out",
    "eval world --out",
    "learn world --out",
    "ace mine --data world --out",
    "ace merge one.jsonl --out",
    "ace tune --bank one.jsonl --out",
    "demo --out",
    "seek record --out",
    "demo-questions --out",
    "run picture.png what --save",
    "run picture.png what --html",
    "exec program.py picture.png --save",
    "pool start world --work",
    "score world --rows",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_place_where_nothing_can_be_written(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("kept", encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), str(file / "below" / "it")])
    said = capsys.readouterr().err
    assert ended.value.code == 2, said
    assert (
        said.count("\n") == 1 and f"nothing can be written in {file} (it is not a folder)" in said
    )
    assert file.read_text(encoding="utf-8") == "kept" and list(tmp_path.iterdir()) == [file]


def test_a_default_place_that_cannot_be_written_is_a_line_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "home"
    file.write_text("", encoding="utf-8")
    monkeypatch.setenv("VIPER_HOME", str(file))
    with pytest.raises(SystemExit) as ended:
        main(["profile", "new", "mine"])
    said = capsys.readouterr().err
    assert ended.value.code == 1 and said.count("\n") == 1 and str(file) in said


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("run picture.png what --save {folder}/a.txt", "unknown picture format '.txt'"),
        ("run picture.png what --save {folder}", "is a folder; give the name of a file in it"),
        ("run picture.png what --html {folder}/a.pdf", "needs the suffix .html, not '.pdf'"),
        ("run picture.png what --html {folder}", "is a folder; give the name of a file in it"),
        ("exec program.py picture.png --save {folder}/a", "unknown picture format ''"),
    ],
)
def test_a_file_of_another_kind_is_refused_before_any_work(
    command: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command.format(folder=tmp_path).split())
    said = capsys.readouterr().err
    assert ended.value.code == 2 and says in said and said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_place_without_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_a_full_disk(dir: Path) -> BinaryIO:
        return Path("/dev/full").open("wb")

    monkeypatch.setattr("tempfile.TemporaryFile", on_a_full_disk)
    with pytest.raises(SystemExit) as ended:
        main(["run", "picture.png", "what", "--save", str(tmp_path / "a.png")])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.count("\n") == 1
    assert f"nothing can be written in {tmp_path} (No space left on device)" in said


@pytest.mark.parametrize("option", ["--save", "--html"])
def test_the_picture_of_the_query_is_not_written_over(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suffix = ".png" if option == "--save" else ".html"
    photo = tmp_path / f"photo{suffix}"
    photo.write_bytes((MEDIA / "table.png").read_bytes())
    (tmp_path / f"link{suffix}").symlink_to(photo)
    for name in (photo, tmp_path / f"link{suffix}"):
        said = refused(capsys, "run", str(photo), "how many balls?", option, str(name))
        assert "is the input" in said
    assert photo.read_bytes() == (MEDIA / "table.png").read_bytes()


def test_a_result_is_not_saved_over_its_picture(tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    photo.write_bytes((MEDIA / "table.png").read_bytes())
    result = Bench(["answer = 1"]).reasoner.run(str(photo), "how many?")
    with pytest.raises(UsageError, match="is the input"):
        result.save(photo)
    assert photo.read_bytes() == (MEDIA / "table.png").read_bytes()
