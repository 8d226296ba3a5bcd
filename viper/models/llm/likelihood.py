"""How likely texts are, from engines that tell the likelihood of a prompt's own tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viper.errors import UsageError


@dataclass(frozen=True)
class Echo:
    """A prompt as the server read it: its tokens, and how likely each was after the others."""

    tokens: tuple[str, ...]
    log_likelihoods: tuple[float, ...]


def tail_scores(echoes: Sequence[Echo], head: int) -> list[float]:
    """Mean log-likelihood per token of what follows the common beginning.

    Args:
        echoes: one for each text, not empty.
        head: how many tokens the beginning takes by itself; no more are left out.

    Raises:
        UsageError: a text of one token, before which nothing stands.
    """
    first = echoes[0].tokens
    shared = min(head, *(_common(first, echo.tokens) for echo in echoes))
    shared = max(1, min(shared, *(len(echo.tokens) - 1 for echo in echoes)))
    tails = [echo.log_likelihoods[shared:] for echo in echoes]
    if not all(tails):
        raise UsageError("a lone token cannot be scored; give a prompt of at least one token")
    return [sum(tail) / len(tail) for tail in tails]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the common beginning."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
