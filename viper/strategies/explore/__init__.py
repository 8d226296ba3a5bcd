"""Strategies ``explore`` (DWIM) and ``look``: an agent acts turn by turn; here, its settings."""

from __future__ import annotations

from dataclasses import dataclass

from viper.models.llm.messages import MAX_PIXELS
from viper.strategies.settings import Settings, setting


@dataclass(frozen=True)
class ExploreSettings(Settings):
    """Settings of strategy ``explore``; at the last turn the best answer so far counts."""

    # fmt: off
    max_turns: int = setting(12,
        "Maximum number of turns for one query; then the best answer so far counts.",
        least=1, most=1_000, metavar="N")
    # fmt: on


@dataclass(frozen=True)
class LookSettings(Settings):
    """Settings of strategy ``look`` beside the limits of ``explore``."""

    # fmt: off
    max_pictures: int = setting(24, "Maximum number of pictures that code may show.",
        least=1, most=1_000, metavar="N")
    keep_pictures: int = setting(6,
        "Number of shown pictures that stay in the conversation, the newest ones.",
        least=1, most=100, metavar="N")
    picture_pixels: int = setting(MAX_PIXELS,
        "Maximum number of pixels of a shown picture; larger ones are scaled down.",
        least=64, most=16_000_000, metavar="N")
    # fmt: on
