"""Test the bridges with the real packages, each in an environment of its own: `make test-bridges`.

An environment sees the packages of the project's own environment and installs on top of them. The
run fails if a package cannot be installed, if a test fails, and if one is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

PACKAGES = {
    "mcp": "mcp==2.3.0",
    "smolagents": "smolagents==1.26.0",
    "dspy": "dspy==3.4.1",
    "inspect_ai": "inspect_ai==0.3.285",
    "lmms-eval": "lmms-eval==0.7.3",
    "trl": "trl==1.16.0",
    "openenv": "openenv==0.10.0",
    "verifiers": "verifiers==0.4.0",
    "gymnasium": "gymnasium==1.4.0",
    "pydantic-monty": "pydantic-monty==1.4.0",
}
TESTS = {"mcp": "tests/serve/test_mcp.py"}
"""Tests that stand elsewhere than in ``tests/bridges/test_NAME.py``."""

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv-bridges"


def python_of(name: str) -> str:
    """Return the interpreter of a bridge's environment, made and filled if it is missing."""
    folder = FOLDER / name
    python, installed = folder / "bin" / "python", folder / PACKAGES[name]
    if not installed.exists():
        print(f"installing {PACKAGES[name]} into {folder.relative_to(ROOT)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
        link = packages / "site-packages" / "project.pth"
        link.write_text(f"{sysconfig.get_path('purelib')}\n")
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, PACKAGES[name]], check=True)
        installed.touch()
    return str(python)


def main(names: list[str]) -> int:
    """Run the tests of the named bridges, by default of all; return the exit code."""
    failed = []
    for name in names or list(PACKAGES):
        test = TESTS.get(name, f"tests/bridges/test_{name.replace('-', '_')}.py")
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", test]
        environment = {**os.environ, "VIPER_BRIDGE": name, "PYTHONPATH": str(ROOT)}
        try:
            subprocess.run([python_of(name), *command], check=True, cwd=ROOT, env=environment)
        except subprocess.CalledProcessError as error:
            failed.append(f"{name}: {' '.join(map(str, error.cmd[1:4]))} ended with "
                          f"{error.returncode}")  # fmt: skip
    print("\n".join(failed) or "every bridge passes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
