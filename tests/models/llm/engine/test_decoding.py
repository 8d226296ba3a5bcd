import math

import pytest
import torch

from viper.models.llm.engine.decoding import LookupDraft, _chooser


def test_what_followed_the_last_tokens_is_proposed() -> None:
    draft = LookupDraft(sizes=(2,))
    draft.extend([1, 2, 3, 4, 5, 1, 2])
    assert draft.propose(2) == [3, 4]
    assert draft.propose(9) == [3, 4, 5, 1, 2]


def test_the_latest_occurrence_and_the_longer_match_win() -> None:
    draft = LookupDraft(sizes=(3, 2))
    draft.extend([9, 1, 2, 7, 8, 1, 2, 6, 9, 1, 2])
    assert draft.propose(1) == [7]
    shorter = LookupDraft(sizes=(2,))
    shorter.extend([9, 1, 2, 7, 8, 1, 2, 6, 9, 1, 2])
    assert shorter.propose(1) == [6]


def test_earlier_texts_end_where_they_end() -> None:
    draft = LookupDraft([[1, 2, 3]], sizes=(2,))
    draft.extend([1, 2])
    assert draft.propose(5) == [3]
    draft.extend([3])
    assert draft.propose(5) == []


def test_nothing_is_proposed_for_what_was_never_seen() -> None:
    assert LookupDraft().propose(4) == []


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_half_precision_does_not_round_the_likelihood_of_a_token(temperature: float) -> None:
    logits = torch.full((1, 1, 500), 9.0, dtype=torch.bfloat16)
    _, logprob = _chooser(logits, temperature)(0, 0, None)
    assert logprob == pytest.approx(-math.log(500), abs=1e-3)
