"""Routines that look beyond the picture: what is written in it, pictures like it, texts.

What they answer was written by strangers. To a program it is text and nothing else.
"""

from __future__ import annotations

from viper.api.image_patch import ImagePatch
from viper.api.registry import ANSWER_TASKS, routine
from viper.api.runtime import Call, text

ABOUT = ("entities", "captions", "identical", "titles")
"""What ``image_search`` can tell of similar pictures, each by itself."""


@routine(ANSWER_TASKS, api="knowledge")
def ocr(call: Call, image_patch: ImagePatch) -> str:
    """Read what is written on an object.

    Lines from top to bottom; "" where nothing is written.

    Example:
        # What does the sign say?
        def execute_command(image):
            return ocr(ImagePatch(image).find("sign")[0])
    """
    return str(call("ocr", _patch(image_patch)))


@routine(ANSWER_TASKS, api="knowledge")
def image_search(call: Call, image_patch: ImagePatch, about: str = "entities") -> list[str]:
    """Search for pictures of the same object.

    Gives what is known of them, the most similar first: about="entities" names of what
    they show, "captions" what is written under them, "identical" the same of pictures
    that are the very same, "titles" of their pages.

    Example:
        # Which painting is this?
        def execute_command(image):
            return image_search(ImagePatch(image), "entities")[0]
    """
    if about not in ABOUT:
        raise ValueError(f"about must be one of {', '.join(ABOUT)}, not {str(about)[:40]!r}")
    return [str(fact) for fact in call("image_search", _patch(image_patch), about)]


@routine(ANSWER_TASKS, api="knowledge")
def text_search(call: Call, query: str) -> list[str]:
    """Search for texts about something.

    Gives passages that hold words of the query, the best first; an answer that the
    search gives by itself comes before them.

    Example:
        # When was the maker of this car founded?
        def execute_command(image):
            car = image_search(ImagePatch(image), "entities")[0]
            passages = text_search(f"When was the maker of {car} founded?")
            return llm_query("In which year was it founded?", passages[0], long_answer=False)
    """
    return [str(passage) for passage in call("text_search", text(query, "query"))]


def _patch(value: ImagePatch) -> ImagePatch:
    if not isinstance(value, ImagePatch):
        raise TypeError(f"image_patch must be an ImagePatch, not {type(value).__name__}")
    return value
