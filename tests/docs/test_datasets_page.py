"""The commands of ``docs/datasets.md``, run on its own file and on layouts in miniature."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

import viper
from tests.data.test_official_sets import BUILDERS
from viper.cli import main
from viper.data.registry import data_set

PACKAGE = Path(viper.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "datasets.md").read_text(encoding="utf-8")

_BLOCK = re.compile(r"^```(\w+)[ ]?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(300)
def test_the_commands_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(PACKAGE / "embedded" / "media" / "table.png", tmp_path)
    commands = 0
    for language, name, text in _BLOCK.findall(PAGE):
        if language != "console":
            Path(name).write_text(text, encoding="utf-8")
            continue
        for command in text.splitlines():
            arguments = shlex.split(command)[1:]
            if "DIR" in arguments:
                root = tmp_path / arguments[2]
                if not root.exists():
                    root.mkdir()
                    BUILDERS[arguments[2]](root)
                arguments[arguments.index("DIR")] = str(root)
            with pytest.raises(SystemExit) as ended:
                main(arguments)
            assert ended.value.code == 0, command
            commands += 1
    assert commands >= 5


@pytest.mark.parametrize("name", ["refcoco", "nextqa", "nlvr2", "okvqa"])
def test_a_complete_layout_passes_the_check(name: str, tmp_path: Path) -> None:
    BUILDERS[name](tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["data", "check", name, "--root", str(tmp_path)])
    assert ended.value.code == 0


def test_the_table_names_every_set_and_its_default_split() -> None:
    rows = re.findall(r"^\| `([\w+-]+)` \| `([\w:]+)", PAGE, re.MULTILINE)
    for name, split in rows:
        if name not in ("media", "query", "answer", "options", "task", "id"):
            assert data_set(name).splits[0] == split
    from viper.data.registry import DATASETS

    shipped = {name for name in DATASETS.shipped if ":" not in name}
    assert shipped <= {name for name, _ in rows}
