"""``docs/running.md`` and the helps of ``viper run`` and ``viper eval`` name all that there is."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

import viper
from viper.api.sets import api_names
from viper.commands.eval import evaluate
from viper.commands.run import run
from viper.strategies import STRATEGIES

DOCS = Path(viper.__file__).parents[1] / "docs"
PAGE = (DOCS / "running.md").read_text(encoding="utf-8")
REFERENCE = PAGE.split("\n- `--task`")[1].split("\n\n")[0]
OPTIONS = [each for each in run.params if isinstance(each, click.Option)]


def help_of(command: click.Command, name: str) -> set[str]:
    """The words of an option's help."""
    (option,) = [
        one for one in command.params if isinstance(one, click.Option) and one.name == name
    ]
    return set(re.findall(r"[\w-]+", option.help or ""))


def test_the_named_options_exist() -> None:
    known = {flag for option in OPTIONS for flag in (*option.opts, *option.secondary_opts)}
    assert set(re.findall(r"`(--[a-z-]+)`", REFERENCE)) <= known


def test_every_api_is_described() -> None:
    section = PAGE.split("## APIs")[1].split("\n## ")[0]
    first = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = {name for cell in first for name in re.findall(r"`([\w-]+)`", cell)}
    assert named - {"--api"} == api_names()


def test_every_strategy_is_described() -> None:
    entry = REFERENCE.split("- `--strategy`")[1].split("\n- ")[0]
    baselines = PAGE.split("## Baselines")[1].split("\n## ")[0]
    named = set(re.findall(r"`([\w-]+)`", entry))
    assert named | set(re.findall(r"^\| `(\w+)`", baselines, re.MULTILINE)) == set(STRATEGIES)


@pytest.mark.parametrize("command", [run, evaluate], ids=["run", "eval"])
def test_the_help_names_every_api(command: click.Command) -> None:
    assert api_names() <= help_of(command, "api")


def test_the_help_of_eval_names_every_strategy() -> None:
    assert set(STRATEGIES) <= help_of(evaluate, "strategy")
