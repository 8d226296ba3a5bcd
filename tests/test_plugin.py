"""An installed package adds parts of many kinds by entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import forked

PLUGIN = Path(__file__).parent / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that the package was installed into, from a copy, for it to build in."""
    import shutil

    copy = tmp_path_factory.mktemp("source") / "plugin"
    shutil.copytree(PLUGIN, copy)
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-build-isolation", "--target", str(target), str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    yield target


def viper(installed: Path, folder: Path, *arguments: str) -> str:
    path = f"{installed}{os.pathsep}{Path(__file__).parents[1]}"
    done = subprocess.run(
        forked.viper(*arguments),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "VIPER_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Image.fromarray(np.full((40, 80, 3), 128, np.uint8)).save(tmp_path / "grey.png")
    return tmp_path


def test_its_routine_backend_and_strategy_answer_a_query(installed: Path, folder: Path) -> None:
    given = ["--profile", "plugin", "--strategy", "first_box", "--task", "ground", "--json"]
    out = viper(installed, folder, "run", "grey.png", "the cup on the very right", *given)
    found = json.loads(out)
    assert found["box"] == [40.0, 0.0, 80.0, 40.0]
    assert (found["strategy"], found["api"]) == ("first_box", "abstract+more+corners")
    assert [call["tool"] for call in found["tool_calls"]] == ["find"]


def test_a_strategy_brings_its_settings_its_model_and_its_part_of_the_trace(
    installed: Path, folder: Path
) -> None:
    query = ["grey.png", "the cup", "--profile", "plugin"]
    query += ["--strategy", "named_box", "--task", "ground", "--json"]
    found = json.loads(viper(installed, folder, "run", *query, "--html", "page.html"))
    assert found["box"] == [40.0, 0.0, 80.0, 40.0]
    assert "<h2>Named</h2><p>cup</p>" in (folder / "page.html").read_text("utf-8")
    assert found["parts"] == {"named": [{"name": "cup", "style": "compact", "tokens": 5}]}
    found = json.loads(viper(installed, folder, "run", *query, "--name-tokens", "7"))
    assert found["parts"]["named"][0]["tokens"] == 7
    assert "Tokens of the name at most." in viper(installed, folder, "run", "--help")


def test_its_routine_is_listed(installed: Path, folder: Path) -> None:
    out = viper(installed, folder, "setup", "routine", "list", "--api", "abstract+corners")
    assert "rightmost_of" in out and "choose the rightmost patch" in out


@pytest.mark.models
def test_its_data_set_is_scored(installed: Path, folder: Path) -> None:
    (folder / "more.py").write_text(
        "from viper import routine\n\n\n@routine\ndef twice(x: int) -> int:\n"
        '    """Double."""\n    return 2 * x\n'
    )
    given = ["--data", "grey", "--limit", "2", "--json", "--profile", "plugin"]
    found = json.loads(viper(installed, folder, "setup", "routine", "try", "more.py", *given))
    assert found["n"] == 2 and 0 <= found["without"]["value"] <= 1
    assert found["used"]["value"] == 0
