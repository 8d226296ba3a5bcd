"""Store of a run in a folder: manifest (``run.json``), results (SQLite) and reports.

`RunStore.create` and `RunStore.resume` take the writer's lock, check or write the manifest and open
the database; `add` stores one result per transaction; `RunStore.read` opens any run for reading.
`samples_of_run` finds the samples again, in the data set, or in the run's own folder: a run of
``viper demo`` stores pictures and clips itself, since no data set has them, and the files of its
results are names below the folder ``media``.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from viper.data.registry import choose, samples_by_id
from viper.data.sample import DatasetSpec, MediaFiles, Sample
from viper.errors import StoreError, UsageError
from viper.evaluate.metrics.figures import Results
from viper.evaluate.runs import index
from viper.evaluate.runs.manifest import Manifest, differences, samples_hash
from viper.evaluate.sample_result import (
    COLUMNS,
    INSERT,
    ROW_COLUMNS,
    SampleResult,
    row_from,
    values_of,
)
from viper.record import RecordError, record_from_json
from viper.schema import Trace
from viper.storage.files import WriterLock, file_errors, write_file
from viper.storage.json_lines import append_line, dumps, read_lines
from viper.storage.sqlite import (
    Format,
    database_errors,
    in_memory,
    open_to_read,
    open_to_write,
    transaction,
)

MANIFEST, DATABASE, LOCK = "run.json", "samples.db", "run.lock"
REPORT, PAGE, PACE = "report.json", "report.html", "pace.jsonl"


# Returns the samples of an evaluation by its limit.
Draw = Callable[[int | None], Sequence[Sample]]

# Some hundred kilobytes in memory, and few enough queries that reading takes the time.
_PAGE_ROWS = 200

# Enough to recognise the folder, on one line.
_NAMED_FILES = 3

# Both mean that the sample, or its place, is taken.
_TWICE = (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE)

# The SQLite file of a run. After a power cut ``--resume`` answers the last samples again.
RUN = Format(
    tables=(
        f"""CREATE TABLE samples (
            {", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())},
            PRIMARY KEY (sample_id, seed)
        )""",
        "CREATE UNIQUE INDEX samples_in_order ON samples (position, seed)",
        "CREATE INDEX samples_by_score ON samples (score, failure)",
        "CREATE TABLE sessions (started TEXT NOT NULL, process INTEGER NOT NULL, revision TEXT, "
        "arguments TEXT NOT NULL)",
    ),
    added=index.tables(),
    version=2,  # 1 has no index
    application_id=0x56495052,  # "VIPR"
    synchronous="NORMAL",
    repair="restore a copy, or start anew with another --out",
    elsewhere="choose another --out",
)

_READ = ", ".join(f'"{name}"' for name in ROW_COLUMNS)
_HAS_OWN = "SELECT 1 FROM sqlite_temp_master WHERE name = 'facts'"
_NOT_INDEXED = (
    f"SELECT rowid, {index.READ} FROM samples "
    "WHERE rowid > (SELECT COALESCE(MAX(sample), 0) FROM facts) ORDER BY rowid LIMIT ?"
)
_PARTS = (
    "SELECT seed, value, COUNT(*) FROM labels JOIN tagged USING (label) JOIN facts USING (sample) "
    "WHERE kind = 'part' GROUP BY seed, value ORDER BY MIN(position), seed"
)
_FROM_ONE = "FROM samples WHERE sample_id = ? AND seed = ?"


@dataclass(frozen=True)
class Pace:
    """Number of answers of a session, and the seconds that it took for all of them."""

    answers: int
    seconds: float


class RunStore:
    """Folder of a run. Open it with :meth:`create`, :meth:`resume` or :meth:`read`.

    Threads may share it. One process writes at a time, others may read meanwhile.

    Attributes:
        folder: the run's folder.
        manifest: configuration of the run.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        connection: sqlite3.Connection,
        lock: WriterLock | None = None,
    ) -> None:
        self.folder, self.manifest = folder, manifest
        self._connection, self._lock = connection, lock
        self._turn = threading.Lock()

    @classmethod
    def create(cls, folder: Path, manifest: Manifest) -> RunStore:
        """Create a run in a folder that is absent or empty.

        Raises:
            UsageError: the folder holds a run or other files.
            StoreError: it cannot be written, or another process is writing it.
        """
        return cls._begin(folder, manifest, resuming=False)

    @classmethod
    def resume(
        cls,
        folder: Path,
        manifest: Manifest,
        samples: Sequence[Sample] = (),
        draw: Draw | None = None,
    ) -> RunStore:
        """Open the run of this folder to continue it, or create a new one.

        Args:
            samples, draw: see :func:`same_run`.

        Raises:
            UsageError: as :func:`same_run`, or the folder holds other files and no run.
            StoreError: it cannot be written, is damaged, or another process is writing it.
        """
        return cls._begin(folder, manifest, resuming=True, samples=samples, draw=draw)

    @classmethod
    def read(cls, folder: Path) -> RunStore:
        """Open the run of this folder for reading, finished or still being written.

        Raises:
            UsageError: no run there.
            StoreError: damaged, or a newer version's.
        """
        if not (folder / MANIFEST).is_file():
            raise UsageError(f"{folder}: not the folder of a run ({MANIFEST} is missing)")
        manifest = read_manifest(folder)
        # A run that ended before its first sample has no database; it reads as empty.
        return cls(folder, manifest, open_to_read(folder / DATABASE, RUN) or in_memory(RUN))

    @classmethod
    def _begin(
        cls,
        folder: Path,
        manifest: Manifest,
        *,
        resuming: bool,
        samples: Sequence[Sample] = (),
        draw: Draw | None = None,
    ) -> RunStore:
        if not (resuming and (folder / MANIFEST).exists()):
            check_free(folder)  # before the lock, which would be a file among others
        with file_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        lock = WriterLock(folder / LOCK, "this run")
        try:
            if resuming and (folder / MANIFEST).exists():
                first = same_run(folder, manifest, samples, draw)
            else:
                check_free(folder)
                first = manifest
                write_file(folder / MANIFEST, _indented(manifest.to_json()), inside=folder)
            connection = open_to_write(folder / DATABASE, RUN, examine=True)
            store = cls(folder, first, connection, lock)
        except BaseException:
            lock.release()
            raise
        started = datetime.now(UTC).isoformat(timespec="seconds")
        arguments = dumps(manifest.to_json()["arguments"])
        session = (started, os.getpid(), manifest.environment.revision, arguments)
        try:
            with database_errors(folder / DATABASE, RUN):
                connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?)", session)
            if resuming:
                store.catch_up()
                store._place(samples)
        except BaseException:
            store.close()
            raise
        return store

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Fold the log into the database and admit the next writer. May be called twice."""
        with self._turn:
            try:
                self._connection.close()
            finally:
                if self._lock is not None:
                    self._lock.release()

    def add(self, position: int, result: SampleResult, trace: Trace | None = None) -> None:
        """Store a result. Once this returns, the end of the process cannot undo it.

        Args:
            position: the sample's place in its set, from 0; rows are read in this order.
            row: the sample, judged.
            trace: record of the run; None if nothing ran.

        Raises:
            StoreError: it is in the store already, the disk is full, or an I/O error. Nothing
                of the row is stored then, and a later call may succeed.
        """
        if self._lock is None:
            raise StoreError(f"{self.folder}: opened for reading")
        path, values = self.folder / DATABASE, values_of(position, result, trace)
        with self._turn, database_errors(path, RUN):
            try:
                with transaction(self._connection):
                    sample = self._connection.execute(INSERT, values).lastrowid
                    index.add(self._connection, sample or 0, values[:-1])
            except sqlite3.IntegrityError as error:
                if error.sqlite_errorcode not in _TWICE:
                    raise
                raise StoreError(
                    f"{path}: sample {result.sample_id!r} under seed {result.seed}, or another one "
                    "in its place, is stored already"
                ) from None

    def done(self) -> Collection[tuple[str, int]]:
        """Return sample id and seed of every result. They are looked up, not held in memory."""
        return _StoredKeys(self)

    def count(self) -> int:
        """Return the number of results."""
        ((number,),) = self.query("SELECT COUNT(*) FROM samples")
        return int(number)

    def behind(self) -> int:
        """Return the number of results without an index, all of a run of an earlier version.

        Such a run gets its index by :meth:`catch_up`.
        """
        known = 0
        if self.query("PRAGMA table_info(facts)"):
            ((known,),) = self.query("SELECT COALESCE(MAX(sample), 0) FROM facts")
        ((last,),) = self.query("SELECT COALESCE(MAX(rowid), 0) FROM samples")
        return int(last) - int(known)

    def catch_up(self, advance: Callable[[int], None] = lambda results: None) -> None:
        """Index the results that have no index yet. After a kill, the next call goes on from there.

        If the folder cannot be written, the index is in a temporary file until the store is closed.

        Args:
            advance: called with the number of results after each part of them.

        Raises:
            StoreError: a result cannot be read, or the disk is full.
        """
        if not self.behind():
            return
        path, connection = self.folder / DATABASE, self._connection
        with ExitStack() as stack:
            stack.enter_context(self._turn)
            stack.enter_context(database_errors(path, RUN))
            stack.enter_context(self._cells())
            if self._lock is None and os.access(self.folder, os.W_OK) and os.access(path, os.W_OK):
                connection = stack.enter_context(closing(open_to_write(path, RUN)))
            elif self._lock is None and not connection.execute(_HAS_OWN).fetchall():
                for statement in index.tables("temp."):
                    connection.execute(statement)
            lines: list[Any] = [()]
            while lines:
                with transaction(connection):
                    lines = connection.execute(_NOT_INDEXED, (_PAGE_ROWS,)).fetchall()
                    for sample, *line in lines:
                        index.add(connection, sample, line)
                advance(len(lines))

    def row(self, sample_id: str, seed: int) -> SampleResult | None:
        """Return the result of a sample under a seed, or None."""
        lines = self.query(f"SELECT {_READ} {_FROM_ONE}", (sample_id, seed))
        with self._cells():
            return row_from(lines[0]) if lines else None

    def rows(self, seed: int | None = None) -> Iterator[SampleResult]:
        """Yield the results in the order of the set, for one seed or all. One page is in memory."""
        select = f"SELECT position, seed, {_READ} FROM samples"
        for lines in self._pages(select, _PAGE_ROWS, seed):
            with self._cells():
                results = [row_from(line[2:]) for line in lines]
            yield from results

    def results(self, numbers: Sequence[str] = index.NUMBERS) -> Results:
        """Return the columns of all results in the order of the set; iterating reads whole rows.

        Args:
            numbers: those of the index that the columns have; at least :data:`index.FIGURES`.
        """
        self.catch_up()
        pages = self._pages(f"SELECT {index.columns_of(numbers)} FROM facts", 10 * _PAGE_ROWS)
        with self._cells():
            return index.results_of(pages, numbers, self.rows)

    def totals(self) -> list[tuple[str | None, int, float, float, int]]:
        """Return number, scores, cost and requests of the results of each failure, or of none."""
        self.catch_up()
        sums = "COUNT(*), SUM(score), TOTAL(cost_usd), SUM(llm_calls)"
        return self.query(f"SELECT failure, {sums} FROM facts GROUP BY failure")

    def parts(self) -> dict[int, Counter[str]]:
        """Count the results in each part of the error diagram, by seed, the first one first."""
        self.catch_up()
        by_seed: dict[int, Counter[str]] = {}
        for seed, part, count in self.query(_PARTS):
            by_seed.setdefault(seed, Counter())[part] = count
        return by_seed

    def _pages(self, select: str, size: int, seed: int | None = None) -> Iterator[list[Any]]:
        """Yield lines in the order of the set; their first columns are position and seed."""
        last = (-1, 0)
        query = (
            f"{select} WHERE (position, seed) > (?, ?) AND (? IS NULL OR seed = ?) "
            "ORDER BY position, seed LIMIT ?"
        )
        while lines := self.query(query, (*last, seed, seed, size)):
            yield lines
            last = lines[-1][:2]

    def worst(self, limit: int) -> Iterator[SampleResult]:
        """Yield the results with the lowest scores, failed ones before wrong answers."""
        self.catch_up()
        order = f"ORDER BY {index.order_of('worst')} LIMIT ?"
        for key in self.query(f"SELECT sample_id, seed FROM facts {order}", (limit,)):
            if (result := self.row(*key)) is not None:
                yield result

    def trace(self, sample_id: str, seed: int) -> dict[str, Any] | None:
        """Return the JSON values of a sample's :class:`viper.schema.Trace`, or None."""
        lines = self.query(f"SELECT trace {_FROM_ONE}", (sample_id, seed))
        with self._cells():
            return json.loads(lines[0][0]) if lines and lines[0][0] is not None else None

    def read_trace(self, sample_id: str, seed: int) -> Trace | None:
        """Return the trace of a sample, or None.

        Raises:
            RecordError: the stored values are no trace.
        """
        values = self.trace(sample_id, seed)
        return None if values is None else record_from_json(Trace, values)

    def sessions(self) -> list[dict[str, Any]]:
        """Return when the run was begun and resumed, with revision and arguments."""
        lines = self.query("SELECT started, revision, arguments FROM sessions ORDER BY rowid")
        with self._cells():
            return [
                {"started": started, "revision": revision, "arguments": json.loads(arguments)}
                for started, revision, arguments in lines
            ]

    def add_pace(self, answers: int, seconds: float) -> None:
        """Store how long a session took for its answers.

        Raises:
            StoreError: full disk or another I/O error.
        """
        append_line(self.folder / PACE, Pace(answers, seconds))

    def pace(self) -> dict[str, float] | None:
        """Return the answers and the seconds of all sessions that stored them; None without any.

        Raises:
            StoreError: the file cannot be read, or holds something else.
        """
        lines = read_lines(self.folder / PACE, Pace, "the pace of a session")
        total = Pace(sum(each.answers for each in lines), sum(each.seconds for each in lines))
        return vars(total) if total.answers and total.seconds > 0 else None

    def write_report(self, report: Mapping[str, Any]) -> None:
        """Write ``report.json``, whole or not at all.

        Raises:
            StoreError: full disk or another I/O error.
        """
        write_file(self.folder / REPORT, _indented(report), inside=self.folder)

    @contextmanager
    def _cells(self) -> Iterator[None]:
        """Turn an error about the content of a cell into a StoreError."""
        try:
            yield
        except (ValueError, TypeError, AttributeError, RecursionError, RecordError) as error:
            problem = str(error).partition("\n")[0][:200]
            raise StoreError(
                f"{self.folder / DATABASE}: damaged ({problem}); {RUN.repair}"
            ) from None

    def _place(self, samples: Sequence[Sample]) -> None:
        """Move the results to the places of these samples, and store the manifest's set."""
        ids = [sample.sample_id for sample in samples]
        query = f"SELECT sample_id, position FROM facts ORDER BY {index.order_of('order')}"
        with self._turn, database_errors(self.folder / DATABASE, RUN):
            stored = self._connection.execute(query) if ids else ()
            stray = dict.fromkeys(name for name, at in stored if ids[at : at + 1] != [name])
            if stray:
                places = {name: place for place, name in enumerate(ids) if name in stray}
                update = "UPDATE samples SET position = {} WHERE sample_id = ?"
                facts = (
                    "UPDATE facts SET position = ? "
                    "WHERE sample IN (SELECT rowid FROM samples WHERE sample_id = ?)"
                )
                with transaction(self._connection):
                    for name in places:  # free their places first, which are unique
                        self._connection.execute(update.format("-1 - position"), (name,))
                    for name, place in places.items():
                        for query in (update.format("?"), facts):
                            self._connection.execute(query, (place, name))
        if read_manifest(self.folder).set != self.manifest.set:
            write_file(
                self.folder / MANIFEST, _indented(self.manifest.to_json()), inside=self.folder
            )

    def query(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return the lines of a query over the tables of the run and of its index.

        Raises:
            StoreError: the file is damaged, or cannot be read.
        """
        with self._turn, database_errors(self.folder / DATABASE, RUN):
            return self._connection.execute(query, values).fetchall()


class _StoredKeys(Collection[tuple[str, int]]):
    def __init__(self, store: RunStore) -> None:
        self._store = store

    def __len__(self) -> int:
        return self._store.count()

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and bool(self._store.query(f"SELECT 1 {_FROM_ONE}", key))

    def __iter__(self) -> Iterator[tuple[str, int]]:
        last = ("", -1)
        query = "SELECT sample_id, seed FROM samples WHERE (sample_id, seed) > (?, ?) "
        query += "ORDER BY sample_id, seed LIMIT ?"
        while keys := self._store.query(query, (*last, 10 * _PAGE_ROWS)):
            yield from keys
            last = keys[-1]


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a run.

    Raises:
        StoreError: not readable, not a manifest, or of a newer version.
    """
    path = folder / MANIFEST
    with file_errors(path):
        data = path.read_bytes()
    try:
        return Manifest.from_json(json.loads(data))
    except StoreError as error:
        raise StoreError(f"{folder}: {error}") from None
    except (ValueError, RecursionError, TypeError):
        raise StoreError(f"{path}: damaged, or not a run's manifest") from None


def same_run(
    folder: Path, manifest: Manifest, samples: Sequence[Sample] = (), draw: Draw | None = None
) -> Manifest:
    """Return the manifest of the run in the folder, extended to these samples by a larger limit.

    Args:
        samples: samples of the manifest; a run of fewer of them, by a smaller limit, is extended.
        draw: returns the samples of another limit, for sets whose samples depend on it.

    Raises:
        UsageError: the run has another configuration (the message shows the differences), or
            samples that are not among these.
    """
    first = read_manifest(folder)
    old, new = first.set, manifest.set
    grown = replace(old, limit=new.limit, samples=new.samples, sha256=new.sha256)
    if grown == new and new.limit != old.limit and len(samples) > old.samples:
        before = draw(old.limit) if draw else choose(samples, old.samples, old.seed)
        ids = {sample.sample_id for sample in samples}
        among = ids.issuperset(sample.sample_id for sample in before)
        if not among or samples_hash(before) != old.sha256:
            raise UsageError(
                f"{folder}: its {old.samples} samples are not among the {new.samples} of the new "
                "limit; choose another --out"
            )
        first = replace(first, set=new, arguments=manifest.arguments)
    changed = differences(first, manifest)
    if changed:
        raise UsageError(
            f"{folder}: holds a run of another configuration; choose another --out, or ask for "
            "the same:\n" + "\n".join(f"  {line}" for line in changed)
        )
    return first


def check_free(folder: Path) -> None:
    """Check that a new run may begin in a folder.

    Raises:
        UsageError: the folder holds a run or other files, or the path is a file.
        StoreError: the folder cannot be read.
    """
    with file_errors(folder):
        if not folder.exists():
            return
        if not folder.is_dir():
            raise UsageError(f"{folder}: a file; choose a new folder for the run")
        # a process that was killed before its run began may leave these
        left_over = (LOCK, f".{MANIFEST}*.tmp")
        names = sorted(p.name for p in folder.iterdir() if not any(map(p.match, left_over)))
    if MANIFEST in names:
        raise UsageError(
            f"{folder}: holds a run; continue it with --resume or choose another --out"
        )
    if names:
        listed = ", ".join(names[:_NAMED_FILES]) + (", …" if len(names) > _NAMED_FILES else "")
        raise UsageError(f"{folder}: holds other files ({listed}); choose a new folder for the run")


def _indented(values: Mapping[str, Any]) -> str:
    return json.dumps(values, indent=2, allow_nan=False) + "\n"


# Name of the data set in the manifest of such a run.
KEPT_SET = "asked"

# Folder in the run's folder.
MEDIA = "media"


def keeps_media(store: RunStore) -> bool:
    """Return whether a run's samples lie in its own folder."""
    return store.manifest.set.name == KEPT_SET


def samples_of_run(store: RunStore, root: Path | None, ids: Iterable[str]) -> dict[str, Sample]:
    """Return the samples of a run by id. Samples that cannot be read are absent.

    Args:
        root: folder of the set's official files.

    Raises:
        UnknownNameError: the run's set or split is not known here.
        DataError: files of the set are missing or broken.
    """
    described = store.manifest.set
    if not keeps_media(store):
        spec = DatasetSpec(root, described.split, described.seed)
        return samples_by_id(described.name, spec, ids)
    rows = [store.row(name, seed) for name in dict.fromkeys(ids) for seed in store.manifest.seeds]
    return {row.sample_id: kept_sample(store.folder, row) for row in rows if row is not None}


def kept_sample(folder: Path, result: SampleResult) -> Sample:
    """Return the sample of a result. Only files below ``media`` are used."""
    names = tuple(f"{MEDIA}/{Path(name).name}" for name in result.files)
    return Sample(
        result.sample_id,
        result.text,
        task=result.task,
        media="",
        target=result.target,
        load=MediaFiles(folder, names),
        options=result.options,
        files=names,
    )
