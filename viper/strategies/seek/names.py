"""The actions by name: the purpose and the tool group of each.

Source: AVIS (Hu et al. 2023), sec. 3.2, where each kind of knowledge about similar pictures is also
a separate action. The words are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ActionName:
    """An action.

    Attributes:
        instruction: its purpose, for the planner.
        group: ``seeing``, ``object``, ``search`` or ``llm``; an ablation removes a whole group.
        takes: argument that the planner must write with its name; "" if it takes none.
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
        "lists the objects in the picture; of use when the question is about one of them", "object"
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

# Tool groups; table 1 of the paper removes ``seeing`` (its PALI), ``object`` and ``search``.
GROUPS: Mapping[str, tuple[str, ...]] = {
    group: tuple(name for name, action in ACTIONS.items() if action.group == group)
    for group in dict.fromkeys(action.group for action in ACTIONS.values())
}
