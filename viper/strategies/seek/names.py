"""The actions by name: what each is, when it is of use, to which group of tools it belongs.

Source: AVIS (Hu et al. 2023), sec. 3.2, where each kind of knowledge about similar pictures is an
action of its own, too. The words are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ActionName:
    """An action.

    Attributes:
        instruction: when it is of use, for the planner.
        group: ``seeing``, ``object``, ``search`` or ``llm``; what an ablation takes away together.
        takes: what the planner must write beside its name; "": nothing.
    """

    instruction: str
    group: str
    takes: str = ""


ACTIONS: Mapping[str, ActionName] = {
    "caption": ActionName(
        "describes the picture in a sentence; of use to know what is there at all", "seeing"
    ),
    "vqa": ActionName(
        "answers a simple question about what is to be seen, as a color or a number",
        "seeing",
        "the question",
    ),
    "detect": ActionName(
        "lists the objects in the picture; of use when the question is about one of them",
        "object",
    ),
    "select": ActionName(
        "turns to one of the objects that were listed; all that follows is about it",
        "object",
        "which of them, by its number or its words",
    ),
    "ocr": ActionName(
        "reads what is written there; of use for labels, signs, names and numbers", "object"
    ),
    "entities": ActionName(
        "looks for pictures of the same thing and names what they are known to show", "search"
    ),
    "captions": ActionName(
        "looks for pictures of the same thing and shows what is written under them", "search"
    ),
    "identical": ActionName(
        "looks for this very picture elsewhere and shows what is written under it", "search"
    ),
    "titles": ActionName(
        "looks for pictures of the same thing and shows the titles of their pages", "search"
    ),
    "text_search": ActionName(
        "searches texts; of use for facts that no picture shows, once the thing has a name",
        "search",
        "the words to search for",
    ),
    "llm_qa": ActionName(
        "answers a short question from what everybody knows", "llm", "the question"
    ),
}

GROUPS: Mapping[str, tuple[str, ...]] = {
    group: tuple(name for name, one in ACTIONS.items() if one.group == group)
    for group in dict.fromkeys(one.group for one in ACTIONS.values())
}
"""Tool groups; table 1 of the paper takes away ``seeing`` (its PALI), ``object`` and ``search``."""
