"""Makes one thing wrong at a time and shows whether the tests notice.

    nice python benchmarks/mutants.py [--only NAME or AREA]... [--list] [--jobs 1]

The mutants stand in ``benchmarks/mutants.toml``. The working tree is copied to a temporary folder;
there each mutant is applied alone and its tests run. A mutant is caught if a test fails or runs
longer than ``--limit``, missed if all pass, and broken if its tests cannot be imported. All of
these tests must pass first without a mutant. Claimed: at least 95 % are caught. Exit status 1
otherwise.

Each result is written to ``--out`` at once. The next call answers from there what it can: a result
counts as long as the mutant, its file and its tests are the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_suffix(".toml")
CLAIMED = 0.95
FAILED, INTERRUPTED = 1, 2
"""Exit codes of pytest: a test failed; a test file cannot be imported."""


@dataclass(frozen=True)
class Mutant:
    """One change, and the test files that should notice it.

    Attributes:
        old: text that stands exactly once in ``file``.
        new: text in its place.
    """

    name: str
    area: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def problem(self, root: Path) -> str:
        """Return why the mutant cannot be applied to a tree, or ""."""
        missing = [name for name in (self.file, *self.tests) if not (root / name).is_file()]
        if missing:
            return f"{self.name}: there is no {', '.join(missing)}"
        count = (root / self.file).read_text(encoding="utf-8").count(self.old)
        if count != 1:
            return f"{self.name}: its text stands {count} times in {self.file}, not once"
        return f"{self.name}: changes nothing" if self.old == self.new else ""

    def digest(self, root: Path) -> str:
        """Return a hash of the mutant, its file and its tests."""
        hashed = hashlib.sha256(repr(self).encode())
        for name in (self.file, *self.tests):
            hashed.update((root / name).read_bytes())
        return hashed.hexdigest()[:16]


def read_mutants(path: Path = LIST) -> list[Mutant]:
    """Return the mutants of a list, in its order."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**table, "tests": tuple(table["tests"])}) for table in tables]


class Results:
    """Results by mutant, a JSON line each, written as they come."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
        # The last line may be cut.
        whole = [json.loads(line) for line in lines if line.endswith("}")]
        self._known = {(line["name"], line["digest"]): line["result"] for line in whole}

    def get(self, name: str, digest: str) -> str | None:
        """Return the result of a mutant, or None if it must be run."""
        return self._known.get((name, digest))

    def add(self, name: str, digest: str, result: str, seconds: float) -> None:
        """Write a result."""
        line = {"name": name, "digest": digest, "result": result, "seconds": round(seconds, 1)}
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


class Copy:
    """A copy of the working tree in which tests run."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._tree, self._temporary = folder / "tree", folder / "tmp"
        self._temporary.mkdir(parents=True)
        for name in tree_files(root):
            target = self._tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target, follow_symlinks=False)

    def result(self, mutant: Mutant, limit_s: float) -> str:
        """Apply a mutant, run its tests and undo it; return ``caught``, ``missed``, …"""
        path = self._tree / mutant.file
        before = path.read_text(encoding="utf-8")
        try:
            _write_source(path, before.replace(mutant.old, mutant.new))
            return self.run(mutant.tests, limit_s)[0]
        finally:
            _write_source(path, before)

    def run(self, tests: Sequence[str], limit_s: float) -> tuple[str, str]:
        """Run test files until one fails; return the result and what pytest printed.

        Raises:
            SystemExit: pytest itself cannot run them.
        """
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        threads = os.environ.get("OMP_NUM_THREADS", "1")
        given = {"PYTHONPATH": str(self._tree), "TMPDIR": str(self._temporary)}
        process = subprocess.Popen(
            command, cwd=self._tree, env={**os.environ, "OMP_NUM_THREADS": threads, **given},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            return "caught: ran too long", ""
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        results = {0: "missed", FAILED: "caught", INTERRUPTED: "broken"}
        if process.returncode not in results:
            sys.exit(f"pytest ended with {process.returncode}:\n{said[-2000:]}")
        return results[process.returncode], said


def tree_files(root: Path) -> list[str]:
    """Return the files of a working tree that git does not ignore, links included."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    names = sorted(set(listed.stdout.split("\0")) - {""})
    return [name for name in names if (root / name).is_file() or (root / name).is_symlink()]


def _write_source(path: Path, text: str) -> None:
    """Write a module and forget its byte code, which may look as new as the text."""
    path.write_text(text, encoding="utf-8")
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


@contextmanager
def copies(root: Path, count: int) -> Iterator[Queue[Copy]]:
    """Give copies of the working tree, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        queue: Queue[Copy] = Queue()
        for number in range(count):
            queue.put(Copy(Path(folder, str(number)), root))
        yield queue


def check_unchanged(copy: Copy, mutants: Sequence[Mutant], results: Results, root: Path) -> None:
    """Run every test file once without a mutant.

    Raises:
        SystemExit: a test fails, so that it would seem to catch any mutant.
    """
    names = sorted({name for mutant in mutants for name in mutant.tests})
    digests = {name: Mutant(name, "", name, "", "", ()).digest(root) for name in names}
    for name, digest in digests.items():
        if results.get(name, digest):
            continue
        began = time.monotonic()
        result, said = copy.run([name], 900.0)
        if result != "missed":
            sys.exit(f"{name} fails without a mutant ({result}):\n{said[-2000:]}")
        results.add(name, digest, "passes", time.monotonic() - began)


def run_mutants(
    mutants: Sequence[Mutant], results: Results, root: Path, jobs: int, limit_s: float
) -> dict[str, str]:
    """Return the result of each mutant by name; run those that have none yet."""
    digests = {mutant.name: mutant.digest(root) for mutant in mutants}
    known = {name: results.get(name, digest) for name, digest in digests.items()}
    todo = [mutant for mutant in mutants if known[mutant.name] is None]
    found = {name: result for name, result in known.items() if result is not None}
    if todo:
        with copies(root, jobs) as queue:
            first = queue.get()
            check_unchanged(first, todo, results, root)
            queue.put(first)

            def run(mutant: Mutant) -> None:
                copy, began = queue.get(), time.monotonic()
                try:
                    result = copy.result(mutant, limit_s)
                finally:
                    queue.put(copy)
                seconds = time.monotonic() - began
                results.add(mutant.name, digests[mutant.name], result, seconds)
                found[mutant.name] = result
                print(f"{result:<7} {mutant.area}: {mutant.name} ({seconds:.0f} s)", flush=True)

            with ThreadPoolExecutor(jobs) as pool:
                list(pool.map(run, todo))
    return {mutant.name: found[mutant.name] for mutant in mutants}


def table(mutants: Sequence[Mutant], found: dict[str, str]) -> str:
    """Return caught, missed and broken mutants by area."""
    rows = [f"{'area':<16} {'mutants':>7} {'caught':>7} {'missed':>7} {'broken':>7}"]
    areas = list(dict.fromkeys(mutant.area for mutant in mutants))
    for area in [*areas, "all"]:
        chosen = [found[mutant.name] for mutant in mutants if area in (mutant.area, "all")]
        counts = Counter(result.partition(":")[0] for result in chosen)
        shares = " ".join(f"{counts[name]:>7}" for name in ("caught", "missed", "broken"))
        rows.append(f"{area:<16} {len(chosen):>7} {shares}")
    for name, result in found.items():
        if not result.startswith("caught"):
            rows.append(f"{result}: {name}")
    return "\n".join(rows)


def main() -> None:
    """Run the mutants and print the table."""
    given = _arguments()
    mutants = read_mutants(given.mutants)
    if given.only:
        mutants = [each for each in mutants if {each.name, each.area} & set(given.only)]
    if not mutants:
        sys.exit(f"no mutant and no area is called {' or '.join(given.only)}; see --list")
    if given.list:
        print("\n".join(f"{each.area}: {each.name} ({each.file})" for each in mutants))
        return
    problems = [problem for each in mutants if (problem := each.problem(given.root))]
    if problems:
        sys.exit("\n".join(problems))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    found = run_mutants(mutants, Results(given.out), given.root, given.jobs, given.limit)
    print(table(mutants, found))
    caught = sum(result.startswith("caught") for result in found.values())
    print(f"{caught} of {len(found)} caught, {100 * caught / len(found):.1f} %")
    if caught < CLAIMED * len(found):
        sys.exit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="NAME or AREA")
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a mutant's tests")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "mutants.jsonl")
    parser.add_argument("--mutants", type=Path, default=LIST, help="another list")
    parser.add_argument("--root", type=Path, default=ROOT, help="another working tree")
    return parser.parse_args()


if __name__ == "__main__":
    main()
