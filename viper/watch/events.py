"""Events of a watch, each stored exactly once, whenever the process is killed.

A folder holds ``events.jsonl`` and ``state.json``. A row is appended first; then the state says how
long the file of rows is and which windows are done. Rows after that are removed at the next start,
and their windows run again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from viper.errors import StoreError, UsageError
from viper.escape import csv_text
from viper.evaluate.answers_file import cell
from viper.record import RecordError, record_from_json
from viper.schema import to_json
from viper.storage.files import WriterLock, file_errors, read_plain_file, write_file
from viper.storage.json_lines import append_line, dumps

EVENTS, STATE, PROGRAM, PAGES = "events.jsonl", "state.json", "program.py", "pages"
METRICS, RECORDING, TABLE = "metrics.prom", "recording", "events.csv"

_LOCK = ".lock"

# A state holds some numbers and names.
_STATE_BYTES = 1 << 20

# Bytes that hold some of the last rows.
_LATEST_BYTES = 1 << 18

# Rows that are read at once for a receiver that was away.
_TOLD_AT_ONCE = 100

Kind = Literal["began", "ended"]


@dataclass(frozen=True)
class Event:
    """One row of ``events.jsonl``.

    Attributes:
        id: the same for every delivery of this event.
        kind: what the condition did; the end of ``while`` has the id of its begin, and ``-end``.
        source: name of the file.
        time: seconds from the start of the file.
        clock: seconds of video since the watch began.
        utc: when a frame of a stream was received; "" for files.
        confidence: calibrated probability that the answer is right, or None.
        info: what the program returned beside its answer.
        page: page with the evidence, beside this file.
        clip: the seconds around it as a video, beside this file; "" if they cannot be read.
    """

    id: str
    kind: Kind
    source: str
    time: float
    clock: float
    utc: str = ""
    confidence: float | None = None
    info: Any = None
    page: str = ""
    clip: str = ""


@dataclass(frozen=True)
class State:
    """How far a watch is.

    Attributes:
        fingerprint: of all that decides about events.
        file, window: the file that is read, and the number of its windows that are done.
        read: seconds of it that these windows hold.
        clock: seconds of the files before it.
        rows, events: bytes and rows of ``events.jsonl``.
        since: id of the event that goes on; "" for none.
        turned: clock since which the answer is another than that; None if it is the same.
        looked: clock of the last window on which the program ran; None before the first.
        last: clock of the last event, for the cool-down; None for none.
        recent: clocks of moments near the end of the last window.
        told: bytes of ``events.jsonl`` that the receiver has.
        failed: windows whose program failed.
    """

    fingerprint: str
    file: str = ""
    window: int = 0
    read: float = 0.0
    clock: float = 0.0
    rows: int = 0
    events: int = 0
    since: str = ""
    turned: float | None = None
    looked: float | None = None
    last: float | None = None
    recent: tuple[float, ...] = ()
    told: int = 0
    failed: int = 0


@dataclass
class EventLog:
    """The folder of a watch, held by one process.

    Attributes:
        is_new: nothing was watched before.
        is_told: a receiver is told of the rows.

    Raises:
        StoreError: it cannot be written, another process holds it, or a file is damaged or a link.
        UsageError: another watch, or something else, has the folder.
    """

    folder: Path
    fingerprint: str
    is_told: bool = False
    state: State = field(init=False)
    is_new: bool = field(init=False)

    def __post_init__(self) -> None:
        with file_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        for name in (_LOCK, EVENTS, STATE, PROGRAM, PAGES, METRICS, RECORDING, TABLE):
            if (self.folder / name).is_symlink():
                raise StoreError(f"{self.folder / name}: is a link; give another --out")
        self._lock = WriterLock(self.folder / _LOCK, "this watch")
        self.state = State(self.fingerprint)
        path = self.folder / STATE
        try:
            self.is_new = not path.exists()
            if self.is_new:
                if (self.folder / EVENTS).exists():
                    raise UsageError(
                        f"{self.folder}: has {EVENTS} but no {STATE}, so it is no folder of viper "
                        "watch; give another --out"
                    )
                self.commit()
            else:
                self.state = self._read(path)
                self._cut()
        except BaseException:
            self.close()
            raise

    def _read(self, path: Path) -> State:
        try:
            state = record_from_json(State, json.loads(read_plain_file(path, _STATE_BYTES)))
        except (RecordError, ValueError, RecursionError) as error:
            raise StoreError(f"{path}: no state of viper watch ({str(error)[:80]})") from None
        if state.fingerprint != self.fingerprint:
            raise UsageError(
                f"{self.folder}: the folder of another watch (its source, condition, program, "
                "profile or an option differs); give another --out"
            )
        return state

    def _cut(self) -> None:
        """Remove rows of windows that were not done."""
        path = self.folder / EVENTS
        with file_errors(path):
            size = path.stat().st_size if path.exists() else 0
            if size < self.state.rows:
                raise StoreError(
                    f"{path}: {size} bytes; expected {self.state.rows}: rows were removed; "
                    "put them back, or give another --out"
                )
            if size > self.state.rows:
                handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
                with os.fdopen(handle, "wb") as file:
                    file.truncate(self.state.rows)

    def add(self, event: Event) -> None:
        """Append a row; it counts once :meth:`commit` was called."""
        path = self.folder / EVENTS
        append_line(path, event)
        self.state = replace(self.state, rows=path.stat().st_size, events=self.state.events + 1)

    def commit(self, **changes: Any) -> None:
        """Change the state, and store it with all rows so far."""
        self.state = replace(self.state, **changes)
        write_file(self.folder / STATE, dumps(self.state) + "\n", inside=self.folder)

    @property
    def waiting(self) -> int:
        """Return how many bytes of rows the receiver does not have yet."""
        return self.state.rows - self.state.told if self.is_told else 0

    def untold(self) -> bytes:
        """Return rows that the receiver does not have yet, the earliest :data:`_TOLD_AT_ONCE`."""
        path = self.folder / EVENTS
        if not self.waiting:
            return b""
        with file_errors(path), path.open("rb") as file:
            file.seek(self.state.told)
            return b"".join(islice(file, _TOLD_AT_ONCE))

    def latest(self, count: int) -> list[Event]:
        """Return the last rows that were stored, the newest first."""
        return list(self._rows(max(0, self.state.rows - _LATEST_BYTES)))[-count:][::-1]

    def _rows(self, start: int = 0) -> Iterator[Event]:
        """Yield the stored rows of the file from a byte on; one that is cut there is left out."""
        path = self.folder / EVENTS
        if not self.state.rows:
            return
        with file_errors(path), path.open("rb") as file:
            file.seek(start)
            for line in file:
                with suppress(RecordError, ValueError, RecursionError):
                    yield record_from_json(Event, json.loads(line))

    def write_table(self) -> None:
        """Write all rows as CSV.

        Raises:
            StoreError: the file cannot be written.
        """
        rows = (map(cell, to_json(event).values()) for event in self._rows())
        text = csv_text([[each.name for each in fields(Event)], *rows])
        write_file(self.folder / TABLE, text, inside=self.folder)

    def write_metrics(self) -> None:
        """Write the figures for Prometheus, as the textfile collector of its node exporter reads.

        Raises:
            StoreError: the file cannot be written.
        """
        state = self.state
        figures = {
            "video_seconds_total": ("counter", state.clock + state.read),
            "events_total": ("counter", state.events),
            "failed_windows_total": ("counter", state.failed),
            "undelivered_bytes": ("gauge", self.waiting),
            "last_look_timestamp_seconds": ("gauge", time.time()),
        }
        lines = (
            f"# TYPE viper_watch_{name} {kind}\nviper_watch_{name} {value:.3f}\n"
            for name, (kind, value) in figures.items()
        )
        write_file(self.folder / METRICS, "".join(lines), inside=self.folder)

    def close(self) -> None:
        self._lock.release()
