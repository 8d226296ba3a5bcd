"""Programs that try to get out; none may hand anything over.

The attempts are data: ``tests/sandbox/abuse``. That they would be noticed if a guard were
missing is shown by ``test_abuse_oracles.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.sandbox.abuse import CASES
from tests.sandbox.abuse.case import MARK, Case, breach
from tests.sandbox.abuse.stage import HOSTILE, Stage
from tests.sandbox.abuse.wire_frames import call, done
from viper.sandbox import Sandbox
from viper.sandbox.classes import ForbiddenAttributeError, ForbiddenTypeError
from viper.sandbox.guards import Guards
from viper.testing.fakes import ScriptedTools

ORDINARY = (
    None, "AttributeError", "IndexError", "KeyError", "NameError", "OverflowError", "TypeError",
    "ValueError",
)  # fmt: skip
"""Exceptions that an attempt on the language may run into, as any mistaken program would."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attempt_fails(case: Case, either_stage: Stage) -> None:
    outcome = either_stage.held(case)
    assert breach(outcome) is None
    if outcome.failure is not None:
        assert outcome.failure.kind in case.kinds
        _check_exception(case, outcome.failure.kind, outcome.failure.exception)
    assert not list(either_stage.folder.iterdir())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attempt_fails_when_it_runs_again(case: Case, stage: Stage) -> None:
    outcome = stage.again(case)
    assert breach(outcome) is None
    if outcome.failure is not None:
        assert outcome.failure.kind in case.kinds
        _check_exception(case, outcome.failure.kind, outcome.failure.exception)
    assert not list(stage.folder.iterdir())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attempt_fails_over_two_turns(case: Case, either_stage: Stage) -> None:
    outcomes = either_stage.in_turns(case)
    for outcome in outcomes:
        message = outcome.failure.message if outcome.failure else ""
        assert MARK not in outcome.stdout and MARK not in message
        if outcome.failure is not None and outcome.failure.kind == "runtime":
            assert outcome.failure.exception in (*ORDINARY, "PermissionError")
    assert breach(outcomes[-1]) is None
    assert not list(either_stage.folder.iterdir())


def _check_exception(case: Case, kind: str, exception: str | None) -> None:
    if kind != "runtime":
        return
    if case.group == "system calls":
        assert exception == "PermissionError"
    else:
        assert exception in ORDINARY


def test_the_suite_is_large_enough() -> None:
    assert len({" ".join(case.program.split()) for case in CASES}) >= 250
    assert len({str(case) for case in CASES}) == len(CASES)
    assert len({case.group for case in CASES}) == 16


@pytest.mark.parametrize("after", [done("second"), call(), b"\xff" * 64, b"\x01"])
def test_nothing_counts_after_an_answer(after: bytes) -> None:
    tools = ScriptedTools()
    with Sandbox(prelude=HOSTILE) as box:
        outcome = box.run(f"send_raw({done('first') + after!r})", tools=tools)
        assert outcome.value == "first"
        assert not tools.calls and not outcome.calls
        assert box.run("answer = 3").value == 3


@pytest.mark.parametrize(
    "attempt",
    [
        lambda guards: guards.getattr("text", "__class__"),
        lambda guards: guards.getattr(np.array([print], dtype=object), "tolist"),
        lambda guards: guards.write_item(np.array([print], dtype=object)),
    ],
    ids=["underscore", "method of an array of objects", "item of an array of objects"],
)
def test_a_guard_refuses_alone_what_other_layers_refuse_too(
    attempt: Callable[[Guards], object],
) -> None:
    with pytest.raises((ForbiddenAttributeError, ForbiddenTypeError)):
        attempt(Guards({}))
