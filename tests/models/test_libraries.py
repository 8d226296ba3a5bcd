"""Importing the libraries: without garbage collections, and freed at the end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from viper.errors import ModelError

BEGIN = """
import gc, sys
from viper.models.libraries import import_libraries
import_libraries()
assert gc.isenabled()
"""


def test_nothing_is_collected_while_the_libraries_are_imported() -> None:
    program = (
        "import gc\n"
        "runs = []\n"
        "from viper.models.libraries import import_libraries\n"
        "gc.callbacks.append(lambda phase, info: runs.append(phase))\n"
        "import_libraries()\n"
        "print(runs, gc.isenabled(), gc.get_freeze_count() > 100_000)\n"
        "import_libraries()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['start', 'stop'] True True"  # the one before the imports


def test_the_end_of_the_process_frees_everything() -> None:
    """Triton, for one, reports on stderr what was not freed."""
    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, "-c", f"import triton.language\n{BEGIN}"], capture_output=True, check=True
    )
    assert done.stderr == b""


def test_a_library_that_cannot_be_loaded_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from viper.models import libraries

    def import_module(name: str) -> None:
        raise ImportError("libtorch.so: failed to map segment from shared object")

    monkeypatch.setattr(libraries, "_LIBRARIES", ("torch", "not-there-yet"))
    monkeypatch.setattr(libraries.importlib, "import_module", import_module)
    with pytest.raises(ModelError, match="torch is installed and cannot be loaded .* memory"):
        libraries.import_libraries()
