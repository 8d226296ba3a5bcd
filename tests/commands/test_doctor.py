"""What ``viper setup doctor`` says of this machine."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from viper.cli import cli
from viper.commands import doctor


def test_doctor_names_every_layer_with_what_is_lost_without_it() -> None:
    done = CliRunner().invoke(cli, ["setup", "doctor", "--json"], standalone_mode=False)
    assert done.exception is None, done.output
    found = json.loads(done.stdout)
    layers = {layer["layer"]: layer for layer in found["sandbox"]}
    assert layers["seccomp"]["required"] and "refuses" in layers["seccomp"]["without"]
    assert all(layer["detail"] and layer["without"] for layer in layers.values())
    assert found["profiles"]["embedded"]["runs"]


def test_the_same_in_words() -> None:
    text = CliRunner().invoke(cli, ["doctor"], standalone_mode=False).stdout
    assert "seccomp" in text and "without it: every system call is in reach" in text


def test_packages_for_spreading_and_for_fewer_bits_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "is_installed", lambda package: package == "accelerate")
    done = CliRunner().invoke(cli, ["setup", "doctor", "--json"], standalone_mode=False)
    extras = json.loads(done.stdout)["extras"]
    assert extras["large"]["installed"] and "bits" not in extras["large"]["purpose"]
    assert not extras["quantize"]["installed"] and "bits" in extras["quantize"]["purpose"]
    assert extras["quantize"]["install"] == 'pip install "viper-reasoner[large]"'
