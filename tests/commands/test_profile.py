"""``viper setup profile`` and ``viper run --dry-run``: what would run, without running it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import viper
from viper.cli import cli
from viper.errors import UsageError
from viper.profiles.files import read_profile

TABLE = str(Path(viper.__file__).parent / "embedded" / "media" / "table.png")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIPER_HOME", str(tmp_path / "home"))


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), standalone_mode=False)


def test_list_says_what_can_run_here() -> None:
    lines = ran("setup", "profile", "list").stdout.splitlines()
    assert any(line.startswith("embedded") and "runs here" in line for line in lines)
    assert any(line.startswith("local") and "downloads first" in line for line in lines)


def test_show_as_words_and_as_json() -> None:
    text = ran("setup", "profile", "show", "embedded").stdout
    assert "embedded:detector" in text and "detector.threshold" in text
    found = json.loads(ran("setup", "profile", "show", "embedded", "--json").stdout)
    roles = [model["role"] for model in found["models"]]
    assert roles[:6] == ["llm", "planner", "seeker", "explorer", "looker", "detector"]
    writer, planner = found["models"][:2]
    assert writer["size_bytes"] > 4e7 and planner["size_bytes"] is None  # the writer's weights
    assert found["run"]["api"] == "abstract+more"


def test_show_tells_what_a_threshold_is_where_nothing_tunes_it() -> None:
    lines = ran("setup", "profile", "show", "paper-programmers").stdout.splitlines()
    (line,) = [line for line in lines if "detector.threshold" in line]
    assert line.endswith("0.15, lowered by 0.05 down to 0.05; 0.1 where nothing tunes it")
    (other,) = [line for line in lines if "matcher.threshold" in line]
    assert other.endswith("down to 0.3")


def test_check_needs_no_download_and_offline_misses_one() -> None:
    assert ran("setup", "profile", "check", "embedded").return_value == 0
    offline = ran("setup", "profile", "check", "local", "--offline")
    assert offline.return_value == 1
    assert "problem: llm: Qwen/Qwen3-VL-8B-Instruct is not on this disk" in offline.stdout


def test_a_new_profile_is_found_by_its_name(tmp_path: Path) -> None:
    assert ran("setup", "profile", "new", "mine").return_value == 0
    assert any(
        line.startswith("mine ") for line in ran("setup", "profile", "list").stdout.splitlines()
    )
    assert ran("setup", "profile", "check", "mine").return_value == 0
    again = ran("setup", "profile", "new", "mine").exception
    assert isinstance(again, UsageError) and "exists already" in str(again)
    shipped = ran("setup", "profile", "new", "local").exception
    assert isinstance(shipped, UsageError)
    odd = ran("setup", "profile", "new", "../mine").exception
    assert isinstance(odd, UsageError) and "cannot name a profile" in str(odd)


def test_a_state_has_profiles_of_its_own(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"))
    assert ran("setup", "profile", "new", "mine", *state).return_value == 0
    assert (tmp_path / "state" / "profiles" / "mine.toml").is_file()
    for command in (("setup", "profile", "check", "mine"), ("setup", "profile", "show", "mine")):
        assert ran(*command, *state).return_value == 0
        assert isinstance(ran(*command).exception, UsageError)
    listed = ran("setup", "profile", "list", *state).stdout.splitlines()
    assert any(line.startswith("mine ") for line in listed)
    said = json.loads(ran("setup", "doctor", "--json", *state).stdout)
    assert "mine" in said["profiles"]
    assert "mine" not in json.loads(ran("setup", "doctor", "--json").stdout)["profiles"]


def test_a_copy_in_another_folder_finds_what_lies_beside_the_original(tmp_path: Path) -> None:
    shipped = read_profile("embedded").path
    assert shipped is not None
    text = shipped.read_text().replace('bank = "embedded:default"', 'bank = "mine.jsonl"')
    (tmp_path / "mine.jsonl").write_text("")
    (tmp_path / "first.toml").write_text(text)
    assert ran("setup", "profile", "check", str(tmp_path / "first.toml")).return_value == 0
    copied = ("setup", "profile", "new", "second", "--from", str(tmp_path / "first.toml"))
    assert ran(*copied).return_value == 0
    assert ran("setup", "profile", "check", "second").return_value == 0
    assert read_profile("second").bank == str(tmp_path / "mine.jsonl")


def test_a_dry_run_loads_no_model_and_says_what_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("viper.profiles.backends.load_backend", refuse)
    done = ran("run", TABLE, "the leftmost cube", "--dry-run")
    assert done.return_value == 0, done.exception
    assert "embedded:writer" in done.stdout
    assert "1 to 2 programs" in done.stdout and "at most 200" in done.stdout


def test_a_dry_run_of_what_cannot_run_fails() -> None:
    done = ran("run", TABLE, "the leftmost cube", "--dry-run", "--profile", "local", "--offline")
    assert done.return_value == 1 and "is not on this disk" in done.stdout
