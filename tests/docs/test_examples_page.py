"""``docs/examples.md``: its options, keys and defaults are those of the program."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

import viper
from viper.commands.ace import ace
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
    assert lines
    for words in lines:
        assert words[:2] == ["viper", "ace"]
        command_named(words[2]).make_context(words[2], words[3:])


@pytest.mark.parametrize(
    ("heading", "names"),
    [("Mining", ("mine",)), ("Without labels", ("describe", "mine")), ("Checking", ("check",))],
)
def test_the_options_of_a_section_exist(heading: str, names: tuple[str, ...]) -> None:
    section = PAGE.split(f"## {heading}")[1].split("\n## ")[0]
    options = set().union(*(options_of(name) for name in names))
    assert set(re.findall(r"--[a-z-]+", section)) - {"--help"} <= options


@pytest.mark.parametrize(
    ("name", "option", "default"),
    [("mine", "keep", 16), ("describe", "programs", 5), ("describe", "media", 3),
     ("describe", "agree", 3)],
)  # fmt: skip
def test_the_defaults_are_those_of_the_page(name: str, option: str, default: int) -> None:
    (declared,) = [each for each in command_named(name).params if each.name == option]
    assert declared.default == default


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
