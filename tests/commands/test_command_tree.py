"""Sections of ``viper --help``, old names of commands, the default command, and completion."""

from __future__ import annotations

import re
import sys

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from viper.cli import cli
from viper.commands.options import SEED
from viper.plugins import offered
from viper.strategies.settings import declared_settings, strategy_settings

OLD_NAMES = {
    "score": "data score",
    "ace sheet": "ace describe",
    "pool show": "ace pool show",
    "pool start": "ace pool start",
    "feedback": "learn feedback",
    "prompts list": "learn prompts list",
    "tune workflows": "learn workflows",
    "tune flags": "learn flags",
    "tune label": "learn label",
    "tune agent": "learn agent",
    "doctor": "setup doctor",
    "profile list": "setup profile list",
    "routine try": "setup routine try",
    "index images": "setup index images",
    "world render": "lab world render",
    "reproduce dwim": "lab reproduce dwim",
    "seek graph": "lab seek graph",
    "seek induce": "lab seek induce",
}
SECTIONS = {
    "Ask": ["run", "exec", "apply", "fit", "review", "audit", "watch", "export", "demo"],
    "Evaluate": ["eval", "data"],
    "Improve": ["ace", "learn"],
    "Inspect": ["view", "report"],
    "Serve": ["serve", "mcp"],
    "Set up": ["setup"],
    "Laboratory": ["lab"],
}


def viper(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, prog_name="viper")


def listed(text: str) -> dict[str, list[str]]:
    """Return the names below each heading of a help page."""
    names: dict[str, list[str]] = {}
    heading = ""
    for line in text.partition("  Exit codes:")[0].splitlines():
        if line.endswith(":") and not line.startswith(" "):
            heading = line[:-1]
        elif heading and line.startswith("  ") and line[2] not in " -":
            names.setdefault(heading, []).append(line.split()[0])
    return names


def walk(group: click.Group) -> list[click.Command]:
    context = click.Context(group)
    commands = [group.get_command(context, name) for name in group.list_commands(context)]
    below = [one for each in commands if isinstance(each, click.Group) for one in walk(each)]
    return [one for one in commands if one is not None] + below


def test_the_help_lists_all_commands_in_sections_and_ends_with_codes_and_variables() -> None:
    shown = viper("--help").output
    assert {key: value for key, value in listed(shown).items() if key != "Options"} == SECTIONS
    exit_codes, _, variables = shown.partition("Exit codes:")[2].partition("Environment variables:")
    assert "130  interrupted" in exit_codes
    assert "VIPER_HOME" in variables and "OPENAI_API_KEY" in variables


@pytest.mark.parametrize(("old", "new"), OLD_NAMES.items())
def test_an_old_name_runs_the_same_command(old: str, new: str) -> None:
    old_help, new_help = (viper(*name.split(), "--help") for name in (old, new))
    assert old_help.exit_code == new_help.exit_code == 0
    usage = old_help.output.partition("\n")[0]
    assert usage == new_help.output.partition("\n")[0] and f"viper {new} " in usage
    assert listed(old_help.output) == listed(new_help.output)


@pytest.mark.parametrize("old", sorted({name.split()[0] for name in OLD_NAMES} - {"ace"}))
def test_the_help_of_an_old_name_says_the_new_one_and_no_list_shows_the_old_one(old: str) -> None:
    assert f"`viper {old}` is an old name of `viper " in viper(old, "--help").output
    assert old not in cli.list_commands(click.Context(cli))


def test_every_command_has_a_help_page_and_a_line_in_its_group() -> None:
    commands = walk(cli)
    assert len(commands) > 50
    assert all(one.get_short_help_str() for one in commands)
    options = [one for command in commands for one in command.params if "--" in one.opts[0]]
    assert [one.opts for one in options if not getattr(one, "help", "")] == []


@pytest.mark.parametrize(
    ("typed", "meant"),
    {
        "rum table.png": "'run'",
        "doktor": "'setup doctor'",
        "setup doktor": "'doctor'",
        "setup profile shwo": "'show'",
        "data scor": "'score'",
        "lab wrold": "'world'",
        "help rum": "'run'",
        "learn prmpts": "prompts",
        "learn wrold-a": "world-a",
        "eval gqaa": "gqa",
        "data check nlvr3": "nlvr",
        "eval gqa --strategy progam": "program",
        "setup profile show embeded": "embedded",
        "setup routine show fnd": "find",
        "setup routine list --api visprg": "visprog",
    }.items(),
)
def test_a_misspelt_name_ends_with_the_likely_one(typed: str, meant: str) -> None:
    result = CliRunner().invoke(cli, typed.split(), prog_name="viper", standalone_mode=False)
    assert result.exception is not None
    shown = getattr(result.exception, "format_message", lambda: str(result.exception))()
    assert f"did you mean {meant}" in shown.replace("Did", "did")
    assert getattr(result.exception, "exit_code", 2) == 2


def test_help_shows_the_page_of_a_command_old_name_or_group() -> None:
    assert viper("help").output == viper("--help").output
    for words in ("run", "learn prompts list", "score", "setup"):
        shown = viper("help", *words.split())
        assert shown.exit_code == 0 and shown.output == viper(*words.split(), "--help").output


@pytest.mark.parametrize(
    "arguments", [["no-such-set"], ["samples", "no-such-set"], ["--from", "no-such-run"]]
)
def test_learn_learns_from_a_set_or_a_run_without_naming_a_command(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, ["learn", *arguments], standalone_mode=False)
    assert "no-such" in str(result.exception)


def test_the_page_of_learn_shows_its_commands_and_how_to_learn_from_a_set() -> None:
    shown = viper("learn", "--help").output
    assert "viper learn SET" in shown
    assert listed(shown)["Learn"] == [*("samples", "feedback", "prompts", "writer", "confidence")]
    assert "--annotated-root" in viper("learn", "world", "--help").output


@pytest.mark.parametrize("command", ["run", "eval", "learn samples", "serve"])
def test_a_help_page_begins_with_ten_options_and_has_sections_for_the_rest(command: str) -> None:
    sections = flags(viper(*command.split(), "--help").output)
    assert len(sections.pop("Options")) == 11  # ten and --help
    assert "Options" not in sections and "--sandbox" in sections["Models and machine"]


@pytest.mark.parametrize("command", ["run", "eval"])
def test_the_bound_in_seconds_has_its_earlier_name_too(command: str) -> None:
    assert "--timeout, --max-seconds SECONDS" in viper(command, "--help").output
    refused = viper(command, "x", "y", "--max-seconds", "-1")
    assert refused.exit_code == 2 and "'--timeout' / '--max-seconds'" in refused.output


@pytest.mark.parametrize("command", ["run", "eval"])
def test_every_strategy_with_settings_has_a_section(command: str) -> None:
    sections = flags(viper(command, "--help").output)
    for strategy, kind in strategy_settings().items():
        offered = {
            one.option.split("/")[0] for one in declared_settings(kind) if one.declaration.cli
        }
        assert set(sections.get(f"Strategy {strategy}", ())) == offered


def flags(text: str) -> dict[str, list[str]]:
    """Return the first spelling of each option below each heading of a help page."""
    sections: dict[str, list[str]] = {}
    heading = ""
    for line in text.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            heading = line[:-1]
        elif match := re.match(r"  (?:-h, )?(--[a-z-]+)", line):
            sections.setdefault(heading, []).append(match[1])
    return sections


def complete(*words: str) -> list[str]:
    items = ShellComplete(cli, {}, "viper", "_VIPER_COMPLETE").get_completions(
        list(words[:-1]), words[-1]
    )
    return [item.value for item in items]


def test_names_and_options_are_completed() -> None:
    assert complete("") == [name for names in SECTIONS.values() for name in names]
    assert complete("learn", "f") == ["feedback", "flags"]
    assert "--annotated-root" in complete("learn", "--ann")
    assert "--annotated-root" in complete("learn", "world", "--ann")
    assert "--predictions" in complete("score", "gqa", "--pred")


def test_commands_of_other_packages_come_last_or_below_their_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "other", click.Command("other", help="Do it."), raising=False)
    names = ("other", "seek.other", "lab.world.other", "reproduce.other")
    with offered("viper.commands", dict.fromkeys(names, f"{__name__}:other")):
        assert listed(viper("--help").output)["Installed packages"] == ["other"]
        for group in ("seek", "world", "reproduce"):
            assert "other" in listed(viper("lab", group, "--help").output)["Commands"]


def test_seeds_have_one_range_in_all_commands() -> None:
    seeds = {
        f"{command.name} {option.opts[0]}": option
        for command in walk(cli)
        for option in command.params
        if "--seed" in option.opts and command.name not in ("render", "knowledge")  # of one scene
    }
    assert len(seeds) > 15
    for name, option in seeds.items():
        assert option.type is SEED, name
    text = " ".join(viper("run", "--help").output.split())
    assert "-2147483648<=x<=2147483648" in text
