"""English words by what they do in a comment on an answer; see :mod:`viper.tuning.comments`."""

from __future__ import annotations

PRAISE = {
    "correct", "right", "good", "great", "perfect", "exactly", "exact", "fine", "ok", "okay",
    "true", "yes",
}  # fmt: skip
OBJECTION = {
    "wrong", "incorrect", "false", "nope", "no", "mistake", "mistaken", "untrue", "bad",
}  # fmt: skip
TRUTHS = {"yes": True, "true": True, "no": False, "nope": False, "false": False}
SMALL = {
    "a", "an", "the", "it", "its", "that", "thats", "this", "these", "those", "they", "there",
    "is", "are", "was", "were", "be", "does", "do", "did", "has", "very", "so", "well",
    "done", "all", "quite", "indeed", "really", "actually", "clearly", "only", "just",
    "exactly", "but", "and", "i", "think", "see", "count", "we", "you", "said", "in", "fact",
    "of", "them", "total", "here", "one", "ones", "thing", "things", "object", "objects",
    "picture", "image", "video", "altogether", "at", "least", "answer",
    "thanks", "thank",
}  # fmt: skip
"""Words that say nothing by themselves."""
MEANS_THE_ANSWER = {
    "answer", "right", "correct", "true", "number", "color", "colour", "shape", "size",
    "material", "count", "result",
}  # fmt: skip
"""Words of a subject that is the answer."""
UNSURE = {
    "other", "another", "else", "different", "there", "here", "not", "missing", "wrong", "it",
    "this", "that",
}  # fmt: skip
"""Words that an answer does not consist of."""
NUMBERS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "none": 0,
}  # fmt: skip
