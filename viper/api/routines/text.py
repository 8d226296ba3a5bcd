"""Routines on words and truth values, and those that ask the language model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from viper.api.expressions import NUMBER_WORDS
from viper.api.registry import ANSWER_TASKS, UNLISTED, routine
from viper.api.runtime import Caller, text, texts

_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|[-+]?\.\d+")

# Answers such as "no dogs" and "a dog" count too.
_NUMBER_WORDS = {**NUMBER_WORDS, "no": 0, "none": 0, "nothing": 0, "a": 1, "an": 1}


@routine(("choice",), api="vipergpt", more=ANSWER_TASKS)
def bool_to_yesno(bool_answer: bool) -> str:
    """Turn a truth value into yes or no.

    Return "yes" or "no". Text stays as it is.

    Example:
        # Is there a pen on the desk?
        def execute_command(image):
            image_patch = ImagePatch(image)
            desk_patches = image_patch.find("desk")
            return bool_to_yesno(any(desk_patch.exists("pen") for desk_patch in desk_patches))
    """
    if isinstance(bool_answer, str):
        return bool_answer
    return "yes" if bool_answer else "no"


@routine(UNLISTED, api="vipergpt")
def bool_to_yn(bool_answer: bool) -> str:
    """Turn a truth value into yes or no; another name of ``bool_to_yesno``."""
    return bool_to_yesno(bool_answer)


@routine(UNLISTED, api="vipergpt", needs="text")
def llm_query(
    call: Caller, question: str, context: str | None = None, long_answer: bool = True
) -> str:
    """Ask the language model, with some context or without."""
    if context is not None:
        text(context, "context")
    return str(call("llm_query", text(question, "question"), context, bool(long_answer)))


@routine(ANSWER_TASKS, needs="text")
def process_guesses(call: Caller, question: str, guesses: Sequence[str]) -> str:
    """Settle several guesses into one.

    The language model chooses the guess that answers the question best. Guesses that all
    agree are returned as they are. No guesses give "".

    Example:
        # What is the man in the hat selling?
        def execute_command(image):
            image_patch = ImagePatch(image)
            guesses = [image_patch.simple_query("What is sold here?")]
            for man_patch in image_patch.find("man"):
                guesses.append(man_patch.simple_query("What is the man selling?"))
            return process_guesses("What is the man in the hat selling?", guesses)
    """
    text(question, "question")
    candidates = texts(guesses, "guesses") if guesses else []
    if len(set(candidates)) <= 1:
        return candidates[0] if candidates else ""
    return str(call("process_guesses", question, candidates))


@routine(ANSWER_TASKS)
def coerce_to_numeric(string: str) -> float:
    """Read a number from text.

    Return the first number in digits, or else the first number word up to twenty. Whole
    numbers are of type int. Text without a number raises ValueError.

    Example:
        # How many minutes more than five does the timer show?
        def execute_command(image):
            image_patch = ImagePatch(image)
            timer = image_patch.simple_query("How many minutes does the timer show?")
            return coerce_to_numeric(timer) - 5
    """
    if isinstance(string, bool | int | float):
        return string
    match = _NUMBER.search(text(string, "string"))
    if match:
        digits = match.group().replace(",", "")
        return float(digits) if "." in digits else int(digits)
    for word in re.findall(r"[a-z]+", string.lower()):
        if word in _NUMBER_WORDS:
            return _NUMBER_WORDS[word]
    raise ValueError(f"no number in {string[:80]!r}")


@routine(("choice",), api=("vipergpt", "abstract"), needs="text")
def select_answer(call: Caller, info: Any, question: str, possible_answers: Sequence[str]) -> str:
    """Select the answer among options.

    ``info`` holds what the program found out: text, or a dictionary of named findings.
    Return one of the options, word for word, or ``info`` as text if there are no options.

    Example:
        # What does the child do after the ball falls?
        # options: runs away; picks it up; laughs
        def execute_command(video, question, possible_answers):
            video_segment = VideoSegment(video)
            later = video_segment.get_video_segment_after_event("the ball falls")
            info = {
                "after the ball falls": later.caption_video("What does the child do?"),
                "in all": video_segment.caption_video(),
            }
            return select_answer(info, question, possible_answers)
    """
    options = texts(possible_answers, "possible_answers") if possible_answers else []
    return str(call("select_answer", info, text(question, "question"), options))
