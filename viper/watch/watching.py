"""The loop of ``viper watch``: a program on one window after another, and what becomes an event.

`Watch.run` goes through the files of a source, and `_judge` turns the answer about a window into
events. Each is stored, printed and told before the next window begins.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from viper.errors import PARSE_ERRORS, MediaError, UsageError
from viper.reasoner import Reasoner, RunOptions
from viper.run_result import RunResult
from viper.schema import Answer
from viper.strategies.program import ENTRY
from viper.watch.delivery import Receiver
from viper.watch.events import PAGES, Event, EventLog
from viper.watch.windows import Window, files, windows

Mode = Literal["when", "while", "until"]

# The task of conditions.
TASK = "statement"

# Name under which a program returns the moments of events, in seconds of the file.
MOMENTS = "moments"

# Two windows that see one moment at their border tell times that differ by less, in seconds: a few
# frames of five a second.
_BORDER_S = 0.5

_CONDITION = re.compile(
    r"\s*(?:every\s+(?P<every>[0-9]{1,6}(?:\.[0-9]{1,3})?)\s*(?P<unit>s|sec|seconds?|m|min|minutes?)\b[\s,:]*)?"
    r"(?:(?P<mode>when(?:ever)?|while|until)\b[\s,:]*)?(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Condition:
    """A standing condition.

    Attributes:
        text: what must be true, as a statement.
        mode: ``when`` tells its begin, ``while`` also its end, ``until`` ends the watch.
        every: seconds between two looks; None if the words do not say.
    """

    text: str
    mode: Mode = "when"
    every: float | None = None

    @classmethod
    def read(cls, words: str) -> Condition:
        """Read ``every 5 s, while a car is at the gate``; the words before the statement may miss.

        Raises:
            UsageError: nothing stands after these words.
        """
        parts = _CONDITION.fullmatch(words)
        assert parts is not None
        every = None
        if parts["every"]:
            every = float(parts["every"]) * (60 if parts["unit"][0] in "mM" else 1)
        mode: Any = (parts["mode"] or "when").lower().removesuffix("ever")
        if not parts["rest"].strip():
            raise UsageError(f"{words[:60]!r} names no condition; write: when a dog is in the yard")
        return cls(parts["rest"].strip(), mode, every)


@dataclass
class Watch:
    """One watch under way.

    Attributes:
        condition: the statement goes to the program as its question.
        video: the program takes a video.
        every, margin: of :func:`viper.watch.windows.windows`.
        cooldown: seconds after an event in which no other one counts.
        once: end when all files that are there were read.
        on_window, on_event, say: called with each window before it is judged, with each new event,
            and with remarks.
    """

    reasoner: Reasoner
    program: str
    condition: Condition
    options: RunOptions
    log: EventLog
    video: bool
    every: float
    margin: float
    cooldown: float
    once: bool
    receiver: Receiver | None
    on_window: Callable[[Window], None]
    on_event: Callable[[Event], None]
    say: Callable[[str], None]

    def run(self, source: Path) -> None:
        """Watch a file, or a folder of files, to its end.

        Raises:
            MediaError: the source is a file that cannot be read.
            StoreError: an event cannot be stored.
        """
        self._tell()  # what an earlier process did not deliver
        begun = self.log.state
        if self.condition.mode == "until" and begun.last is not None:
            return
        for path in files(source, begun.file, is_done=begun.window < 0, once=self.once):
            state = self.log.state
            first = state.window if state.file == path.name else 0
            try:
                for window in windows(path, self.every, self.margin, video=self.video, first=first):
                    self.on_window(window)
                    if self._look(window) and self.condition.mode == "until":
                        return
            except MediaError as error:
                if source.is_file():
                    raise
                self.say(str(error))
            state = self.log.state
            read = state.read if state.file == path.name else 0.0
            self.log.commit(file=path.name, window=-1, read=0.0, clock=state.clock + read)

    def _look(self, window: Window) -> bool:
        """Run the program on a window; return whether there was an event."""
        result = self.reasoner.execute(
            self.program, window.media, self.condition.text, self.options
        )
        state, fresh = self.log.state, list[Event]()
        changes: dict[str, Any] = {
            "file": window.path.name, "window": window.number + 1, "read": window.end,
        }  # fmt: skip
        if result.answer is None:
            changes["failed"] = state.failed + 1
            if not state.failed:
                failure = result.failure
                self.say(
                    f"{window.path.name} at {window.start:.1f} s: no answer"
                    + (f" ({failure.kind}: {failure.message})" if failure else "")
                )
        else:
            fresh = list(self._judge(window, result, result.answer, changes))
        for event in fresh:
            self.log.add(event)
            self.on_event(event)
        self.log.commit(**changes)
        if fresh:
            self._tell()
        return bool(fresh)

    def _judge(
        self, window: Window, result: RunResult, answer: Answer, changes: dict[str, Any]
    ) -> Iterator[Event]:
        """Yield the events of a window; ``changes`` gets what the state keeps of them."""
        state, info = self.log.state, answer.info
        last = state.last
        if isinstance(info, Mapping) and isinstance(info.get(MOMENTS), list):
            times = _times(info[MOMENTS])
            recent = [time - state.clock for time in state.recent]
            kept: list[float] = []
            for time in times:
                if not window.start - _BORDER_S <= time < window.end:
                    continue  # that of another window
                same = [each for each in recent if abs(each - time) <= 2 * _BORDER_S]
                if same and time < window.start + _BORDER_S:
                    recent.remove(same[0])
                    continue
                if last is None or state.clock + time - last >= self.cooldown:
                    last = state.clock + time
                    yield self._event("began", window, time, result, info, kept.count(time))
                kept.append(time)
            near = (time for time in kept if time >= window.end - 2 * _BORDER_S)
            changes["recent"] = tuple(state.clock + time for time in near)
        elif bool(answer.value) and not state.since:
            if last is None or state.clock + window.start - last >= self.cooldown:
                event = self._event("began", window, window.start, result, info)
                changes["since"], last = event.id, event.clock
                yield event
        elif not answer.value and state.since:
            changes["since"] = ""
            last = state.clock + window.start
            if self.condition.mode == "while":
                event = self._event("ended", window, window.start, result, info)
                yield event
        changes["last"] = last

    def _event(
        self, kind: Any, window: Window, time: float, result: RunResult, info: Any, same: int = 0
    ) -> Event:
        """Write the page of an event; ``same`` others have its time."""
        clock = round(self.log.state.clock + time, 3)
        name = f"{round(clock * 1000):012d}{f'-{same + 1}' if same else ''}"
        page = f"{PAGES}/{name}.html"
        target = self.log.folder / page
        target.parent.mkdir(exist_ok=True)
        result.html(target)
        return Event(
            id=f"{self.log.state.since}-end" if kind == "ended" else name,
            kind=kind,
            source=window.path.name,
            time=round(time, 3),
            clock=clock,
            confidence=None if result.answer is None else result.answer.confidence,
            info=info,
            page=page,
        )

    def _tell(self) -> None:
        """Deliver what was not delivered yet; what fails is tried again at the next event."""
        while self.receiver is not None and (rows := self.log.untold()):
            lines = rows.splitlines(keepends=True)
            delivered, why = self.receiver.tell(lines)
            told = self.log.state.told + sum(map(len, lines[:delivered]))
            self.log.commit(told=told)
            if why:
                self.say(f"not delivered: {why}; it is tried again at the next event")
                return


def written_program(reasoner: Reasoner, source: Path, statement: str) -> str:
    """Return a program that a writer wrote for the first frame of a source.

    Raises:
        UsageError: there is no file yet, or none of its programs answers.
    """
    first = next(files(source, "", is_done=False, once=True), None)
    if first is None:
        raise UsageError(f"{source}: no file yet, for which to write a program; give --program")
    window = next(windows(first, 1.0, 0.0, video=False))
    answering = reasoner.run(window.media, statement, task=TASK).trace.answering
    if answering is None or not answering.program:
        raise UsageError(
            f"no program answers {statement[:60]!r} on the first frame; put it in other words, or "
            "give --program"
        )
    return answering.program


def takes_video(program: str) -> bool:
    """Return whether the entry point of a program names its first parameter ``video``."""
    try:
        functions = [n for n in ast.walk(ast.parse(program)) if isinstance(n, ast.FunctionDef)]
    except PARSE_ERRORS:
        return False  # the first window says what is wrong
    entries = (each.args.args for each in functions if each.name == ENTRY)
    return any(entry and entry[0].arg == "video" for entry in entries)


def _times(moments: list[Any]) -> list[float]:
    """Return moments, or the starts of pairs, in their order; others are left out."""
    firsts = (each[0] if isinstance(each, list) and each else each for each in moments)
    return sorted(float(each) for each in firsts if isinstance(each, int | float))
