"""The examples of ``docs/collecting.md``, run; only names of folders are put in."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import viper
from tests.data.lvis_files import write_lvis

PACKAGE = Path(viper.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "collecting.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```python[ ]?(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def test_there_are_four_examples():
    assert set(BLOCKS) == {"", "lvis", "folder", "web"}


@pytest.mark.parametrize(
    "name", ["", "lvis", "web", pytest.param("folder", marks=pytest.mark.models)]
)
def test_an_example_runs(name, tmp_path, capsys):
    for number, folder in enumerate(("pyramid", "cone", "cube")):
        (tmp_path / "pictures" / folder).mkdir(parents=True)
        pixels = np.full((40, 40, 3), 60 * number, np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / folder / "1.png")
    write_lvis(tmp_path / "lvis")
    text = BLOCKS[name]
    for word, path in (
        ("ROOT", tmp_path / "lvis"),
        ("PICTURES", tmp_path / "pictures"),
        ("MATCHER", PACKAGE / "embedded" / "weights" / "matcher"),
        ("STATE", tmp_path / "state"),
    ):
        text = text.replace(f'"{word}', f'"{path}')
    exec(compile(text, "docs/collecting.md", "exec"), {})
    said = capsys.readouterr().out
    expected = {
        "": "(144, 192, 3)",
        "lvis": "('mug',)\n3\n",
        "folder": "1 2",
        "web": "",
    }
    assert expected[name] in said
