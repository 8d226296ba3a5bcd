"""Judging answers: pure scorers, intervals, and the score of the embedded world."""
