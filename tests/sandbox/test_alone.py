"""The sandbox works alone: with four packages, and without numpy."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.mutants import ROOT

NEEDED = ("RestrictedPython", "msgpack", "pyseccomp", "landlockpy")

PROGRAM = """
import sys
sys.path += {folders}
from viper.sandbox import Limits, Prelude, Sandbox, describe_failure

class Sums:
    def call(self, name, args, kwargs, line):
        return sum(args)

with Sandbox(Sums(), Limits(time_s=20), Prelude.functions("add"), mode="weak") as sandbox:
    outcome = sandbox.run({code!r})
    print(describe_failure(outcome.failure) if outcome.failure else outcome.value)
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the needed packages into a folder, because a child imports from where they lie."""
    folder = tmp_path_factory.mktemp("site")
    for name in NEEDED:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        origin = Path(spec.origin)
        if origin.name == "__init__.py":
            shutil.copytree(origin.parent, folder / name)
        else:
            shutil.copy(origin, folder)
    return folder


def run_alone(packages: Path, code: str) -> str:
    """Run a program where only the needed packages and viper can be imported."""
    text = PROGRAM.format(folders=[str(packages), str(ROOT)], code=code)
    # -I and -S leave the standard library alone on the path, here and in the child.
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", text], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_programs_run_with_four_packages(packages: Path) -> None:
    code = "import math\nanswer = [add(i, 1) for i in range(3)], {'a': math.sqrt(4)}"
    assert run_alone(packages, code) == "([1, 2, 3], {'a': 2.0})"


def test_without_numpy_programs_have_no_arrays(packages: Path) -> None:
    refusal = run_alone(packages, "import numpy as np\nanswer = np.zeros(3)")
    assert refusal.startswith("forbidden at line 1") and "'numpy' is not available" in refusal


def test_programs_are_guarded_without_numpy_too(packages: Path) -> None:
    assert run_alone(packages, "answer = str.mro()").startswith("forbidden")
