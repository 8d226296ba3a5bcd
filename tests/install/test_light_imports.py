"""A light installation, without torch and the other packages of extras: what works, what is said.

The packages are made unimportable in a process of its own.
"""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import viper
from tests.endpoint.conftest import Start
from tests.endpoint.conftest import start as start
from tests.endpoint.model import written
from tests.install.without_extras import HEAVY
from viper.errors import EXTRA_OF

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("without_extras.py")

HELP = """
import sys
from tests.install.without_extras import Blocker
sys.meta_path.insert(0, Blocker())
import click
from click.testing import CliRunner
from viper.cli import cli

def walk(command, words):
    done = CliRunner().invoke(cli, [*words, "--help"], prog_name="viper", standalone_mode=False)
    if done.exception is not None:
        print(" ".join(words), repr(done.exception))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if words + [name] != ["lab"]:
                walk(command.get_command(context, name), [*words, name])
        for name in getattr(command, "_lazy", ()):
            command.get_command(context, name)

walk(cli, [])
"""

IMPORTS = """
import importlib, sys
from tests.install.without_extras import HEAVY, Blocker
sys.meta_path.insert(0, Blocker())
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        if (error.name or "").partition(".")[0] in HEAVY:
            print(name)
"""


def light(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def without_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    return light(str(RUNNER), *arguments)


@pytest.fixture
def picture(tmp_path: Path) -> str:
    Image.fromarray(np.full((40, 60, 3), 128, np.uint8)).save(tmp_path / "grey.png")
    return str(tmp_path / "grey.png")


def test_every_help_text_needs_no_extra() -> None:
    done = light("-c", HELP)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_all_modules_import_but_those_that_only_one_extra_uses() -> None:
    names = [
        module.name
        for module in pkgutil.walk_packages(viper.__path__, "viper.")
        if not module.name.endswith("__main__") and ".bridges." not in module.name
    ]
    done = light("-c", IMPORTS, *names)
    assert done.returncode == 0, done.stderr
    failed = [name for name in done.stdout.split() if not name.startswith("viper.web.demo.")]
    assert failed == ["viper.embedded.video_events_model", "viper.env.openenv"]


def test_an_endpoint_answers_a_query(start: Start, tmp_path: Path) -> None:
    start()
    path = written(tmp_path / "small.png", (40, 60))
    done = without_extras("run", str(path), "the thing", "--profile", "endpoint", "--json")
    assert json.loads(done.stdout)["answer"] is not None, done.stderr


def test_a_program_runs_in_the_sandbox(start: Start, tmp_path: Path, picture: str) -> None:
    start()
    program = tmp_path / "width.py"
    program.write_text("def execute_command(image):\n    return ImagePatch(image).width\n")
    done = without_extras(
        "exec", str(program), picture, "--profile", "endpoint", "--task", "question"
    )
    assert "60" in done.stdout, done.stderr


def test_a_profile_on_this_machine_names_the_extra_before_anything_loads(picture: str) -> None:
    done = without_extras("run", picture, "the cup", "--profile", "embedded")
    assert done.returncode == 2
    assert 'pip install "viper-reasoner[local]"' in done.stderr
    assert done.stderr.splitlines()[-1].startswith("viper: the llm backend 'transformers' needs")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("extra", "command"), [("demo", ["demo"]), ("evaluate", ["eval", "gqa"])])
def test_a_command_without_its_extra_is_one_line(extra: str, command: list[str]) -> None:
    done = without_extras(*command)
    assert done.returncode == 2
    assert f'pip install "viper-reasoner[{extra}]"' in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_extras_of_the_table_are_declared() -> None:
    from configparser import ConfigParser

    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    declared = set(setup["options.extras_require"])
    assert {extra for each in EXTRA_OF.values() for extra in each.split(",")} <= declared
    assert {"torch", "cv2", "rapidocr"} <= HEAVY
