"""The loop of ``viper watch``: a program on one window after another, and what becomes an event.

`Watch.run` goes through the files of a source, and `_judge` turns the answer about a window into
events. Each is stored, printed and told before the next window begins.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from viper.errors import PARSE_ERRORS, MediaError, UsageError
from viper.reasoner import Reasoner, RunOptions
from viper.run_result import RunResult
from viper.storage.files import file_errors
from viper.strategies.program import ENTRY
from viper.watch.delivery import Receiver
from viper.watch.events import PAGES, Event, EventLog, Kind
from viper.watch.recording import SEGMENT_S, Recorded, Recorder
from viper.watch.windows import Window, files, windows, write_clip

Mode = Literal["when", "while", "until"]

# The task of conditions.
TASK = "statement"

# Least and greatest seconds between two looks: that of a frame, and an hour.
EVERY = (0.04, 3600.0)

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
            UsageError: nothing stands after these words, or the time is out of range.
        """
        parts = _CONDITION.fullmatch(words)
        assert parts is not None
        every = None
        if parts["every"]:
            every = float(parts["every"]) * (60 if parts["unit"][0] in "mM" else 1)
            if not EVERY[0] <= every <= EVERY[1]:
                raise UsageError(
                    f"every {every:g} s: expected {EVERY[0]:g} s to {EVERY[1] / 60:g} minutes"
                )
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
        hold, gap: seconds for which a condition must hold before it begins, and must not hold
            before it ends.
        cooldown: seconds after an event in which no other one counts.
        once: end when all files that are there were read.
        recorder: records a stream into the source; its files are removed when they were read.
        confirming: a change counts if the program gives the same answer to this reasoner, whose
            thresholds are others: what a detector half sees neither comes nor goes.
        on_window, on_look, on_event, say: called with each window before the program runs, with
            what it returned, with each new event, and with remarks.
    """

    reasoner: Reasoner
    program: str
    condition: Condition
    options: RunOptions
    log: EventLog
    video: bool
    every: float
    margin: float
    hold: float
    gap: float
    cooldown: float
    once: bool
    recorder: Recorder | None = None
    receiver: Receiver | None = None
    on_window: Callable[[Window], None] = lambda window: None
    on_look: Callable[[Window, RunResult], None] = lambda window, result: None
    on_event: Callable[[Event], None] = lambda event: None
    say: Callable[[str], None] = lambda text: None
    confirming: Reasoner | None = None
    _has_failed: bool = False  # since this process began
    _is_held: bool = False  # rows wait for their time

    def run(self, source: Path) -> None:
        """Watch a file, or a folder of files, to its end.

        Raises:
            MediaError: the source is a file, or a stream, that cannot be read.
            StoreError: an event cannot be stored.
        """
        self._tell()  # what an earlier process did not deliver
        begun = self.log.state
        if self.condition.mode == "until" and begun.last is not None:
            return
        found = files(
            source, begun.file, is_done=begun.window < 0, once=self.once, recorder=self.recorder
        )
        for path in found:
            state = self.log.state
            if state.window >= 0 and state.file not in ("", path.name):  # it is gone
                self.log.commit(window=-1, read=0.0, clock=state.clock + state.read)
            first = state.window if state.file == path.name else 0
            recorded = Recorded.read(path.name) if self.recorder is not None else None
            if not first and (recorded is None or not recorded.lead):
                self.log.commit(recent=())  # it shares no frames with the file before
            try:
                for window in windows(path, self.every, self.margin, video=self.video, first=first):
                    self.on_window(window)
                    if self._is_early(window):
                        continue
                    if self._look(window) and self.condition.mode == "until":
                        return
            except MediaError as error:
                if source.is_file():
                    raise
                self.say(str(error))
            state = self.log.state
            read = state.read if state.file == path.name else 0.0
            self.log.commit(file=path.name, window=-1, read=0.0, clock=state.clock + read)
            if self.recorder is not None:
                for each in source.iterdir():  # also what a kill left
                    if Recorded.read(each.name) and each.name <= path.name:
                        each.unlink(missing_ok=True)
        self._tell()  # what failed at the last event

    def _is_early(self, window: Window) -> bool:
        """Return whether the last look is too near; a file of a stream is shorter than a minute."""
        looked = self.log.state.looked
        if self.video or self.recorder is None or self.every <= SEGMENT_S or looked is None:
            return False
        now = self.log.state.clock - window.begin + window.start
        return now < looked + self.every - 1e-6

    def _look(self, window: Window) -> bool:
        """Run the program on a window; return whether there was an event."""
        result = self.reasoner.execute(
            self.program, window.media, self.condition.text, self.options
        )
        self.on_look(window, result)
        state, fresh = self.log.state, list[Event]()
        changes: dict[str, Any] = {
            "file": window.path.name, "window": window.number + 1,
            "read": window.end - window.begin,
            "looked": state.clock - window.begin + window.start,
        }  # fmt: skip
        if result.answer is None and not _found_nothing(result):
            changes["failed"] = state.failed + 1
            if not self._has_failed:
                self._has_failed, failure = True, result.failure
                self.say(
                    f"{window.path.name} at {window.start:.1f} s: no answer"
                    + (f" ({failure.kind}: {failure.message})" if failure else "")
                )
        else:
            fresh = list(self._judge(window, result, changes))
        for event in fresh:
            self.log.add(event)
            self.on_event(event)
        self.log.commit(**changes)
        if fresh or self._is_held:
            self._tell()
        return bool(fresh)

    def _judge(self, window: Window, result: RunResult, changes: dict[str, Any]) -> Iterator[Event]:
        """Yield the events of a window; ``changes`` gets what the state keeps of them."""
        moments = None if result.answer is None else result.answer.moments
        if moments is not None:
            yield from self._moments(window, result, moments, changes)
            return
        holds = _holds(result)
        state, zero = self.log.state, self.log.state.clock - window.begin
        now = zero + window.start
        changes["turned"] = None
        if holds == bool(state.since) or not self._confirms(window, holds):
            return
        turned = now if state.turned is None else state.turned
        if now - turned < (self.hold if holds else self.gap) - 1e-6:
            changes["turned"] = turned
            return
        time = turned - zero  # below 0 if it turned in the file before
        if not holds:
            changes["since"] = ""
            if self.condition.mode == "while":
                changes["last"] = turned
                yield self._event("ended", window, time, result)
        elif state.last is None or turned - state.last >= self.cooldown:
            event = self._event("began", window, time, result)
            changes |= {"since": event.id, "last": event.clock}
            yield event

    def _confirms(self, window: Window, holds: bool) -> bool:
        """Return whether the other thresholds give the same answer."""
        if self.confirming is None:
            return True
        result = self.confirming.execute(
            self.program, window.media, self.condition.text, self.options
        )
        return _holds(result) == holds and (result.answer is not None or _found_nothing(result))

    def _moments(
        self, window: Window, result: RunResult, times: Sequence[float], changes: dict[str, Any]
    ) -> Iterator[Event]:
        """Yield an event for each moment in the core that the window before did not count."""
        clock, last = self.log.state.clock - window.begin, self.log.state.last
        recent, kept = [time - clock for time in self.log.state.recent], list[float]()
        for time in times:
            if time < window.start - _BORDER_S or (time >= window.end and not window.is_last):
                continue  # that of another window
            same = [each for each in recent if abs(each - time) <= 2 * _BORDER_S]
            if same and time < window.start + _BORDER_S:
                nearest = min(same, key=lambda each: abs(each - time))
                recent.remove(nearest)
                kept.append(nearest)
                continue
            if last is None or clock + time - last >= self.cooldown:
                last = clock + time
                yield self._event("began", window, time, result, kept.count(time))
            kept.append(time)
        near = (time for time in (*recent, *kept) if time >= window.end - 2 * _BORDER_S)
        changes |= {"recent": tuple(clock + time for time in near), "last": last}

    def _event(
        self, kind: Kind, window: Window, time: float, result: RunResult, same: int = 0
    ) -> Event:
        """Write the page of an event; ``same`` others have its time."""
        answer, clock = result.answer, round(self.log.state.clock - window.begin + time, 3)
        recorded, seen = Recorded.read(window.path.name), max(0.0, time)
        if answer is not None and answer.moments is not None:
            at = replace(answer, info={"moment": seen})  # its page shows this moment of them
            result = replace(result, trace=replace(result.trace, answer=at))
        name = f"{round(clock * 1000):012d}{f'-{same + 1}' if same else ''}"
        page = f"{PAGES}/{name}.html"
        target = self.log.folder / page
        with file_errors(target.parent):
            target.parent.mkdir(exist_ok=True)
        result.html(target)
        clip = f"{PAGES}/{name}.mp4"
        try:
            write_clip(window.path, seen, self.log.folder / clip)
        except MediaError as error:
            self.say(f"no clip of the event at {seen:.1f} s: {error}")
            clip = ""
        return Event(
            id=f"{self.log.state.since}-end" if kind == "ended" else name,
            kind=kind,
            source=window.path.name,
            time=round(seen, 3),
            clock=clock,
            utc="" if recorded is None else recorded.utc(time),
            confidence=None if answer is None else answer.confidence,
            info=None if answer is None else answer.info,
            page=page,
            clip=clip,
        )

    def _tell(self) -> None:
        """Deliver what was not delivered yet; what fails is tried again at the next event."""
        while self.receiver is not None and (rows := self.log.untold()):
            lines = rows.splitlines(keepends=True)
            delivered, why = self.receiver.tell(lines)
            told = self.log.state.told + sum(map(len, lines[:delivered]))
            self.log.commit(told=told)
            self._is_held = delivered < len(lines) and not why
            if why:
                self.say(f"not delivered: {why}; it is tried again later")
            if delivered < len(lines):
                return


def written_program(
    reasoner: Reasoner, source: Path, statement: str, recorder: Recorder | None = None
) -> str:
    """Return a program that a writer wrote for the first frame of a source.

    Raises:
        MediaError: it is a file, or a stream, that cannot be read.
        UsageError: there is no file yet, or none of its programs answers.
    """
    window = None
    for path in files(source, "", is_done=False, once=True, recorder=recorder):
        try:
            window = next(windows(path, 1.0, 0.0, video=False))
            break
        except MediaError:
            if source.is_file():
                raise
    if window is None:
        raise UsageError(f"{source}: no video yet, for which to write a program; give --program")
    answering = reasoner.run(window.media, statement, task=TASK).trace.answering
    if answering is None or not answering.program:
        raise UsageError(
            f"no program answers {statement[:60]!r} on the first frame; put it in other words, or "
            "give --program"
        )
    return answering.program


def _holds(result: RunResult) -> bool:
    return result.answer is not None and bool(result.answer.value)


def _found_nothing(result: RunResult) -> bool:
    """Return whether a program failed because what it sought is not there.

    What a condition says of such a thing is not true.
    """
    failure, trials = result.failure, result.trace.trials
    if failure is None or not trials:
        return False
    took_first = failure.exception == "IndexError"
    return failure.kind == "below_threshold" or (
        took_first and any(call.result == [] for call in trials[-1].tool_calls)
    )


def takes_video(program: str) -> bool:
    """Return whether the entry point of a program names its first parameter ``video``."""
    try:
        functions = [n for n in ast.walk(ast.parse(program)) if isinstance(n, ast.FunctionDef)]
    except PARSE_ERRORS:
        return False  # the first window says what is wrong
    entries = ([*f.args.posonlyargs, *f.args.args] for f in functions if f.name == ENTRY)
    return any(entry and entry[0].arg == "video" for entry in entries)
