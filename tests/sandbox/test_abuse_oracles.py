"""The judgement of ``test_abuse.py`` can fire: without its guard, each attempt succeeds.

One guard is taken away (``tests/sandbox/opened``), every other layer stays on, and the same
program is judged by the same rule.
"""

from __future__ import annotations

import pytest

from tests.sandbox.abuse import CASES, LANGUAGE_CASES
from tests.sandbox.abuse.case import Case, breach
from tests.sandbox.abuse.stage import Stage

FIRING = sorted((case for case in CASES if case.guard is not None), key=lambda c: str(c.guard))


@pytest.mark.parametrize("case", FIRING, ids=str)
def test_the_judgement_fires_without_the_guard(case: Case, stage: Stage) -> None:
    outcome = stage.opened(case)
    assert breach(outcome) is not None, outcome.failure
    stage.tidy()


def test_most_cases_can_fire() -> None:
    language = [case for case in LANGUAGE_CASES if case.guard is not None]
    assert len(language) >= 120
    assert len(FIRING) >= 0.7 * len(CASES)
