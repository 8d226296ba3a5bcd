"""``docs/extending.md`` followed literally: its files written, its commands run, in order.

The longer files of the page are in ``examples/extending``.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import viper

PACKAGE = Path(__file__).parents[2] / "viper"
PAGE = PACKAGE.parent / "docs" / "extending.md"

_BLOCK = re.compile(r"^```(\w+)[ ]?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.models
@pytest.mark.timeout(600)
def test_every_snippet_of_the_page_works(tmp_path: Path) -> None:
    shutil.copy(PACKAGE / "embedded" / "media" / "table.png", tmp_path)
    shutil.copytree(PACKAGE.parent / "examples" / "extending", tmp_path, dirs_exist_ok=True)
    scripts = Path(sys.executable).parent
    start = tmp_path / "bin" / "viper"
    start.parent.mkdir()
    start.write_text(f'#!/bin/sh\nexec {shlex.join(viper())} "$@"\n')
    start.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join((str(start.parent), str(scripts), os.environ["PATH"])),
        "VIPER_HOME": str(tmp_path / "home"),
    }
    commands = 0
    for language, name, text in _BLOCK.findall(PAGE.read_text("utf-8")):
        if language != "console":
            assert name, f"a snippet without a file name: {text[:60]}"
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
            continue
        for command in text.splitlines():
            commands += 1
            done = subprocess.run(
                command,
                shell=True,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"
    assert commands >= 10
    assert (tmp_path / "corner.png").is_file()
    report = json.loads((tmp_path / "runs" / "shelf" / "report.json").read_text("utf-8"))
    assert report["n"] == 2


def test_the_page_names_the_modules_that_can_be_imported() -> None:
    from viper.sandbox.modules import MODULES

    listed = re.search(r"^\| imports \| `([^`]+)`", PAGE.read_text("utf-8"), re.MULTILINE)
    assert listed is not None
    named = {module for module in MODULES if "." not in module} - {"sys", "typing_extensions"}
    assert set(listed[1].split()) == named
