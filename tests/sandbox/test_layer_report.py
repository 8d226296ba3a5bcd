"""With any one layer away, the others hold; ``python -m tests.sandbox.layers`` tries every case."""

from __future__ import annotations

import pytest

from tests.sandbox.abuse import LANGUAGE_CASES
from tests.sandbox.abuse.stage import Stage
from tests.sandbox.layers import LAYERS, SYSTEM_CALLS, all_but, went_through
from viper.errors import SandboxUnavailableError
from viper.sandbox import Sandbox
from viper.sandbox.sandbox import REQUIRED_LAYERS

FILES = tuple(
    case
    for case in SYSTEM_CALLS
    if case.name in ("read a file", "make a file", "list a folder", "open", "creat", "connect")
)


@pytest.mark.parametrize("layer", LAYERS)
def test_the_policy_needs_no_layer_of_the_process(layer: str, stage: Stage) -> None:
    assert went_through(stage, LANGUAGE_CASES[::12], (layer,)) == ()


@pytest.mark.parametrize("layer", sorted({*LAYERS} - {"seccomp"}))
def test_system_calls_fail_without_another_layer(layer: str, stage: Stage) -> None:
    assert went_through(stage, SYSTEM_CALLS[::3], (layer,)) == ()


def test_files_and_the_network_stay_closed_without_seccomp(stage: Stage) -> None:
    assert went_through(stage, FILES, ("seccomp",)) == ()


def test_seccomp_alone_stops_all_of_them(stage: Stage) -> None:
    assert went_through(stage, SYSTEM_CALLS, all_but("seccomp")) == ()


def test_all_of_them_go_through_where_no_layer_is(stage: Stage) -> None:
    assert len(went_through(stage, SYSTEM_CALLS, LAYERS)) == len(SYSTEM_CALLS)


@pytest.mark.parametrize("layer", REQUIRED_LAYERS)
def test_strict_demands_every_layer_that_it_names(layer: str) -> None:
    with Sandbox(without=(layer,)) as sandbox, pytest.raises(SandboxUnavailableError) as refused:
        sandbox.run("answer = 1")
    said = str(refused.value)
    assert f"the sandbox layer {layer} is missing (left out): a" in said and "\n" not in said
    with Sandbox(without=(layer,), mode="weak") as sandbox:
        assert sandbox.run("answer = 1").value == 1
