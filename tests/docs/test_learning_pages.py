"""The Python examples of the pages on learning and of ``examples/training_pictures`` run.

Only names of folders are put in.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import viper
from tests.data.lvis_files import write_lvis
from viper import Reasoner, load_profile

PACKAGE = Path(viper.__file__).parent
DOCS = PACKAGE.parent / "docs"
EXAMPLES = PACKAGE.parent / "examples" / "training_pictures"


def python_blocks(page: str) -> dict[str, str]:
    """Return the Python examples of a page by the word behind ``python``."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return dict(re.findall(r"^```python[ ]?(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize(
    "name", ["annotated", "lvis", "web", pytest.param("folder", marks=pytest.mark.models)]
)
def test_an_example_of_collecting_runs(name, tmp_path, capsys):
    for number, folder in enumerate(("pyramid", "cone", "cube")):
        (tmp_path / "pictures" / folder).mkdir(parents=True)
        pixels = np.full((40, 40, 3), 60 * number, np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pictures" / folder / "1.png")
    write_lvis(tmp_path / "lvis")
    text = (EXAMPLES / f"{name}.py").read_text("utf-8")
    for word, path in (
        ("ROOT", tmp_path / "lvis"),
        ("PICTURES", tmp_path / "pictures"),
        ("MATCHER", PACKAGE / "embedded" / "weights" / "matcher"),
        ("STATE", tmp_path / "state"),
    ):
        text = text.replace(f'"{word}', f'"{path}')
    exec(compile(text, f"examples/training_pictures/{name}.py", "exec"), {})
    output = capsys.readouterr().out
    expected = {"annotated": "(144, 192, 3)", "lvis": "('mug',)\n3\n", "folder": "1 2", "web": ""}
    assert expected[name] in output


def test_the_example_of_learned_models_runs(tmp_path):
    scope = {"STATE": tmp_path / "state"}
    exec(compile(python_blocks("learning.md")["learn"], "docs/learning.md", "exec"), scope)
    assert isinstance(scope["reasoner"], Reasoner)


@pytest.mark.models
def test_the_example_of_error_attribution_prints_what_the_page_says(tmp_path, capsys):
    scope = {
        "reasoner": Reasoner(load_profile("embedded", state=tmp_path / "state")),
        "picture": PACKAGE / "embedded" / "media" / "table.png",
    }
    exec(compile(python_blocks("attribution.md")[""], "docs/attribution.md", "exec"), scope)
    assert scope["result"].answer.value == "0"
    assert f"`{capsys.readouterr().out.strip()}`" in (DOCS / "attribution.md").read_text("utf-8")
