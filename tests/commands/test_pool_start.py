"""``viper ace pool start``: solved samples and injected faults become the first demonstrations."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.commands.pool_backends import PLAN, PROGRAM
from tests.commands.test_bad_input import refused, viper
from tests.evaluate.fake_backends import a_set
from viper.strategies.demonstration_pool import DemonstrationPool, PoolExample

ROOT = Path(__file__).parents[2]
RIGHT = {f"q{n}" for n in range(12) if n % 3}


class Start:
    """Questions, every third of which has another label, and a writer that plans."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.set, self.profile = a_set(folder / "set", 12)
        self.notes = folder / "notes.txt"
        text = self.profile.read_text().replace('"compact"', '"chat"')
        text = text.replace(
            "tests.evaluate.fake_backends:Writer", "tests.commands.pool_backends:PlanningWriter"
        )
        self.profile.write_text(text.replace('model = "writer"', f'model = "{self.notes}"'))

    def arguments(self, *more: str | Path) -> list[str]:
        given = ["ace", "pool", "start", self.set, "--profile", self.profile, "--state", self.state]
        return [str(one) for one in (*given, *more)]

    def start(self, *more: str | Path) -> tuple[int, str, str]:
        return viper(self.capsys, *self.arguments(*more))

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def asked(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    @property
    def kept(self) -> tuple[PoolExample, ...]:
        return DemonstrationPool(self.state / "demonstrations").items()

    def of(self, part: str, polarity: str) -> list[PoolExample]:
        return [one for one in self.kept
                if (one.example.part, one.example.polarity) == (part, polarity)]  # fmt: skip


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Start:
    return Start(tmp_path, capsys)


def test_solved_samples_and_planted_faults(bench: Start) -> None:
    code, out, err = bench.start("--correct", "3", "--incorrect", "4")
    assert code == 0 and "8 of 12 samples were answered right" in err
    assert out.splitlines() == [
        "question: 3 correct (3 plans, 3 programs); 4 incorrect (2 plans, 2 programs)",
        f"{bench.state / 'demonstrations'}: 10 new demonstrations, version 1",
    ]
    for one in bench.kept:
        assert one.validated_on == one.example.sample_id in RIGHT
        assert (one.example.set, one.example.llm) == (str(bench.set), "fake-planning")
    for part in ("plan", "program"):
        for one in bench.of(part, "correct"):
            assert (one.example.plan, one.example.score, one.fault) == (PLAN, 1.0, None)
            assert one.example.program == PROGRAM.format(place=0).strip("\n")
    (wrong, _) = bench.of("plan", "incorrect")
    assert wrong.example.plan == PLAN.replace("first", "last") and wrong.fault is not None
    assert wrong.example.critique == "Step 1 says last where it must say first"
    assert (wrong.fault.location, wrong.fault.desired) == ("plan", PLAN)
    (wrong, _) = bench.of("program", "incorrect")
    assert wrong.example.plan == PLAN and "answers[-1]" in wrong.example.program
    assert wrong.example.critique == (
        "Line 3 goes the wrong way: `return answers[-1]` should be `return answers[0]`"
    )
    assert wrong.fault is not None and wrong.fault.location == "program"


def test_what_is_wrong_when_it_is_shown_is_not_kept(bench: Start) -> None:
    code, out, err = bench.start("--correct", "8", "--incorrect", "0")
    assert code == 0 and "7 correct" in out and "7 of 8 correct" in err
    assert {one.example.sample_id for one in bench.kept} == RIGHT - {"q4"}
    assert Counter(one.example.part for one in bench.kept) == {"plan": 7, "program": 7}


def test_the_same_line_asks_nothing_again(bench: Start) -> None:
    bench.start("--correct", "2", "--incorrect", "2")
    before, kept = list(bench.asked), bench.kept
    code, out, err = bench.start("--correct", "2", "--incorrect", "2")
    assert code == 0 and bench.asked == before and bench.kept == kept
    assert "0 new demonstrations, version 1" in out and "12 of 12 are there already" in err
    assert not [line for line in before[:24] if line.endswith("shown")]


def test_a_budget_holds_and_a_larger_one_goes_on(bench: Start) -> None:
    wanted = ("--correct", "8", "--incorrect", "0")
    code, _, err = bench.start("--budget", "22", *wanted)
    assert code == 0 and 10 < len(bench.asked) <= 22
    assert "the budget of 22 requests ended it" in err
    few = {one.id for one in bench.kept}
    code, _, err = bench.start("--budget", "99", *wanted)
    assert code == 0 and "budget" not in err and len(bench.asked) == 24 + 16
    assert few < {one.id for one in bench.kept} and len(bench.kept) == 14
    assert "give 2" in refused(bench.capsys, *bench.arguments("--budget", "1"))


def test_a_writer_without_plans_leaves_programs(bench: Start) -> None:
    _, profile = a_set(bench.folder / "plain", 6)
    code, out, err = bench.start("--profile", profile, "--correct", "2", "--incorrect", "2")
    assert code == 0 and "the profile's writer does not plan: programs only" in err
    assert out.startswith("question: 2 correct (2 programs); 0 incorrect (none)")
    assert "0 of 2 incorrect; more --samples may give more" in err
    assert all(one.example.plan is None and one.validated for one in bench.kept)
    arguments = bench.arguments("--profile", profile, "--strategy", "plan")
    assert "knows programs only" in refused(bench.capsys, *arguments)


def test_where_nothing_was_right_there_is_no_pool(bench: Start) -> None:
    code, out, err = bench.start("--ids", "q0,q3")
    assert (code, out) == (1, "") and "the pool did not change" in err
    code, out, err = bench.start("--ids", "q4", "--correct", "1")
    assert (code, out) == (1, "") and not bench.kept


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--split", "nope"], "unknown split"),
        (["--ids", "q1,q99"], "has no sample q99"),
        (["--api", "nope"], "unknown API 'nope'"),
    ],
)
def test_a_wrong_call_is_one_line(bench: Start, more: list[str], said: str) -> None:
    code, out, err = bench.start(*more)
    (line,) = [line for line in err.splitlines() if line.startswith("viper: ")]
    assert (code, out) == (2, "") and said in line and not bench.asked and not bench.kept


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_it_goes_on_after_it_was_ended(bench: Start, end: signal.Signals) -> None:
    (bench.folder / "hang").touch()
    more = ("--correct", "8", "--incorrect", "0")
    process = subprocess.Popen(
        [sys.executable, "-m", "viper", *bench.arguments(*more)],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=ROOT, env={**os.environ},
    )  # fmt: skip
    while "plan 5 shown" not in bench.asked:
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.02)
    process.send_signal(end)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if end == signal.SIGINT else -9) and not bench.kept
    assert ("to go on: the same line again" in err) is (end == signal.SIGINT)
    (bench.folder / "hang").unlink()
    before = bench.asked
    code, out, _ = bench.start(*more)
    assert code == 0 and "7 correct" in out
    # Only what was under way is asked twice.
    tried = {line for line in before if line.endswith("shown")} - {"plan 5 shown"}
    counts = Counter(bench.asked)
    assert tried and {counts[line] for line in tried} == {1} and counts["plan 5 shown"] == 2
    assert {counts[f"plan {n} bare"] for n in range(12)} == {1}


@pytest.mark.models
def test_the_embedded_writer_starts_a_pool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--split", "train:question", "--samples", "4", "--correct", "2", "--incorrect", "1"]
    code, out, err = viper(
        capsys, "ace", "pool", "start", "world", *given, "--state", str(tmp_path)
    )
    assert code == 0, (out, err)
    kept = DemonstrationPool(tmp_path / "demonstrations").items()
    assert {one.example.part for one in kept} == {"plan", "program"}
    assert all(one.validated for one in kept if one.example.polarity == "correct")
