"""The benchmark of kills, small and with fake models: what it claims holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.evaluate.fake_backends import a_set

ROOT = Path(__file__).parents[2]


def test_a_run_that_is_killed_three_times_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    file, profile = a_set(tmp_path / "set", 400)
    done = subprocess.run(
        [sys.executable, "benchmarks/eval_kills.py", "--set", str(file), "--samples", "400",
         "--kills", "3", "--profile", str(profile)],
        capture_output=True, text=True, cwd=ROOT, timeout=170,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "400 samples, 3 kills: {'answering': 3}" in done.stdout
    assert "reports that differ outside timing: 0" in done.stdout
