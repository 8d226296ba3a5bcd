"""Scores of predictions made elsewhere: reads their files and joins them with a data set."""

from viper.evaluate.predictions.score import ScoredPredictions, score_predictions

__all__ = ["ScoredPredictions", "score_predictions"]
