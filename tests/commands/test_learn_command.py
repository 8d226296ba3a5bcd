"""``viper learn`` from the command line, on fake models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evaluate.fake_backends import a_set
from viper.ace.pool import DemonstrationPool
from viper.cli import main
from viper.evaluate.runs.store import RunStore

Capture = pytest.CaptureFixture[str]


def viper(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.fixture
def learn(tmp_path: Path) -> list[str]:
    file, profile = a_set(tmp_path / "set", 9)
    return [
        "learn", str(file), "--profile", str(profile), "--tools", "none",
        "--state", str(tmp_path / "state"), "--out", str(tmp_path / "run"),
    ]  # fmt: skip


def test_right_answers_become_examples_of_later_runs(
    learn: list[str], capsys: Capture, tmp_path: Path
) -> None:
    code, out, _ = viper(capsys, *learn, "--json")
    made = json.loads(out)
    assert code == 0 and made["samples"] == 9 and made["problems"] == []
    kept = DemonstrationPool(tmp_path / "state" / "demonstrations").items()
    assert len(kept) == made["demonstrations"] > 0
    with RunStore.read(tmp_path / "run") as store:
        assert store.count() == 9
        assert "soft prompts" not in store.manifest.models
    picture = str(tmp_path / "set" / "pictures" / "0.png")
    asked = ["run", picture, "what color is thing 1 now?", "--task", "question", "--show-prompt",
             "--profile", learn[3], "--state", str(tmp_path / "state")]  # fmt: skip
    _, shown, _ = viper(capsys, *asked)
    _, plain, _ = viper(capsys, *asked, "--no-learned")
    assert len(shown) > len(plain)


def test_the_same_line_goes_on_and_changes_nothing(learn: list[str], capsys: Capture) -> None:
    _, first, _ = viper(capsys, *learn, "--json")
    code, again, err = viper(capsys, *learn, "--json")
    assert code == 0 and json.loads(again) == json.loads(first)


def test_another_line_into_the_same_folder_is_refused(learn: list[str], capsys: Capture) -> None:
    viper(capsys, *learn)
    code, _, err = viper(capsys, *learn, "--limit", "4")
    assert code == 2 and len(err.strip().splitlines()[-1]) > 20 and "Traceback" not in err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--tools", "loc,legs"], "'legs'"),
        (["--tools", "loc", "--annotated", "lvis"], "--annotated-root"),
        (["--tools", "match", "--pictures", "nowhere"], "a folder of pictures"),
        (["--strategy", "guess"], "'guess'"),
    ],
)
def test_bad_input_is_one_line(
    learn: list[str], capsys: Capture, more: list[str], says: str
) -> None:
    code, out, err = viper(capsys, *learn, *more)
    assert code == 2 and out == "" and says in err.strip().splitlines()[-1]


def test_a_web_search_is_described_by_a_file(
    learn: list[str], capsys: Capture, tmp_path: Path
) -> None:
    described = tmp_path / "search.toml"
    for text, says in (
        ("address = 3", "address"),
        ('adress = "https://a.example/?q={text}"', "'adress'"),
        ('items = "x"', "no address"),
        ("not toml at all", "cannot be read as TOML"),
        ('address = "https://a.example/?q={text}"\nhosts = "b"', "list of texts"),
    ):
        described.write_text(text)
        code, _, err = viper(capsys, *learn, "--tools", "match", "--pictures", str(described))
        assert code == 2 and says in err.strip().splitlines()[-1], err


def test_the_table_says_what_was_learned(learn: list[str], capsys: Capture) -> None:
    code, out, err = viper(capsys, *learn, "--online", "--demonstrations", "correct")
    assert code == 0 and "first answers" in out and "9" in out
    assert "9/9 answered" in err
