"""Scorers: pure functions of a prediction and its target, a missing prediction scoring 0."""

from viper.agreement import box_iou, normalised
from viper.evaluate.scorers.answers import answer_correct
from viper.evaluate.scorers.boxes import ground_correct, window_iou
from viper.evaluate.scorers.choices import choice_correct, statement_correct, truth_of
from viper.evaluate.scorers.tags import TagCounts, match_tags
from viper.evaluate.scorers.vqa import soft_accuracy, stemmed, vqa_normalised

__all__ = [
    "TagCounts",
    "answer_correct",
    "box_iou",
    "choice_correct",
    "ground_correct",
    "match_tags",
    "normalised",
    "soft_accuracy",
    "statement_correct",
    "stemmed",
    "truth_of",
    "vqa_normalised",
    "window_iou",
]
