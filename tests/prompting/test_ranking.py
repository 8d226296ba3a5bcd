"""Ranking by words gives the scores that prompts were chosen by from the beginning."""

from __future__ import annotations

import pytest

from viper.prompting.ranking import by_words

TEXTS = (
    "how many red cups are there",
    "is the red cup left of the blue cup?",
    "what color are the balls beside the ball",
    "",
    "the",
)

# As the library bm25s 0.3.16 computes them (method lucene, k1 = 1.5, b = .75, float32).
SCORES = {
    "the balls": [0.0, 0.0, 0.6324438452720642, 0.0, 0.0],
    "red cups and red balls": [0.880711019039154, 0.916826605796814, 0.6324438452720642, 0.0, 0.0],
    "a chair": [0.0, 0.0, 0.0, 0.0, 0.0],
}


@pytest.mark.parametrize("query", SCORES)
def test_scores_are_those_of_the_library_that_computed_them_before(query: str) -> None:
    assert by_words(TEXTS)(query) == SCORES[query]


def test_words_are_compared_without_case_ending_and_stop_words() -> None:
    scores = by_words(["how many red cups", "where is the ball"])
    assert scores("THE BALLS")[1] > scores("THE BALLS")[0] == 0.0
    assert scores("how is it to be")[1] == 0.0
