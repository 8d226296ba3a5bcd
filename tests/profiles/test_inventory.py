"""What a profile's models need: on this disk, partly there, to be downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.server import Hub, serve
from viper.models.checkpoints import facts_of
from viper.models.hub import local_copy
from viper.models.loading import LoadOptions
from viper.profiles import load_profile
from viper.profiles.inventory import ModelState, inventory, readiness
from viper.profiles.wiring import Profile

DETECTOR = "google/owlv2-base-patch16-ensemble"
FILES = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"w" * 3_000_000}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with serve() as running:
        running.use(monkeypatch, tmp_path / "cache")
        running.add(DETECTOR, FILES)
        yield running


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\ndescription = "for a test"\nextends = "embedded"\n'
        f'[roles]\ndetector = {{ backend = "owlv2", model = "{DETECTOR}" }}\n'
    )
    return load_profile(str(path))


def detector_of(profile: Profile, offline: bool = False) -> ModelState:
    return next(state for state in inventory(profile, offline) if state.role == "detector")


def test_model_on_the_hub_states_the_size_of_its_download(hub: Hub, profile: Profile) -> None:
    facts = facts_of(DETECTOR)
    assert facts is not None
    state = detector_of(profile)
    assert (state.place, state.size_bytes) == ("hub", None)
    assert state.whole_bytes == round(facts.disk_gb * 1e9)
    assert readiness(profile) == ("downloads first", f"not on this disk: {DETECTOR} ({state.size})")
    assert hub.requests == []


def test_part_of_a_model_is_not_the_model(hub: Hub, profile: Profile) -> None:
    folder = local_copy(DETECTOR, LoadOptions())
    (folder / "model.safetensors").unlink()
    state = detector_of(profile)
    assert state.place == "partial" and state.problem is None
    assert state.size_bytes == 4 and state.size.startswith("0 MB of ")
    assert readiness(profile)[0] == "downloads first"
    problem = detector_of(profile, offline=True).problem
    assert problem is not None and f"{DETECTOR} is only partly on this disk" in problem
    assert "missing: model.safetensors" in problem


def test_whole_model_is_in_the_cache(hub: Hub, profile: Profile) -> None:
    local_copy(DETECTOR, LoadOptions())
    state = detector_of(profile, offline=True)
    assert (state.place, state.size, state.problem) == ("cache", "3 MB", None)
    assert readiness(profile) == ("runs here", None)
