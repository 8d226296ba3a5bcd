"""Threads of numerical libraries: as many as suit the models, waiting asleep."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from viper.threads import (
    COUNT,
    PASSIVE,
    available_cores,
    compute_with,
    thread_count,
    wait_passively,
)


def test_waiting_threads_sleep_unless_the_user_says_how_they_wait() -> None:
    environment = {"HOME": "/"}
    wait_passively(environment)
    assert environment == {"HOME": "/", **PASSIVE}
    for chosen in ({"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "100"}):
        environment = dict(chosen)
        wait_passively(environment)
        assert environment == chosen


def test_a_count_of_the_user_is_never_changed() -> None:
    environment = {COUNT: "7"}
    compute_with(1, environment)
    assert environment == {COUNT: "7"}


def test_a_later_profile_changes_the_count_of_an_earlier_one() -> None:
    before, environment = torch.get_num_threads(), dict[str, str]()
    try:
        compute_with(3, environment)
        assert environment[COUNT] == "3" and torch.get_num_threads() == 3
        compute_with(0, environment)
        assert environment[COUNT] == str(available_cores())
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("value", "count"), [("3", 3), ("3,2", 3), ("0", 5), ("many", 5)])
def test_libraries_without_openmp_follow_the_same_variable(
    monkeypatch: pytest.MonkeyPatch, value: str, count: int
) -> None:
    monkeypatch.setenv(COUNT, value)
    assert thread_count(5) == count


def test_a_quota_of_a_container_bounds_the_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cores = available_cores()
    monkeypatch.setattr(Path, "read_text", lambda self, encoding: "100000 100000\n")
    assert available_cores() == 1
    monkeypatch.setattr(Path, "read_text", lambda self, encoding: "max 100000\n")
    assert available_cores() >= cores


def in_fresh_process(code: str, **variables: str) -> dict[str, str]:
    known = {COUNT, "VIPER_THREADS", *PASSIVE}
    environment = {name: value for name, value in os.environ.items() if name not in known}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | variables,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


COMMAND = """
import json, os, sys
sys.argv = ["viper", "--help"]
from viper import __main__ as entry, cli
cli.main = lambda: print(json.dumps(dict(os.environ)))
assert "numpy" not in sys.modules and "torch" not in sys.modules
entry.main()
"""


def test_the_command_settles_before_a_numerical_library_loads() -> None:
    assert PASSIVE.items() <= in_fresh_process(COMMAND).items()
    assert "OMP_WAIT_POLICY=ACTIVE" in [
        f"{name}={value}"
        for name, value in in_fresh_process(COMMAND, OMP_WAIT_POLICY="ACTIVE").items()
    ]


PROFILE = """
import json, os, sys
from viper import load_profile
load_profile("embedded").components().close()
import torch
print(json.dumps({"threads": torch.get_num_threads(), **os.environ}))
"""


@pytest.mark.parametrize(("chosen", "threads"), [({}, 1), ({COUNT: "2"}, 2)])
def test_the_embedded_models_compute_with_one_thread_unless_the_user_says(
    chosen: dict[str, str], threads: int
) -> None:
    assert in_fresh_process(PROFILE, **chosen)["threads"] == threads
