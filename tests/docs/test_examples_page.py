"""``docs/examples.md``: its options, keys and defaults are those of the program."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

import viper
from viper.commands.ace import ace
from viper.commands.ace_describe import QUERIES
from viper.profiles.files import read_profile
from viper.schema import EXAMPLE_ORDERS, RETRIEVALS, Example
from viper.strategies.settings import RunSettings

PAGE = (Path(viper.__file__).parents[1] / "docs" / "examples.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def command_named(name: str) -> click.Command:
    command = ace.get_command(click.Context(ace), name)
    assert command is not None
    return command


def options_of(name: str) -> set[str]:
    command = command_named(name)
    return {flag for each in command.params if isinstance(each, click.Option) for flag in each.opts}


def test_every_command_line_parses() -> None:
    lines = [
        shlex.split(line, comments=True)
        for language, text in _BLOCK.findall(PAGE)
        for line in text.splitlines()
        if not language and line
    ]
    assert len(lines) == 7
    for words in lines:
        assert words[:2] == ["viper", "ace"]
        command_named(words[2]).make_context(words[2], words[3:])


def test_the_table_names_the_options_of_mining() -> None:
    table = PAGE.split("| option | |")[1].split("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    named = {flag for row in rows for flag in re.findall(r"--[a-z-]+", row)}
    elsewhere = {
        "--out", "--workers", "--profile", "--sandbox", "--offline", "--max-memory", "--state",
    }  # fmt: skip
    assert named == options_of("mine") - elsewhere


def test_the_table_names_the_options_of_sheets() -> None:
    section = PAGE.split("## Without labels")[1].split("## Using a bank")[0]
    table = section.split("| option | |")[1].split("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    named = {flag for row in rows for flag in re.findall(r"--[a-z-]+", row)}
    elsewhere = {
        "--out", "--workers", "--profile", "--sandbox", "--offline", "--max-memory", "--state",
    }  # fmt: skip
    assert named == options_of("describe") - elsewhere


@pytest.mark.parametrize(
    "name", ["queries", "media", "programs", "temperature", "agree", "keep", "split"]
)
def test_the_defaults_of_sheets_are_those_of_the_page(name: str) -> None:
    section = PAGE.split("## Without labels")[1].split("## Using a bank")[0]
    (row,) = [line for line in section.splitlines() if re.match(rf"\|.*`--{name}\b[^|]*`", line)
              and f"`--{name}-" not in line.split("|")[1]]  # fmt: skip
    (option,) = [each for each in command_named("describe").params if each.name == name]
    default = {"queries": QUERIES, "split": "train"}.get(name, option.default)
    assert f"({default})" in row or f"`{default}`" in row


def test_check_has_the_options_that_the_page_names() -> None:
    section = PAGE.split("## Checking")[1].split("## The file")[0]
    assert set(re.findall(r"--[a-z-]+", section)) <= options_of("check")


def test_the_settings_are_read_from_a_profile(tmp_path: Path) -> None:
    run = next(text for language, text in _BLOCK.findall(PAGE) if language == "toml")
    path = tmp_path / "p.toml"
    path.write_text(f'[llm]\nbackend = "scripted"\n{run}')
    document = read_profile(str(path))
    assert document.bank == "bank.jsonl" and document.run == RunSettings()


@pytest.mark.parametrize("name", [*RETRIEVALS, *EXAMPLE_ORDERS])
def test_every_value_is_described(name: str) -> None:
    assert re.search(rf'[`"]{name}[`"]', PAGE)


def test_the_fields_of_the_file_exist() -> None:
    section = PAGE.split("## The file")[1]
    named = set(re.findall(r"`([a-z_]+)`", section)) - {"check", "fixed"}
    assert named < set(Example.__dataclass_fields__)
