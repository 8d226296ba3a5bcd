"""What an attempt is, how it is judged, and the parent that answers its calls.

A program works in ordinary Python, and its last statement leaves in ``answer`` what it
reached. It is a breach when the sandbox hands any answer over, except ``HELD``, which
programs leave that swallow the refusal and report whether they got something; or when
the text ``MARK`` shows in what was printed or in the message of the failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from viper.errors import ToolError
from viper.sandbox import Outcome, Ref

HELD = "held"
MARK = "LOOT"

LANGUAGE = frozenset(["forbidden", "runtime", "syntax", "return_type"])
"""How an attempt on the language may end: refused, or an error like any other."""

IMAGE = Ref("image", ("image0", 200, 100))
VIDEO = Ref("video", ("video0", 32, 160, 120))


@dataclass(frozen=True)
class Case:
    """One attempt.

    Attributes:
        group: the class of attempts it belongs to.
        guard: what stands in its way, a module of ``tests.sandbox.opened`` for attempts on
            the language; None where it cannot be taken away alone.
        kinds: how the failure may be called.
    """

    group: str
    name: str
    program: str
    guard: str | None
    kinds: frozenset[str] = LANGUAGE

    def __str__(self) -> str:
        return f"{self.group}/{self.name}"


def cases(
    group: str, guarded: Mapping[str | None, Mapping[str, str]], kinds: frozenset[str] = LANGUAGE
) -> tuple[Case, ...]:
    """The cases of a class, given as guard to name to program."""
    return tuple(
        Case(group, name, program.strip("\n"), guard, kinds)
        for guard, programs in guarded.items()
        for name, program in programs.items()
    )


def breach(outcome: Outcome) -> str | None:
    """What the attempt got hold of, or None."""
    if outcome.ok and not (type(outcome.value) is str and outcome.value == HELD):
        return f"answered {outcome.value!r}"[:300]
    message = outcome.failure.message if outcome.failure else ""
    if MARK in outcome.stdout or MARK in message:
        return f"showed {outcome.stdout!r} {message!r}"[:300]
    return None


class Parent:
    """Answers calls of both preludes with as little as they need; refuses ``"refused"``."""

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        if args == ("refused",):
            raise ToolError("refused")
        if name == "find":
            if args and isinstance(args[0], Ref):
                return [Ref("patch", ("image0", 1.0, 1.0, 5.0, 5.0))]
            return [Ref("thing", ("x", 1.0))]
        answers = {
            "pixels": np.zeros((3, 4, 4), np.uint8),
            "compute_depth": 1.0,
            "locate_event": [1, 3],
            "best_image_match": 0,
        }
        return answers.get(name, "yes")
