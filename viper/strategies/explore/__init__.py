"""Strategy ``explore``: an agent that acts turn by turn and sees the result of each turn (DWIM)."""

from __future__ import annotations

from dataclasses import dataclass

from viper.strategies.settings import Settings, setting


@dataclass(frozen=True)
class ExploreSettings(Settings):
    """Settings of strategy ``explore``; at the last turn the best answer so far counts."""

    max_turns: int = setting(
        12,
        "Maximum number of turns for one query; then the best answer so far counts.",
        least=1,
        most=1_000,
        metavar="N",
    )
    max_seconds: float = setting(
        0.0,
        "Maximum number of seconds; no turn begins after it.",
        least=0,
        unbounded=True,
        metavar="S",
    )
