"""The programs and commands of ``docs/pictures.md``, run on the shipped picture."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

import viper
from viper.api import api_set
from viper.cli import main
from viper.profiles.files import read_profile

PACKAGE = Path(viper.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "pictures.md").read_text(encoding="utf-8")
TASKS = ("ground", "question", "statement", "edit", "tag")

_BLOCK = re.compile(r"^```(\w+)[ ]?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NEEDS = {"SEG(": "segmenter", "REPLACE(": "inpainter", "FACEDET(": "faces"}


@pytest.mark.models
@pytest.mark.timeout(600)
def test_the_commands_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("augly")
    monkeypatch.chdir(tmp_path)
    shutil.copy(PACKAGE / "embedded" / "media" / "table.png", tmp_path)
    known = set(read_profile("embedded").roles)
    done = 0
    for language, name, text in _BLOCK.findall(PAGE):
        if language != "console":
            Path(name).write_text(text, encoding="utf-8")
            continue
        for command in text.splitlines():
            arguments = shlex.split(command)[1:]
            program = Path(arguments[1]).read_text("utf-8") if arguments[0] == "exec" else ""
            if any(module in program and _NEEDS[module] not in known for module in _NEEDS):
                continue
            with pytest.raises(SystemExit) as ended:
                main(arguments)
            assert ended.value.code == 0, f"{command}\n{capsys.readouterr().err}"
            done += 1
            saved = dict(zip(arguments, arguments[1:], strict=False)).get("--save")
            assert saved is None or Path(saved).stat().st_size > 1_000
    assert done >= 8


def test_the_table_names_every_module() -> None:
    listed = {entry.name for task in TASKS for entry in api_set("visprog").entries(task)}
    table = PAGE.split("| module | gives |")[1].split("\n\n")[0]
    named = set(re.findall(r"`([A-Z_]+)", table))
    sides = {f"CROP{name}" for name in named if name.startswith("_")}
    assert named - {name for name in named if name.startswith("_")} | sides >= listed
