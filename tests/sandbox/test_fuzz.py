"""A short run of the fuzz properties; ``python -m tests.sandbox.fuzz`` runs them for minutes."""

from __future__ import annotations

import random
import warnings
from itertools import islice

import pytest

from tests.sandbox import fuzz, numpy_programs
from viper.sandbox import Limits, Prelude, Sandbox


@pytest.mark.parametrize("seed", range(4))
def test_no_program_reaches_past_the_guards(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes, "is" with a literal
        found = [fuzz.check_source(text) for text in islice(fuzz.sources(random.Random(seed)), 150)]
    assert {"compiled", "syntax"} <= set(found)


@pytest.mark.parametrize("seed", range(4))
def test_a_frame_is_decoded_or_refused(seed: int) -> None:
    made = islice(fuzz.frames(random.Random(seed)), 1000)
    assert {fuzz.check_frame(*frame) for frame in made} == {"decoded", "refused"}


def test_the_property_would_notice_an_unguarded_instruction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from viper.sandbox.policy import ProgramPolicy

    monkeypatch.setattr(ProgramPolicy, "visit_Attribute", ProgramPolicy.node_contents_visit)
    with pytest.raises(AssertionError, match="LOAD_ATTR"):
        fuzz.check_source("answer = 'a'.upper")


def test_odd_calls_of_numpy_get_neither_objects_nor_old_memory() -> None:
    with Sandbox(
        limits=Limits(time_s=5), prelude=Prelude("tests.sandbox.toy_prelude")
    ) as sandbox:  # fmt: skip
        for seed in (*range(40), 1323, 1407, 1424):  # the last found old memory
            text = numpy_programs.program(random.Random(seed))
            outcome = sandbox.run(text, arrays={"image0": numpy_programs.FRAME})
            assert numpy_programs.fault(outcome) is None, text


def test_padding_shows_no_old_memory() -> None:
    code = (
        "import numpy as np\nmark = np.full(9, 7.5)\ndel mark\n"
        "answer = np.pad(np.ones(5), 2, 'empty').tolist()"
    )
    with Sandbox() as sandbox:
        assert sandbox.run(code).value == [0.0] * 2 + [1.0] * 5 + [0.0] * 2


@pytest.mark.parametrize("call", ["np.ones(64).clip(0, 1, where=False)", "np.sqrt(2, where=False)"])
def test_elements_that_are_not_computed_need_values(call: str) -> None:
    with Sandbox() as sandbox:
        failure = sandbox.run(f"import numpy as np\nanswer = {call}").failure
    assert failure is not None and "where= needs out=" in failure.message
