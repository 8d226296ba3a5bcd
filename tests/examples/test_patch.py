"""examples/patch.py: a patch outside of programs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "patch.py"


def test_the_example_asks_about_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    names = runpy.run_path(str(EXAMPLE))
    *cubes, last = capsys.readouterr().out.splitlines()
    assert len(cubes) == len(names["image_patch"].find("cube")) > 0
    assert any(line.startswith("cyan ImagePatch(") for line in cubes)
    assert last in ("a ball in the upper half: True", "a ball in the upper half: False")
