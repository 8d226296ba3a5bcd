"""Strategy ``seek``: one step at a time, each from what the last one found (AVIS); its settings."""

from __future__ import annotations

from dataclasses import dataclass

from viper.strategies.seek.graph import ACTIONS, GROUPS, load_route
from viper.strategies.settings import Settings, setting


@dataclass(frozen=True)
class SeekSettings(Settings):
    """Settings of strategy ``seek``; the name of a group stands for all of its actions.

    Raises:
        UnknownNameError: no graph or action has that name.
        UsageError: a number out of range.
    """

    # fmt: off
    graph: str = setting("avis",
        "Transition graph: which action may follow which; every allows all actions.",
        metavar="NAME|FILE.toml", is_path=True, http=False)
    decisions: str = setting("",
        "Decisions that the planner sees as examples: of `viper lab seek induce`, or the shipped "
        "ones, written.",
        metavar="written|FILE.jsonl", is_path=True, http=False)
    worked_examples: bool = setting(True,
        "Show worked examples: split questions, good and bad verdicts, reasoning. --n-examples 0 "
        "shows neither these nor decisions.")
    region_facts: bool = setting(False,
        "Begin with caption, text and similar pictures of the whole picture, and describe each "
        "object by all three, not by its caption alone.")
    grounding: str = setting("tolerant",
        "Accept a verdict if its words were found: exact ones, or other forms, abbreviations and "
        "number words, too; off accepts all.",
        choices=("exact", "tolerant", "off"))
    exhausted: str = setting("unanswerable",
        "Answer of a search that found none: unanswerable, or the language model's from memory.",
        choices=("unanswerable", "memory"))
    max_steps: int = setting(16, "Maximum number of actions for one query.",
        least=1, most=1_000, metavar="N")
    without_actions: tuple[str, ...] = setting((),
        "Leave out an action or a group of actions (seeing, object, search, llm).",
        choices=(*ACTIONS, *GROUPS), kind="action or group of actions", flag="--without",
        metavar="ACTION")
    # fmt: on

    def __post_init__(self) -> None:
        super().__post_init__()
        groups = (GROUPS.get(name, (name,)) for name in self.without_actions)
        actions = tuple(dict.fromkeys(action for group in groups for action in group))
        object.__setattr__(self, "without_actions", actions)
        if self.graph != type(self).graph and not self.graph.endswith(".toml"):
            load_route(self.graph)

    def check_files(self) -> None:
        from viper.strategies.seek.decisions import decisions_of

        route = load_route(self.graph)
        if self.without_actions:
            route.without(self.without_actions)
        decisions_of(self.decisions)
