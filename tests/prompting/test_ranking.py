"""Ranking by words says nothing to whoever listens to logs."""

from __future__ import annotations

import logging

import pytest

from viper.prompting.ranking import by_words


def test_the_library_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        scores = by_words(["how many red cups", "where is the ball"])("the balls")
    assert scores[1] > scores[0] and not caplog.records
