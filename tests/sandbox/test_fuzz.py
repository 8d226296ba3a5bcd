"""A short run of the fuzz properties; ``python -m tests.sandbox.fuzz`` runs them for minutes."""

from __future__ import annotations

import random
import warnings
from itertools import islice

import pytest

from tests.sandbox import fuzz


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
