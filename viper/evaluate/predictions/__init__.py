"""Scoring predictions that somebody else made: reading their files, joining them with a set."""

from viper.evaluate.predictions.score import Scored, score_predictions

__all__ = ["Scored", "score_predictions"]
