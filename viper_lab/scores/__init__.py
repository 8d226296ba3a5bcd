"""Scores of the embedded models on their world."""
