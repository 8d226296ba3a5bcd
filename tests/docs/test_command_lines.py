"""Every ``viper`` command line in the documents names commands and options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import viper
from viper.cli import cli

ROOT = Path(viper.__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def command_lines(page: Path) -> list[str]:
    """Return the lines of a page's shell blocks that call viper, continuations joined."""
    blocks = _BLOCK.findall(page.read_text("utf-8"))
    text = "\n".join(block for language, block in blocks if language in ("", "sh"))
    lines = [line.removeprefix("$ ") for line in text.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith("viper ")]


LINES = [(page, line) for page in PAGES for line in command_lines(page)]


@pytest.mark.parametrize(
    ("page", "line"), LINES, ids=[f"{page.stem}-{line[:40]}" for page, line in LINES]
)
def test_the_command_and_its_options_exist(page: Path, line: str) -> None:
    words = shlex.split(line.split(" > ")[0], comments=True)[1:]
    if words[-1] != "--help":  # --help stops before values are checked and anything runs
        words.append("--help")
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 0, f"{page.name}: {line}\n{result.output}"
