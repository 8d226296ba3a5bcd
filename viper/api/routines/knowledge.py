"""Routines that look beyond the picture: what is written in it, pictures like it, texts.

What they answer was written by strangers. To a program it is text and nothing else.
"""

from __future__ import annotations

from viper.api.image_patch import ImagePatch
from viper.api.registry import ANSWER_TASKS, routine
from viper.api.runtime import Caller, text

# What ``image_search`` can tell of similar pictures, each by itself.
ABOUT = ("entities", "captions", "identical", "titles")


@routine(ANSWER_TASKS, api="knowledge", summary="read what is written on an object", needs="ocr")
def ocr(call: Caller, image_patch: ImagePatch) -> str:
    """Read the text on an object.

    Return its lines from top to bottom, or "" if nothing is written there.

    Example:
        # What does the sign say?
        def execute_command(image):
            image_patch = ImagePatch(image)
            sign_patches = image_patch.find("sign") or [image_patch]
            return ocr(sign_patches[0])
    """
    return str(call("ocr", _patch(image_patch)))


@routine(ANSWER_TASKS, api="knowledge", needs="image_search")
def image_search(call: Caller, image_patch: ImagePatch, about: str = "entities") -> list[str]:
    """Search for pictures of the same object.

    Return facts about pictures that look alike, the most similar first, or [] if there are
    none. ``about`` is "entities" for the names of the things they show, each with a
    description if there is one, "captions" for the texts under them, "identical" for the texts
    under copies of this very picture, or "titles" for the titles of their pages.

    Example:
        # Which painting is this?
        def execute_command(image):
            image_patch = ImagePatch(image)
            names = image_search(image_patch, "entities")
            return names[0] if names else image_patch.simple_query("Which painting is this?")
    """
    if about not in ABOUT:
        raise ValueError(f"about must be one of {', '.join(ABOUT)}, not {str(about)[:40]!r}")
    return [str(fact) for fact in call("image_search", _patch(image_patch), about)]


@routine(ANSWER_TASKS, api="knowledge", needs="text_search")
def text_search(call: Caller, query: str) -> list[str]:
    """Search for texts about something.

    Return passages that hold words of the query, the best first, or [] if there are none.
    If the search itself gives a direct answer, that comes first.

    Example:
        # When was the maker of this car founded?
        def execute_command(image):
            names = image_search(ImagePatch(image), "entities") or ["this car"]
            passages = text_search(f"When was the maker of {names[0]} founded?")
            question = f"In which year was the maker of {names[0]} founded?"
            return llm_query(question, " ".join(passages[:3]), long_answer=False)
    """
    return [str(passage) for passage in call("text_search", text(query, "query"))]


def _patch(value: ImagePatch) -> ImagePatch:
    if not isinstance(value, ImagePatch):
        raise TypeError(f"image_patch must be an ImagePatch, not {type(value).__name__}")
    return value
