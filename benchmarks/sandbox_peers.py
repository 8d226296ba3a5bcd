"""Runs the same programs and the same attempts in this sandbox and in others.

    python benchmarks/sandbox_peers.py [--rounds 30] [--image python:3.11-slim]

The others are the local executor of smolagents, RestrictedPython with its own guards, Monty
(``pydantic-monty``) and ``docker run``; those that are missing are left out. Executors that run a
program in their own process are run in a forked process with limits, so that an attempt that
succeeds harms nothing. Every attempt is judged by whether its answer holds a secret that lies in
the environment and in a file of the host.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.sandbox import IOUS, LOOP, SORT, TYPICAL
from tests.sandbox.abuse import LANGUAGE_CASES
from tests.sandbox.abuse.case import HELD
from tests.sandbox.test_ordinary import PROGRAMS
from viper.sandbox import Limits, Prelude, Sandbox
from viper.sandbox.modules import MODULES

SECRET = "s3cret-0f-the-h0st"
LIMIT_S = 4
"""Seconds that a program may run; one that runs three times as long was not stopped."""

_HOST_LIMITS = {
    resource.RLIMIT_AS: 2 << 30,
    resource.RLIMIT_CPU: 4 * LIMIT_S,
    resource.RLIMIT_FSIZE: 1 << 20,
    resource.RLIMIT_NPROC: 64,
}
"""Limits of a process that runs programs of strangers itself."""

Run = Callable[[str], Any]
"""Runs a program and returns its variable ``answer``; it raises when the program fails."""

_FRAME = "f_builtins['open']('{path}').read()"
ESCAPES = {
    "open a file": "answer = open('{path}').read()",
    "import os": "import os\nanswer = os.environ['PEER_SECRET']",
    "run a command": (
        "import subprocess\nanswer = subprocess.check_output(['cat', '{path}']).decode()"
    ),
    "subclasses of object": (
        "found = ().__class__.__base__.__subclasses__()\n"
        "c = [c for c in found if c.__name__ == '_wrap_close'][0]\n"
        "answer = c.__init__.__globals__['environ']['PEER_SECRET']"
    ),
    "a module of random": "import random\nanswer = random._os.environ['PEER_SECRET']",
    "a module of statistics": (
        "import statistics\nanswer = statistics.sys.modules['os'].environ['PEER_SECRET']"
    ),
    "a module of re": "import re\nanswer = re.enum.sys.modules['os'].environ['PEER_SECRET']",
    "a module of queue": (
        "import queue\nanswer = queue.threading._sys.modules['os'].environ['PEER_SECRET']"
    ),
    "a module by getattr": (
        "import statistics\ns = getattr(statistics, 'sys')\n"
        "answer = getattr(s, 'modules')['os'].environ['PEER_SECRET']"
    ),
    "a module of enum in a class pattern": (
        "import enum\nmatch enum:\n    case object(sys=s):\n"
        "        answer = s.modules['os'].environ['PEER_SECRET']"
    ),
    "str.format": (
        "import statistics\n"
        "answer = '{{0.sys.modules[os].environ[PEER_SECRET]}}'.format(statistics)"
    ),
    "format_map": (
        "import statistics as s\n"
        "answer = '{{s.sys.modules[os].environ[PEER_SECRET]}}'.format_map({{'s': s}})"
    ),
    "frame of a generator": f"g = (x for x in [1])\nanswer = g.gi_frame.{_FRAME}",
    "traceback of an error": (
        f"try:\n    1 / 0\nexcept Exception as e:\n    answer = e.__traceback__.tb_frame.{_FRAME}"
    ),
    "traceback of __exit__": (
        "class A:\n    def __enter__(self):\n        return self\n"
        "    def __exit__(self, kind, error, trace):\n        self.t = trace\n        return True\n"
        f"a = A()\nwith a:\n    1 / 0\nanswer = a.t.tb_frame.{_FRAME}"
    ),
    "frame of a class pattern": (
        f"g = (x for x in [1])\nmatch g:\n    case object(gi_frame=f):\n        answer = f.{_FRAME}"
    ),
    "globals of a function": (
        "import textwrap\n"
        "answer = textwrap.wrap.__globals__['__builtins__']['open']('{path}').read()"
    ),
    "operator.attrgetter": (
        "from operator import attrgetter\nimport statistics\n"
        "answer = attrgetter('sys.modules')(statistics)['os'].environ['PEER_SECRET']"
    ),
    "functools.update_wrapper": (
        "from functools import update_wrapper\nimport statistics\ndef f(): pass\n"
        "update_wrapper(f, statistics.mean, assigned=(), updated=('__globals__',))\n"
        "answer = sys.modules['os'].environ['PEER_SECRET']"
    ),
    "numpy reads a file": (
        "import numpy as np\n"
        "answer = bytes(np.fromfile('{path}', dtype=np.uint8).tolist()).decode()"
    ),
    "a subclass of str": (
        "import statistics\nclass S(str):\n    def show(self):\n"
        "        return super().format(statistics)\n"
        "answer = S('{{0.sys.modules[os].environ[PEER_SECRET]}}').show()"
    ),
    "a date from a pickle": (
        "from datetime import date\ntext = date(b'\\x00\\x00\\x01\\x00').ctime()\nanswer = 'held'"
    ),
}
"""Ways out; ``{path}`` is the file with the secret. The last one ends a process that runs it."""

ENDLESS = {
    "endless loop": "while True:\n    pass",
    "power of a big number": "x = 7 ** (10 ** 8)\nanswer = x % 7",
    "memory": "x = []\nwhile True:\n    x.append('a' * 10 ** 7 + str(len(x)))",
    "endless regular expression": "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')",
    "recursion": "def f(n):\n    return f(n + 1) + 1\nf(0)",
}


class Executor(NamedTuple):
    """One executor.

    Attributes:
        opened: gives a function that runs programs, which may call ``add``.
        separate: programs run in a process of their own.
    """

    name: str
    opened: Callable[[Callable[..., Any]], Any]
    separate: bool


class _Add:
    def __init__(self, add: Callable[..., Any]) -> None:
        self._add = add

    def call(self, name: str, args: Any, kwargs: Any, line: int | None) -> Any:
        return self._add(*args)


@contextmanager
def ours(add: Callable[..., Any]) -> Iterator[Run]:
    limits = Limits(time_s=LIMIT_S, calls=100_000)
    with Sandbox(_Add(add), limits, Prelude.functions("add")) as sandbox:

        def run(program: str) -> Any:
            outcome = sandbox.run(program)
            if outcome.failure is not None:
                raise RuntimeError(f"{outcome.failure.kind}: {outcome.failure.message}")
            return outcome.value

        yield run


@contextmanager
def smolagents(add: Callable[..., Any]) -> Iterator[Run]:
    from smolagents.local_python_executor import LocalPythonExecutor

    imports = [name for name in MODULES if name != "typing_extensions"]

    def run(program: str) -> Any:
        executor = LocalPythonExecutor(imports, timeout_seconds=LIMIT_S)
        executor.send_tools({"add": add})
        return executor(program + "\nanswer").output

    yield run


@contextmanager
def restricted_python(add: Callable[..., Any]) -> Iterator[Run]:
    from RestrictedPython import compile_restricted, limited_builtins, safe_builtins
    from RestrictedPython import utility_builtins as utilities
    from RestrictedPython.Eval import default_guarded_getitem, default_guarded_getiter
    from RestrictedPython.Guards import (
        full_write_guard,
        guarded_iter_unpack_sequence,
        guarded_unpack_sequence,
        safer_getattr,
    )
    from RestrictedPython.PrintCollector import PrintCollector

    def allowed(name: str, *rest: Any) -> Any:
        if name not in MODULES:
            raise ImportError(name)
        return __import__(name, *rest)

    builtins = {**safe_builtins, **limited_builtins, **utilities, "__import__": allowed}
    names = "all any dict enumerate filter frozenset iter list map max min next reversed set sorted"
    source = vars(__import__("builtins"))
    builtins |= {name: source[name] for name in [*names.split(), "sum"]}

    def run(program: str) -> Any:
        space = {
            "__builtins__": builtins,
            "__metaclass__": type,
            "__name__": "__main__",
            "_getattr_": safer_getattr,
            "_getitem_": default_guarded_getitem,
            "_getiter_": default_guarded_getiter,
            "_iter_unpack_sequence_": guarded_iter_unpack_sequence,
            "_unpack_sequence_": guarded_unpack_sequence,
            "_write_": full_write_guard,
            "_print_": PrintCollector,
            "_inplacevar_": lambda op, x, y: {"+=": x + y, "-=": x - y}.get(op) or x * y,
            "add": add,
        }
        exec(compile_restricted(program, "program", "exec"), space)
        return space["answer"]

    yield run


@contextmanager
def monty(add: Callable[..., Any]) -> Iterator[Run]:
    import pydantic_monty

    limits: Any = {
        "max_feed_duration_secs": LIMIT_S, "max_memory": 1 << 29, "max_suspensions": 100_000
    }  # fmt: skip
    with pydantic_monty.Monty(min_processes=2) as pool:

        def run(program: str) -> Any:
            with pool.checkout(limits=limits) as session:
                printed = pydantic_monty.CollectString()
                return session.feed_run(
                    program + "\nanswer", external_lookup={"add": add}, print_callback=printed
                )

        yield run


EXECUTORS = (
    Executor("viper.sandbox", ours, True),
    Executor("smolagents", smolagents, False),
    Executor("RestrictedPython", restricted_python, False),
    Executor("Monty", monty, True),
)


def available(only: str | None = None) -> list[Executor]:
    """Return the executors that are installed."""
    found = []
    for executor in EXECUTORS:
        if only not in (None, executor.name):
            continue
        try:
            with executor.opened(sum) as run:
                run("answer = 1")
            found.append(executor)
        except (ImportError, FileNotFoundError) as error:
            print(f"left out: {executor.name} ({error})", file=sys.stderr)
    return found


def outcome(executor: Executor, run: Run, program: str) -> tuple[str, Any]:
    """Return how a program ended: ``answer`` and its value, ``error``, ``died`` or ``endless``."""
    if executor.separate:
        return _judged(run, program)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        for kind, most in _HOST_LIMITS.items():
            resource.setrlimit(kind, (most, most))
        if os.geteuid() == 0:
            os.setuid(65534)
        os.write(write, _packed(*_judged(run, program)))
        os._exit(0)
    os.close(write)
    ready = select.select([read], [], [], 3 * LIMIT_S)[0]
    data = os.read(read, 65536) if ready else b""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(read)
    kind, value = json.loads(data) if data else ("died" if ready else "endless", None)
    return kind, value


def _packed(kind: str, value: Any) -> bytes:
    """Return an outcome as JSON that fits into a pipe; of a long value only the secret stays."""
    text = json.dumps(value, default=repr)
    if len(text) > 60_000:
        value = SECRET if SECRET in text else "a long answer"
    return json.dumps((kind, value), default=repr).encode()


def _judged(run: Run, program: str) -> tuple[str, Any]:
    begun = time.monotonic()
    try:
        value = run(program)
    except BaseException as error:  # noqa: BLE001 - whatever a program raises
        if "crash" in f"{type(error).__name__}{error}".lower():
            return "died", None
        kind = "endless" if time.monotonic() - begun > 2.5 * LIMIT_S else "error"
        return kind, f"{type(error).__name__}: {error}"[:200]
    return "answer", value


def _same(value: Any, expected: Any) -> bool:
    return json.dumps(value, default=repr) == json.dumps(expected, default=repr)


def ordinary() -> dict[str, tuple[str, Any]]:
    """Return the ordinary programs that need no picture, with their answers in Python."""
    found = {}
    for name, program in PROGRAMS.items():
        if not name.startswith("pictures"):
            space: dict[str, Any] = {"__name__": "__main__"}
            exec(compile(program, "program", "exec", dont_inherit=True), space)
            found[name] = (program, space["answer"])
    return found


def inside(run: Callable[[Callable[..., Any]], Any], separate: bool) -> str:
    """Return uid and kernel protections of the process that runs a program.

    Of several processes it is the one with the most memory: the program holds a long text.
    """
    seen: list[str] = []

    def look(*_: Any) -> int:
        statuses = map(_status, _descendants(os.getpid()) if separate else [os.getpid()])
        status = max(statuses, key=lambda each: int(each.get("VmRSS", "0 kB").split()[0]))
        uid, filters = status["Uid"].split()[0], status["Seccomp"].strip()
        seen.append(f"uid {uid}, seccomp {'on' if filters == '2' else 'off'}")
        return 0

    with run(look) as go:
        go("text = 'long ' * (30 << 20)\nadd(1, 2)\nanswer = len(text)")
    return seen[-1]


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def _descendants(pid: int) -> list[int]:
    children = [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    return [leaf for child in children for leaf in (_descendants(child) or [child])]


def _least(action: Callable[[], Any], rounds: int) -> str:
    times = []
    for _ in range(rounds):
        time.sleep(0.01)
        begun = time.perf_counter()
        action()
        times.append(time.perf_counter() - begun)
    return f"{min(times) * 1e3:.2f}"


def measured(executor: Executor, rounds: int) -> dict[str, str]:
    """Return the rows of one executor: seconds, protections, what runs and what escapes."""

    def start() -> None:
        with executor.opened(lambda *x: sum(x)) as run:
            run("answer = 1")

    row = {"start, first program": _least(start, max(3, rounds // 6))}
    with executor.opened(lambda *x: sum(x)) as run:
        for name, program in {
            "next program": "answer = 1",
            "typical, 22 lines": TYPICAL,
            "sort 500 boxes": SORT,
            "200 x 200 loop": LOOP,
            "4,950 IoUs": IOUS,
        }.items():
            row[name] = _least(lambda program=program: run(program), rounds)  # type: ignore[misc]
        calls = "\n".join(["for i in range({}):", "    add(i, 1)", "answer = 1"])
        times = [statistics.median(_seconds(run, calls.format(n))) for n in (0, 500)]
        row["one call"] = f"{max(0.0, times[1] - times[0]) / 500 * 1e3:.3f}"
        row["inside"] = inside(executor.opened, executor.separate)
        _add_programs(row, executor, run)
    return row


def _seconds(run: Run, program: str) -> list[float]:
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        run(program)
        times.append(time.perf_counter() - begun)
    return times


def _add_programs(row: dict[str, str], executor: Executor, run: Run) -> None:
    programs = ordinary()
    wrong, failed = [], []
    for name, (program, expected) in programs.items():
        kind, value = outcome(executor, run, program)
        if kind != "answer":
            failed.append(name)
        elif not _same(value, expected):
            wrong.append(name)
    right = len(programs) - len(wrong) - len(failed)
    row["ordinary programs"] = f"{right} of {len(programs)}"
    row["of these another answer"] = str(len(wrong))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "secret.txt")
        path.write_text(SECRET)
        found = {n: outcome(executor, run, p.format(path=path)) for n, p in ESCAPES.items()}
    out = [name for name, (kind, value) in found.items() if SECRET in str(value)]
    died = [name for name, (kind, _) in found.items() if kind == "died"]
    row["reach the secret"] = f"{len(out)} of {len(ESCAPES)}"
    row["end the process"] = f"{len(died)}{'' if executor.separate or not died else ' (the host)'}"
    ends = {name: outcome(executor, run, program)[0] for name, program in ENDLESS.items()}
    late = [name for name, kind in ends.items() if kind in ("endless", "died")]
    row["limits not kept"] = f"{len(late)} of {len(ENDLESS)}"
    abuse = [case for case in LANGUAGE_CASES if not _needs_ours(case.program)]
    answers = [outcome(executor, run, case.program) for case in abuse]
    given = sum(kind == "answer" and value != HELD for kind, value in answers)
    row["abuse cases answered"] = f"{given} of {len(abuse)}"
    for title, names in (("fails", failed), ("differs", wrong), ("escapes", out), ("late", late)):
        print(f"{executor.name} {title}: {', '.join(names) or 'none'}", file=sys.stderr)


def _needs_ours(program: str) -> bool:
    return any(word in program for word in ("find(", "Thing", "image", "video", "shared("))


def docker_start(image: str, rounds: int) -> str | None:
    """Return the milliseconds of a program in a fresh container; None where docker cannot run."""
    command = ["docker", "run", "--rm", "-i", "--network", "none", "--pull", "never", image]
    command += ["python", "-c", "print(1)"]
    if shutil.which("docker") is None:
        return None
    try:
        if subprocess.run(command, capture_output=True, timeout=60).returncode:
            return None
    except subprocess.TimeoutExpired:
        return None
    return _least(lambda: subprocess.run(command, capture_output=True), max(3, rounds // 6))


def main() -> None:
    """Prints one table, a column for each executor."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30, help="repetitions; the least is printed")
    parser.add_argument("--only", choices=[each.name for each in EXECUTORS], help="one executor")
    parser.add_argument("--image", default="python:3.11-slim", help="image for docker run")
    given = parser.parse_args()
    os.environ["PEER_SECRET"] = SECRET
    rows = {executor.name: measured(executor, given.rounds) for executor in available(given.only)}
    labels = list(next(iter(rows.values())))
    print(f"| | {' | '.join(rows)} |\n|---|{'---|' * len(rows)}")
    for label in labels:
        unit = " (ms)" if label in labels[:7] else ""
        print(f"| {label}{unit} | {' | '.join(row[label] for row in rows.values())} |")
    started = docker_start(given.image, given.rounds)
    print(f"\ndocker run {given.image}: " + (f"{started} ms" if started else "cannot run here"))


if __name__ == "__main__":
    main()
