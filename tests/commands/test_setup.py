"""``viper setup`` against a hub of this machine, with small models under the published names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.hub.server import PIECE, TOKEN, Hub, serve, use_endpoint
from tests.models.vision import built, tiny_chat
from viper.cli import cli
from viper.embedded import MEDIA, WEIGHTS
from viper.profiles import load_profile
from viper.profiles.files import default_profile, proposed_profiles, read_profile
from viper.profiles.fit import Machine
from viper.profiles.inventory import downloads

TIERS = [
    document.name for _, document in proposed_profiles() if downloads(load_profile(document.name))
]
BIG = Machine("Card", 80.0, 128.0, 500.0)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Small models by a part of the published name."""
    root = tmp_path_factory.mktemp("checkpoints")
    vlm = tiny_chat.qwen3_vl(root / "vlm")
    config = json.loads((vlm / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = 32_768
    (vlm / "config.json").write_text(json.dumps(config))
    encoder = root / "encoder"
    shutil.copytree(WEIGHTS / "vqa", encoder)  # any network with a tokenizer
    return {
        "Qwen3-VL": vlm,
        "owlv2": built.save("owlv2", root / "owlv2"),
        "llmdet": built.save("mm_grounding_dino", root / "llmdet"),
        "Depth-Anything": built.save("depth_anything", root / "depth"),
        "sam2": built.save("sam2", root / "sam2"),
        "SigLIP2": WEIGHTS / "matcher",
        "inpainting": WEIGHTS / "inpainter",
        "MiniLM": encoder,
    }


@pytest.fixture
def hub(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, checkpoints: Mapping[str, Path]
) -> Iterator[Hub]:
    monkeypatch.setenv("VIPER_HOME", str(tmp_path / "home"))
    for name in ("VIPER_PROFILE", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Machine, "here", classmethod(lambda cls: BIG))
    with serve() as running:
        running.use(monkeypatch, tmp_path / "cache")
        for tier in TIERS:
            for each in downloads(load_profile(tier)):
                (part,) = [part for part in checkpoints if part in str(each.model)]
                running.add(str(each.model).removeprefix("hf-hub:"), checkpoints[part])
        yield running


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["setup", *arguments], standalone_mode=False)


def runnable(tier: str, tmp_path: Path) -> str:
    """Return a profile that extends the tier so that it runs on a processor without packages for
    quantisation or an endpoint.
    """
    path = tmp_path / f"{tier}.toml"
    model = read_profile("cpu").llm.model if tier.startswith("endpoint") else None
    model = model or read_profile(tier).llm.model
    path.write_text(
        f'extends = "{tier}"\n[load]\ndevice = "cpu"\n[llm]\nbackend = "vlm"\nmodel = "{model}"\n'
        "[run]\ntrials = 1\nmax_tokens = 8\n"
    )
    return str(path)


@pytest.mark.parametrize("tier", TIERS)
def test_every_tier_is_downloaded_tried_and_made_the_default(
    hub: Hub, tmp_path: Path, tier: str
) -> None:
    profile = runnable(tier, tmp_path)
    result = ran("--profile", profile, "--yes")
    assert result.exception is None, result.output
    assert result.return_value == 0 and "answer   how many objects" in result.stdout
    assert not downloads(load_profile(profile))
    assert default_profile() == profile
    hub.requests.clear()
    assert ran("--check").return_value == 0
    assert not [path for _, path in hub.requests if path.strip("/")]  # asked whether it answers


def test_the_best_profile_that_fits_is_proposed(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ran().stdout.splitlines()
    assert "proposed gpu-80gb" in lines and any("download" in line for line in lines)
    monkeypatch.setattr(Machine, "here", classmethod(lambda cls: Machine(None, 0.0, 16.0, 50.0)))
    assert "proposed cpu" in ran().stdout
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-a-test-that-is-long")
    assert "proposed endpoint-detector" in ran().stdout
    small = Machine(None, 0.0, 3.0, 50.0)
    monkeypatch.setattr(Machine, "here", classmethod(lambda cls: small))
    assert "no profile fits this machine" in str(ran().exception)


def test_nothing_is_downloaded_unless_somebody_agrees(hub: Hub) -> None:
    result = ran("--profile", "cpu")
    assert "go on with --yes" in str(result.exception) and not hub.sent
    assert ran("--profile", "cpu", "--check").return_value == 1 and not hub.sent
    assert default_profile() == "embedded"


def test_a_download_killed_twice_ends_whole(hub: Hub, tmp_path: Path) -> None:
    profile = runnable("cpu", tmp_path)
    line = f"""
from huggingface_hub import constants
constants.DOWNLOAD_CHUNK_SIZE = {PIECE}  # what a kill loses at most
from viper.cli import main
main(["setup", "--profile", {profile!r}, "--yes"])
"""
    environment = {**os.environ, **hub.environment(tmp_path / "cache")}
    hub.stop_after = 2 * PIECE
    for _ in range(2):
        hub.stopped.clear()
        process = subprocess.Popen(
            [sys.executable, "-c", line], env=environment, stdout=subprocess.DEVNULL, stderr=-3
        )
        assert hub.stopped.wait(60)
        process.kill()
        process.wait()
        checked = ran("--profile", profile, "--check")
        assert checked.return_value == 1 and " MB of " in checked.stdout
        assert default_profile() == "embedded"
    hub.stop_after = None
    hub.go_on.set()
    assert ran("--profile", profile, "--yes").return_value == 0
    assert not downloads(load_profile(profile)) and default_profile() == profile
    sizes = [len(each) for r in hub.repositories.values() for each in r.files.values()]
    assert sum(hub.sent.values()) <= sum(sizes) + 2 * 2 * PIECE


def test_a_licence_that_was_not_accepted_ends_in_one_line(hub: Hub, tmp_path: Path) -> None:
    hub.repositories["facebook/sam2.1-hiera-tiny"].gated = True
    error = str(ran("--profile", runnable("cpu", tmp_path), "--yes").exception)
    assert "\n" not in error and "accept its licence" in error and TOKEN not in error
    assert default_profile() == "embedded"


def test_a_full_disk_ends_in_one_line(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = runnable("cpu", tmp_path)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("viper.models.hub.shutil.disk_usage", lambda _: usage._replace(free=10))
    error = str(ran("--profile", profile, "--yes").exception)
    assert "\n" not in error and "are free in" in error


def test_too_small_a_disk_or_memory_is_a_problem_before_anything_is_downloaded(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    for machine, said in (
        (replace(BIG, disk_gb=2.0), "GB are free"),
        (replace(BIG, gpu_gib=4.0), "use --profile"),
    ):
        monkeypatch.setattr(Machine, "here", classmethod(lambda cls, here=machine: here))
        result = ran("--profile", "gpu-24gb", "--yes")
        assert result.return_value == 1 and said in result.stdout and not hub.sent


def test_without_a_hub_one_line_lists_what_is_missing(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_endpoint(monkeypatch, "http://127.0.0.1:9", tmp_path / "cache")
    result = ran("--profile", "cpu", "--yes")
    (line,) = [line for line in result.stdout.splitlines() if "not on this disk" in line]
    sources = [str(each.model) for each in downloads(load_profile("cpu"))]
    assert result.return_value == 1 and all(source in line for source in sources)
    picture = str(MEDIA / "table.png")
    for command in (["run", picture, "how many?"], ["eval", "world", "--limit", "1"]):
        line = [*command, "--profile", "cpu"]
        line += ["--out", str(tmp_path / "run")] if command[0] == "eval" else []
        run = CliRunner().invoke(cli, line, standalone_mode=False)
        assert all(source in str(run.exception) for source in sources), command


def test_the_default_profile_is_the_variables_then_the_files_then_the_shipped_one(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert read_profile("auto").name == "embedded"
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text('profile = "endpoint"\n')
    assert read_profile("auto").name == "endpoint"
    monkeypatch.setenv("VIPER_PROFILE", "cpu")
    assert read_profile("auto").name == "cpu"
    monkeypatch.delenv("VIPER_PROFILE")
    (tmp_path / "home" / "config.toml").write_text("profile = 3\n")
    assert "config.toml:1: profile" in str(ran("--check").exception)


def test_keys_are_named_but_never_shown(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecretsecret")
    result = ran("--check")
    assert "HF_TOKEN is set" in result.stdout and "secretsecret" not in result.output


def test_ctrl_c_in_a_download_says_how_to_continue(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("viper.commands.download.local_copy", interrupt)
    result = ran("--profile", runnable("cpu", tmp_path), "--yes")
    assert "the same line again" in result.stderr
