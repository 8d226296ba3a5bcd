"""``viper learn``: from labelled samples to a profile with an agent that was tuned on them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from viper.cli import main
from viper.profiles import load_profile

QUESTIONS = ["--split", "train:question", "--limit", "4"]


def viper(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Workflows of four questions in two manners."""
    folder = tmp_path_factory.mktemp("tune") / "made"
    manners = ["--manner", "standard", "--manner", "discrepancy"]
    assert viper("learn", "workflows", "world", *QUESTIONS, *manners, "--out", str(folder)) == 0
    return folder


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_what_is_there_is_not_made_again(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (made / "workflows.jsonl").read_bytes()
    assert viper("learn", "workflows", "world", *QUESTIONS, "--out", str(made), "--json") == 0
    printed = capsys.readouterr()
    assert "discrepancy: 4/4" in printed.err
    told = json.loads(printed.out)["discrepancy"]
    assert told["samples"] == 4 and sum(told["outcomes"].values()) == 4
    assert (made / "workflows.jsonl").read_bytes() == before
    assert {one["manner"] for one in lines(made / "workflows.jsonl")} == {"standard", "discrepancy"}
    assert all(one["kind"] != "question" for one in lines(made / "workflows.jsonl"))


def test_a_budget_leaves_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "made")
    line = ["learn", "workflows", "world", *QUESTIONS, "--workers", "1", "--out", out]
    assert viper(*line, "--budget", "13") == 0
    assert "the same line with a higher --budget goes on" in capsys.readouterr().err
    kept = len(lines(tmp_path / "made" / "workflows.jsonl"))
    assert 0 < kept < 4
    assert viper(*line) == 0
    assert len(lines(tmp_path / "made" / "workflows.jsonl")) == 4


def test_labels_are_asked_once_and_judge_the_flags(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = tmp_path / "labels.jsonl"
    replies = iter(["i", "e", "q", *["e"] * 500])
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: next(replies))
    line = ["learn", "label", str(made), "--limit", "3", "--out", str(labels)]
    assert viper(*line) == 0
    assert [one["effective"] for one in lines(labels)] == [False, True]
    assert viper(*line) == 0
    assert "pass 1 is over" in capsys.readouterr().out
    said = lines(labels)
    actions = {(one["workflow"], one["manner"], one["turn"]) for one in said}
    assert len(actions) == len(said) > 4
    capsys.readouterr()
    assert viper("learn", "flags", str(made), "--labels", str(labels), "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["labelled"] > 4 and report["agreement"]["all"]["recall"]["n"] >= 1


@pytest.mark.timeout(600)
def test_a_tuned_agent_is_a_profile(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tuned"
    line = ["learn", "agent", str(made), "--steps", "2", "--batch", "4", "--held-out", "0.4",
            "--out", str(out)]  # fmt: skip
    assert viper(*line) == 0
    assert capsys.readouterr().out.strip() == str(out / "profile.toml")
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "viper learn agent" in card and "its effective actions were masked" in card
    assert re.search(r"loss of a token \d\.\d{4} before, \d\.\d{4} after", card)
    picture = tmp_path / "grey.png"
    Image.fromarray(np.full((144, 192, 3), 150, np.uint8)).save(picture)
    profile = str(out / "profile.toml")
    asked = ["run", str(picture), "how many cubes?", "--strategy", "explore", "--json", "--force"]
    assert viper(*asked, "--profile", profile) == 0
    assert json.loads(capsys.readouterr().out)["turns"]
    tuned, own = (load_profile(one).document.models["explorer"] for one in (profile, "embedded"))
    assert tuned is not None and own is not None
    assert tuned.options["adapter"] == str(out / "model") and "adapter" not in own.options
    assert viper(*line) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.timeout(600)
def test_flags_of_others_are_kept_and_learned_from(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "flags.jsonl"
    assert viper("learn", "flags", str(made), "--out", str(kept)) == 0
    flags = lines(kept)
    assert len(flags) > 8 and all(one["effective"] in (True, False) for one in flags)
    flags[0]["effective"] = False
    kept.write_text("".join(f"{json.dumps(one)}\n" for one in flags), encoding="utf-8")
    assert viper("learn", "flags", str(made), "--out", str(kept)) == 2
    only = [one | {"effective": False} for one in flags]
    nothing = tmp_path / "nothing.jsonl"
    nothing.write_text("".join(f"{json.dumps(one)}\n" for one in only), encoding="utf-8")
    line = ["learn", "agent", str(made), "--steps", "1", "--batch", "2"]
    assert viper(*line, "--flags", str(nothing), "--out", str(tmp_path / "a")) == 2
    assert "none of 0 actions" in capsys.readouterr().err
    others = tmp_path / "others.jsonl"
    record = json.dumps(flags[0] | {"workflow": "of another set"})
    others.write_text(f"{record}\n", encoding="utf-8")
    assert viper(*line, "--flags", str(others), "--out", str(tmp_path / "b")) == 2
    assert "flags no action" in capsys.readouterr().err
    out = tmp_path / "c"
    assert viper(*line, "--flags", str(kept), "--api", "dwim-gd", "--out", str(out)) == 0
    assert f"flagged by: {kept}" in (out / "README.md").read_text(encoding="utf-8")
    assert load_profile(str(out / "profile.toml")).document.run.api == "dwim-gd"


def test_nothing_to_learn_from(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none = tmp_path / "none"
    line = ["learn", "agent", str(made), "--manner", "given", "--out", str(none)]
    assert viper(*line) == 2
    assert "none of 8 workflows ended right" in capsys.readouterr().err and not none.exists()
    assert viper("learn", "flags", str(tmp_path)) == 2
    assert "make workflows with viper learn workflows" in capsys.readouterr().err
