"""Scoring predictions that somebody else made: reading their files, joining them with a set."""

from viper.evaluate.predictions.score import ScoredPredictions, score_predictions

__all__ = ["ScoredPredictions", "score_predictions"]
