"""A profile written anew with other values: comments stay, paths are found from everywhere."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from viper.profiles.document import ProfileDocument
from viper.profiles.files import known_profiles, read_profile, whole_api, with_values
from viper.tools.settings import ThresholdSchedule

OLD = """# what it is for
description = "d"  # said in lists
[llm]
backend = "transformers"
model = "./weights"  # beside this file
[roles]
detector = { backend = "owlv2", model = "../detector" }
matcher = { backend = "open_clip", model = "embedded:matcher" }
vqa = { backend = "chat", model = "Some/Model" }
[sensitivities]
# calibrated on the first of May
"detector.threshold" = { start = 0.40, step = 0.10, floor = 0.10 }  # the detector's
[sensitivities."video.threshold"]
start = 0.30  # of events
step = 0.1
floor = 0.05
[run]
api = "abstract + own.py"
temperature = 0.0  # greedy
bank = "banks/mine.jsonl"
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "old.toml").write_text(OLD)
    return folder / "old.toml"


def read(tmp_path: Path, text: str) -> ProfileDocument:
    path = tmp_path / "elsewhere" / "new.toml"
    path.parent.mkdir()
    path.write_text(text)
    return read_profile(str(path))


def test_values_change_and_comments_stay(old: Path, tmp_path: Path) -> None:
    detector = ThresholdSchedule(0.4, 0.1, 0.05, fixed=0.05)
    video = ThresholdSchedule(0.3, 0.1, 0.05, fixed=0.2)
    text = with_values(
        old, "new", {"temperature": 0.8}, {"detector.threshold": detector, "video.threshold": video}
    )
    for comment in ("what it is for", "said in lists", "beside this file", "calibrated on",
                    "the detector's", "of events", "greedy"):  # fmt: skip
        assert f"# {comment}" in text
    assert "start = 0.40, step = 0.10, floor = 0.05, fixed = 0.05" in text
    document = read(tmp_path, text)
    assert (document.name, document.description) == ("new", "d")
    assert document.run.temperature == 0.8
    found = document.tools.sensitivities
    assert found == {"detector.threshold": detector, "video.threshold": video}


def test_paths_from_the_profiles_folder_are_written_whole(old: Path, tmp_path: Path) -> None:
    document = read(tmp_path, with_values(old, "new"))
    assert document.bank == str(old.parent / "banks" / "mine.jsonl")
    assert document.run.api == f"abstract+{old.parent / 'own.py'}"
    assert document.llm.model == str(old.parent / "weights")
    models = {role: choice.model for role, choice in document.roles.items()}
    assert models == {
        "detector": str(tmp_path / "detector"),
        "matcher": "embedded:matcher",
        "vqa": "Some/Model",
    }


def test_a_profile_named_by_a_relative_path(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = read(tmp_path, with_values(Path("old/old.toml"), "new"))
    assert document.bank == str(old.parent / "banks" / "mine.jsonl")


@pytest.mark.parametrize("bank", ["embedded:default", "/somewhere/other.jsonl"])
def test_another_bank(old: Path, tmp_path: Path, bank: str) -> None:
    assert read(tmp_path, with_values(old, "new", {"bank": bank})).bank == bank


def test_a_profile_without_settings_gets_them(tmp_path: Path) -> None:
    path = tmp_path / "bare.toml"
    path.write_text('[llm]\nbackend = "transformers"\nmodel = "m"\n')
    document = read(tmp_path, with_values(path, "new", {"temperature": 0.4, "bank": "/b.jsonl"}))
    assert (document.name, document.run.temperature, document.bank) == ("new", 0.4, "/b.jsonl")
    path.write_text('[llm]\nbackend = "transformers"\nmodel = "m"\n')
    assert "[run]" not in with_values(path, "new")


@pytest.mark.parametrize("name", ["embedded", "local", "paper-programmers"])
def test_shipped_profiles_change_in_their_name_alone(name: str, tmp_path: Path) -> None:
    path = known_profiles()[name]
    text = with_values(path, "mine")
    lines = zip(path.read_text().splitlines(), text.splitlines(), strict=True)
    assert [(a, b) for a, b in lines if a != b] == [(f'name = "{name}"', 'name = "mine"')]
    before = read_profile(name)
    assert read(tmp_path, text) == replace(
        before, name="mine", path=tmp_path / "elsewhere" / "new.toml"
    )


def test_files_of_an_api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert whole_api("abstract+../own.py", tmp_path) == f"abstract+{tmp_path.parent / 'own.py'}"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert whole_api("~/own.py", Path("/else")) == str(tmp_path / "own.py")
    assert whole_api("vipergpt", tmp_path) == "vipergpt"


def test_every_path_from_the_profiles_folder_is_found_from_another(tmp_path: Path) -> None:
    old = tmp_path / "old.toml"
    old.write_text(
        """name = "old"
description = "x"
[run]
graph = "./graph.toml"
decisions = "../decided.jsonl"
[llm]
backend = "transformers"
model = "./model"
style = "compact"
options = { adapter = "./adapter", device = "cpu" }
""",
        encoding="utf-8",
    )
    text = with_values(old, "new")
    found = tomllib.loads(text)
    assert found["run"]["graph"] == str(tmp_path / "graph.toml")
    assert found["run"]["decisions"] == str(tmp_path.parent / "decided.jsonl")
    assert found["llm"]["model"] == str(tmp_path / "model")
    assert found["llm"]["options"] == {"adapter": str(tmp_path / "adapter"), "device": "cpu"}
