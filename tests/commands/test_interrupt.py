"""Ctrl-C ends a command by one line and exit code 130, also while it is still importing.

A child sends itself SIGINT at a call of a given number, counted from where the command begins,
so that no moment depends on how fast the machine is.
"""

from __future__ import annotations

import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CHILD = """
import os, signal, sys

_, begin, only, number, *sys.argv[1:] = sys.argv
calls = 0

def count(frame, event, argument):
    global calls
    if event == "call" and only in ("", frame.f_code.co_name):
        calls += 1
        if calls == int(number):
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGINT)

def guarded():
    from viper.__main__ import main
    sys.setprofile(count)
    main()

def bare():
    sys.setprofile(count)
    from viper.cli import main
    main()

{"guarded": guarded, "bare": bare}[begin]()
"""

CALLS = [2, 5, 20, 100, 500, 1_500, 3_000, 6_000, 9_000, 12_000, 18_000, 25_000, 40_000]
CALLBACKS = [1, 2, 10, 30, 60]
"""Of the import system; an interrupt in one of them is lost on Python itself."""


def ended(begin: str, only: str, number: int, *command: str) -> tuple[int, list[str]]:
    """Exit code and lines of stderr of a command that interrupts itself."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, begin, only, str(number), *command],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        check=False,
    )
    return done.returncode, [line for line in done.stderr.splitlines() if line.strip()]


@pytest.mark.parametrize("command", ["--help", "doctor"])
@pytest.mark.parametrize(
    ("only", "numbers"), [("", CALLS), ("cb", CALLBACKS)], ids=["calls", "callbacks"]
)
def test_an_interrupt_is_one_line_whenever_it_comes(
    command: str, only: str, numbers: list[int]
) -> None:
    found = {number: ended("guarded", only, number, command) for number in numbers}
    wrong = {
        number: (code, lines)
        for number, (code, lines) in found.items()
        if (code, lines) not in [(130, ["viper: interrupted"]), (0, [])]
    }
    assert not wrong
    assert sum(code == 130 for code, _ in found.values()) >= len(numbers) // 2


def test_without_the_guard_the_same_moments_show_tracebacks() -> None:
    codes, lines = zip(*(ended("bare", "", number, "--help") for number in (20, 500)), strict=True)
    assert all("Traceback" in " ".join(each) for each in lines) and 130 not in codes
    code, shown = ended("bare", "cb", 10, "--help")
    assert code == 0 and any("Exception ignored in" in line for line in shown)


def test_both_ways_to_call_it_begin_there() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    scripts = setup["options.entry_points"]["console_scripts"].split("\n")
    assert "viper = viper.__main__:main" in scripts


def test_next_to_nothing_is_imported_before_the_guard() -> None:
    code = (
        "import sys; before = {*sys.modules}; import viper.__main__; "
        "print(*sorted({*sys.modules} - before))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert shown.stdout.split() == ["viper", "viper.__main__"]
