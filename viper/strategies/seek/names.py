"""The actions by name: what each is, when it is of use, to which group of tools it belongs.

Source: AVIS (Hu et al. 2023), sec. 3.2, where each kind of knowledge about similar pictures is an
action of its own, too. The words are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viper.strategies.settings import Settings, setting


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


@dataclass(frozen=True)
class SeekSettings(Settings):
    """Settings of strategy ``seek``; a group stands for all of its actions.

    Raises:
        UnknownNameError: a graph or an action that there is not.
        UsageError: a number out of range.
    """

    graph: str = setting(
        "avis",
        "What may be done after what; every: all of it.",
        metavar="NAME|FILE.toml",
        is_path=True,
        http=False,
    )
    decisions: str = setting(
        "",
        "What people did, as examples for the planner.",
        metavar="FILE.jsonl",
        is_path=True,
        http=False,
    )
    max_steps: int = setting(16, "Actions for one query at most.", least=1, most=1_000, metavar="N")
    without_actions: tuple[str, ...] = setting(
        (),
        "Do without an action or a group (seeing, object, search, llm).",
        choices=(*ACTIONS, *GROUPS),
        kind="action or group of actions",
        flag="--without",
        metavar="ACTION",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        named = (GROUPS.get(one, (one,)) for one in self.without_actions)
        actions = tuple(dict.fromkeys(action for group in named for action in group))
        object.__setattr__(self, "without_actions", actions)
        if self.graph != type(self).graph and not self.graph.endswith(".toml"):
            from viper.strategies.seek.sequence import load_route

            load_route(self.graph)

    def check_files(self) -> None:
        from viper.strategies.seek.decisions import decisions_of
        from viper.strategies.seek.sequence import load_route

        route = load_route(self.graph)
        if self.without_actions:
            route.without(self.without_actions)
        decisions_of(self.decisions)
