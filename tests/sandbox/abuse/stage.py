"""Runs attempts where they belong: in the sandbox as it is, and in one that lacks their guard."""

from __future__ import annotations

import ast
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sandbox.abuse import resources, system_calls, wire_frames
from tests.sandbox.abuse.case import IMAGE, VIDEO, Case, Parent
from tests.sandbox.opened.parent import CALLS, WIRE
from viper.api.prelude import PRELUDE
from viper.models.media import media_from
from viper.sandbox import Limits, Outcome, Prelude, Sandbox, Session
from viper.testing.fakes import (
    FakeAnswerer,
    FakeDepth,
    FakeDetector,
    FakeLanguage,
    FakeMatcher,
    FakeVideoModel,
)
from viper.tools.models import ModelSet
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox

TOY = Prelude("tests.sandbox.toy_prelude")
HOSTILE = Prelude("tests.sandbox.hostile_prelude")
FUNCTIONS = Prelude.functions("find")

_MOST_OPEN = 4
_LIMITS = Limits(time_s=10)
_TRIES = 20


class Stage:
    """Warm sandboxes, started when a case first needs them.

    Args:
        folder: an empty folder that attempts on files are given.
        arrays: what the processes map, if they are of the kind that maps arrays.
    """

    def __init__(self, folder: Path, arrays: Mapping[str, Any] | None = None) -> None:
        self.folder, self._arrays = folder, arrays
        self._open: OrderedDict[Any, Sandbox] = OrderedDict()
        self._toolbox = Toolbox(ModelSet(_MODELS), ToolSettings())

    def held(self, case: Case) -> Outcome:
        """The case in the sandbox as it is."""
        return self._run(case, *_place(case))

    def again(self, case: Case) -> Outcome:
        """The case for the third time: where it answers, in the process that it had before."""
        for _ in range(2):
            self.held(case)
        return self.held(case)

    def in_turns(self, case: Case) -> list[Outcome]:
        """The case in one episode: what prepares it, its last statement, what it left."""
        outcomes: list[Outcome] = []
        with self._begun(case) as session:
            for turn in [*_split(case.program), "answer"]:
                outcomes.append(session.run(turn, shows=True))
                if not outcomes[-1].ok:
                    break
            if not session.ended:
                left = session.run("before", shows=True)
                assert left.value == 1 or _out_of_time(case, left)
        return outcomes

    def _begun(self, case: Case) -> Session:
        """An episode with a variable of its own; a hasty one is begun again when it is late."""
        prelude, limits = _place(case)
        for _ in range(_TRIES):
            session = self._box(prelude, limits).session(
                tools=self._tools(case), arrays=self._arrays
            )
            first = session.run("before = 1", args=self._args(case, prelude))
            if not _out_of_time(case, first):
                break
            session.close()
        assert first.ok, first.failure
        return session

    def opened(self, case: Case) -> Outcome:
        """The case in a sandbox without its guard and with every other one."""
        with pytest.MonkeyPatch.context() as patch:
            if case.guard in CALLS or case.guard in WIRE:
                (CALLS | WIRE)[case.guard](patch)
                return self._run(case, *_place(case))
            return self._run(case, *_place_without_guard(case))

    def lacking(self, case: Case, layers: tuple[str, ...]) -> Outcome:
        """The case in a sandbox without these layers of the process and with every guard."""
        return self._run(case, *_place(case), layers)

    def tidy(self) -> None:
        """Takes away what attempts have left in the folder."""
        for made in self.folder.iterdir():
            made.rmdir() if made.is_dir() and not made.is_symlink() else made.unlink()

    def close(self) -> None:
        """Ends all of them."""
        while self._open:
            self._open.popitem()[1].close()

    def _box(self, prelude: Prelude, limits: Limits, without: tuple[str, ...] = ()) -> Sandbox:
        key = (prelude.module, limits, without)
        if key not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self._open.popitem(last=False)[1].close()
            mode: Any = "weak" if without else "strict"
            self._open[key] = Sandbox(prelude=prelude, limits=limits, mode=mode, without=without)
            self._open[key].run("answer = 1")
        self._open.move_to_end(key)
        return self._open[key]

    def _run(
        self, case: Case, prelude: Prelude, limits: Limits, without: tuple[str, ...] = ()
    ) -> Outcome:
        box = self._box(prelude, limits, without)
        args = self._args(case, prelude)
        return box.run(case.program, tools=self._tools(case), args=args, arrays=self._arrays)

    def _args(self, case: Case, prelude: Prelude) -> dict[str, Any]:
        if case.group == "system calls":
            return {"parent": os.getpid(), "folder": str(self.folder)}
        return {} if prelude is TOY else {"image": IMAGE, "video": VIDEO}

    def _tools(self, case: Case) -> Any:
        if case.group != "tool calls":
            return Parent()
        picture = np.zeros((60, 100, 3), np.uint8)
        of_video = case.guard == "segments"
        return self._toolbox.session(
            media_from(np.stack([picture] * 8) if of_video else [picture] * 2)
        )


def _out_of_time(case: Case, outcome: Outcome) -> bool:
    """Whether a turn of no work was late, as a busy machine makes one of a hasty case."""
    kind = outcome.failure.kind if outcome.failure else None
    return kind == "timeout" and kind in case.kinds


def _split(program: str) -> list[str]:
    """What stands before the last statement, and that; one turn where nothing does."""
    try:
        body = ast.parse(program).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [program]
    lines = program.splitlines()
    first = body[-1].lineno - 1 if body else 0
    if first and len(body) > 1 and body[-2].end_lineno == body[-1].lineno:
        return [program]
    return ["\n".join(lines[:first]), "\n".join(lines[first:])] if first else [program]


def _place(case: Case) -> tuple[Prelude, Limits]:
    hasty = "timeout" in case.kinds
    if case.group == "resources":
        return FUNCTIONS, resources.HASTY if hasty else resources.TIGHT
    if case.group == "wire":
        return HOSTILE, wire_frames.HASTY if hasty else wire_frames.SMALL
    if case.group in ("tool calls", "system calls"):
        return HOSTILE, _LIMITS
    return (PRELUDE if case.group == "visual API" else TOY), _LIMITS


def _place_without_guard(case: Case) -> tuple[Any, ...]:
    if case.group == "system calls":
        return HOSTILE, _LIMITS, system_calls.KERNEL
    if case.group == "wire":
        return HOSTILE, wire_frames.GENEROUS
    if case.group == "resources" and case.guard != "bounded":
        return FUNCTIONS, resources.GENEROUS
    return Prelude(f"tests.sandbox.opened.{case.guard}"), _LIMITS


_MODELS: dict[str, Callable[[], Any]] = {
    "detector": lambda: FakeDetector({"x": [((1, 1, 9, 9), 0.9)]}),
    "matcher": FakeMatcher,
    "depth": FakeDepth,
    "vqa": FakeAnswerer,
    "video": lambda: FakeVideoModel({"x": (1, 3, 0.9)}),
    "text": FakeLanguage,
}
