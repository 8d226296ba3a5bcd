"""The list of mutants stays applicable, and the benchmark tells caught from missed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from benchmarks.mutants import ROOT, read_mutants

LIST = """
[[mutant]]
name = "{name}"
area = "{area}"
file = "shop.py"
old = "{old}"
new = "{new}"
tests = ["test_shop.py"]
"""


def tree(folder: Path) -> Path:
    """Make a working tree with a module and its test."""
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "shop.py").write_text("def price(n):\n    return 3 * n\n")
    test = "from shop import price\n\n\ndef test_price():\n    assert price(2) == 6\n"
    (folder / "test_shop.py").write_text(test)
    return folder


def ran(
    folder: Path, *mutants: tuple[str, str, str], limit: int = 100
) -> subprocess.CompletedProcess[str]:
    """Run the benchmark on a tree with mutants of these names, old and new texts."""
    path = folder.with_suffix(".toml")
    path.write_text("".join(LIST.format(name=name, area=name[0], old=old, new=new)
                            for name, old, new in mutants))  # fmt: skip
    return subprocess.run(
        [sys.executable, "benchmarks/mutants.py", "--root", str(folder), "--mutants", str(path),
         "--out", str(folder.with_suffix(".jsonl")), "--limit", str(limit)],
        capture_output=True, text=True, cwd=ROOT, check=False, timeout=120,
    )  # fmt: skip


def test_every_mutant_can_be_applied() -> None:
    mutants = read_mutants()
    assert [problem for each in mutants if (problem := each.problem(ROOT))] == []
    areas = Counter(each.area for each in mutants)
    assert len({each.name for each in mutants}) == len(mutants) >= 60
    assert len(areas) == 11 and min(areas.values()) >= 6


def test_caught_missed_and_broken_are_told_and_kept(tmp_path: Path) -> None:
    folder = tree(tmp_path / "tree")
    caught, missed = ("dearer", "3 * n", "4 * n"), ("turned", "3 * n", "n * 3")
    done = ran(folder, caught, missed, ("unreadable", "def", "fed"))
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(" (")[0] for line in lines[:3]] == [
        "caught  d: dearer", "missed  t: turned", "broken  u: unreadable",
    ]  # fmt: skip
    assert lines[-3:] == ["missed: turned", "broken: unreadable", "1 of 3 caught, 33.3 %"]
    assert (folder / "shop.py").read_text() == "def price(n):\n    return 3 * n\n"
    stored = [json.loads(line) for line in folder.with_suffix(".jsonl").read_text().splitlines()]
    assert [line["result"] for line in stored] == ["passes", "caught", "missed", "broken"]
    again = ran(folder, caught)  # answered from the results, without a line of its own
    assert again.returncode == 0 and again.stdout.startswith("area")


def test_a_text_that_is_gone_or_stands_twice_is_one_line(tmp_path: Path) -> None:
    done = ran(tree(tmp_path / "tree"), ("gone", "5 * n", "6 * n"), ("twice", "n", "m"))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.splitlines() == [
        "gone: its text stands 0 times in shop.py, not once",
        "twice: its text stands 3 times in shop.py, not once",
    ]


def test_tests_that_fail_by_themselves_catch_nothing(tmp_path: Path) -> None:
    folder = tree(tmp_path / "tree")
    (folder / "test_shop.py").write_text("def test_price():\n    assert False\n")
    done = ran(folder, ("dearer", "3 * n", "4 * n"))
    assert done.returncode == 1 and "test_shop.py fails without a mutant" in done.stderr


def test_a_hang_is_ended_and_counts_as_caught(tmp_path: Path) -> None:
    done = ran(tree(tmp_path / "tree"), ("endless", "3 * n", "sum(iter(int, 1))"), limit=3)
    assert done.returncode == 0 and "1 of 1 caught" in done.stdout, done.stderr
    assert done.stdout.startswith("caught: ran too long e: endless")
