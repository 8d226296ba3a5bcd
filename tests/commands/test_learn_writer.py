"""``viper learn writer``: a writer learns its own programs, and becomes a profile."""

from __future__ import annotations

from pathlib import Path

import pytest

from viper.cli import main
from viper.profiles import load_profile
from viper.tuning.agent.tuned_model import tuned_profile

LINE = ["learn", "writer", "world", "--profile", "embedded-small", "--split", "train:question",
        "--limit", "6", "--programs", "2", "--scenes", "2", "--rounds", "2", "--steps", "2",
        "--batch", "2", "--rank", "4", "--held-out", "0.4"]  # fmt: skip


def viper(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


@pytest.mark.timeout(600)
def test_a_self_trained_writer_is_a_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "taught"
    assert viper(*LINE, "--out", str(out)) == 0
    printed = capsys.readouterr()
    assert printed.out.strip() == str(out / "profile.toml")
    assert "round 2" in printed.err and "held-out score" in printed.err
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "viper learn writer" in card and "- samples: 4, and 2 held out" in card
    model = load_profile(str(out / "profile.toml")).document.llm
    assert model.options["adapter"] == str(out / "model")
    assert (out / "model" / "adapter_model.safetensors").is_file()
    assert viper(*LINE, "--out", str(out)) == 2
    assert "exists already" in capsys.readouterr().err
    again = ["--out", str(tmp_path / "again"), "--work", str(tmp_path / "taught.work")]
    assert viper(*LINE, *again) == 0
    assert "tuning" not in capsys.readouterr().err
    one, other = (
        tmp_path / each / "model" / "adapter_model.safetensors" for each in ("taught", "again")
    )
    assert one.read_bytes() == other.read_bytes()
    assert viper(*LINE, "--steps", "3", "--out", str(tmp_path / "third"), *again[2:]) == 2
    assert "trained with other options" in capsys.readouterr().err


def test_a_tuned_profile_names_the_model_of_a_profile_elsewhere(tmp_path: Path) -> None:
    lines = ['extends = "embedded"', "[llm]", 'backend = "transformers"', 'model = "./mine"']
    (tmp_path / "own.toml").write_text("\n".join(lines), encoding="utf-8")
    profile = load_profile(str(tmp_path / "own.toml"))
    text = tuned_profile(profile, "taught", tmp_path / "out" / "model", True, role="llm")
    assert f'model = "{tmp_path / "mine"}"' in text


def test_a_writer_behind_an_endpoint_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert viper(*LINE, "--profile", "openai", "--out", str(tmp_path / "taught")) == 2
    assert "only a model that is loaded here can be tuned" in capsys.readouterr().err
    assert not (tmp_path / "taught").exists()
