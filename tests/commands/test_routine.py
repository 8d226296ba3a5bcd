"""``viper setup routine``: what each command writes, says and refuses."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from viper.api.image_patch import ImagePatch
from viper.api.library import called_names
from viper.cli import cli
from viper.errors import UnknownNameError, UsageError
from viper.evaluate.intervals import Estimate
from viper.evaluate.reports.comparison import routine_effect
from viper.evaluate.sample_result import SampleResult
from viper.sandbox import Ref
from viper.testing.routines import fits

GOOD = '''
from viper import ImagePatch, routine


@routine(["ground"])
def widest(list_patches: list[ImagePatch]) -> ImagePatch:
    """Choose the widest patch.

    Example:
        # the widest cup
        def execute_command(image):
            return widest(ImagePatch(image).find("cup"))
    """
    return max(list_patches, key=lambda patch: patch.width)
'''


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), standalone_mode=False)


def written(folder: Path, text: str) -> str:
    path = folder / "mine.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("kind", ["pure", "tool"])
def test_a_new_routine_passes_its_check_and_its_test(kind: str, tmp_path: Path) -> None:
    options = ["--tool"] if kind == "tool" else []
    done = ran("setup", "routine", "new", "my_routine", "--folder", str(tmp_path), *options)
    assert done.return_value == 0
    assert done.stdout.split() == [f"{tmp_path}/my_routine.py", f"{tmp_path}/test_my_routine.py"]
    checked = ran("setup", "routine", "check", str(tmp_path / "my_routine.py"))
    assert (checked.return_value, checked.stdout) == (0, "good   my_routine\n")
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert tested.returncode == 0, tested.stdout


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("mine")
    done = ran("setup", "routine", "new", "mine", "--folder", str(tmp_path))
    assert isinstance(done.exception, UsageError) and "exists already" in str(done.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["test_mine.py"]


def test_a_name_that_is_none(tmp_path: Path) -> None:
    done = ran("setup", "routine", "new", "my-routine", "--folder", str(tmp_path))
    assert isinstance(done.exception, UsageError) and "cannot name a function" in str(
        done.exception
    )


FAULTY = {
    "example fails": (
        GOOD.replace('find("cup")', 'find("cup")[5]'),
        "FAILS  widest: its example fails: ",
    ),
    "example without a call": (
        GOOD.replace("return widest(ImagePatch(image).find", "return (ImagePatch(image).find"),
        "FAILS  widest: its example does not call widest",
    ),
    "answers nothing": (
        GOOD.replace("return max(", "max("),
        "FAILS  widest: it answered None, which is not ImagePatch",
    ),
    "wrong result": (
        GOOD.replace("return max(", "return str(").replace(", key=lambda patch: patch.width", ""),
        "FAILS  widest: it answered str ",
    ),
    "one patch too many": (
        GOOD.replace(
            "return max(list_patches, key=lambda patch: patch.width)", "return list_patches"
        ),
        "FAILS  widest: it answered list ",
    ),
    "example that is no Python": (
        GOOD.replace('widest(ImagePatch(image).find("cup"))', "widest(ImagePatch(image).find("),
        "FAILS  widest: its example is no Python: '(' was never closed, its line 3",
    ),
    "wrong annotation": (
        "from __future__ import annotations\n" + GOOD.replace("-> ImagePatch:", "-> ImagPatch:"),
        "FAILS  widest: an annotation cannot be resolved: name 'ImagPatch' is not defined",
    ),
}


@pytest.mark.parametrize("name", list(FAULTY))
def test_check_says_what_is_wrong(name: str, tmp_path: Path) -> None:
    text, said = FAULTY[name]
    done = ran("setup", "routine", "check", written(tmp_path, text))
    assert done.return_value == 1
    assert done.stdout.startswith(said)


def test_check_advises_an_example(tmp_path: Path) -> None:
    text = GOOD.partition("    Example:")[0].rstrip() + '\n    """\n    return list_patches[0]\n'
    done = ran("setup", "routine", "check", written(tmp_path, text))
    assert done.return_value == 0 and "good   widest: has no Example: section" in done.stdout


def test_what_fits_an_annotation() -> None:
    patch, segment = Ref("patch", ("image0", 1.0)), Ref("segment", ("video0", 1))
    assert fits(patch, ImagePatch) and not fits(segment, ImagePatch) and not fits(None, ImagePatch)
    assert fits([patch], list[ImagePatch]) and not fits([patch, None], list[ImagePatch])
    assert fits(None, ImagePatch | None) and fits(2, float) and not fits(float("nan"), float)
    assert not fits(True, int) and fits((1, "a"), tuple[int, str]) and fits({}, dict[str, int])


def test_a_file_with_a_plus_in_its_name_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "a+b.py").write_text(GOOD, encoding="utf-8")
    assert ran("setup", "routine", "check", str(tmp_path / "a+b.py")).stdout == "good   widest\n"


@pytest.mark.parametrize("name", ["class", "distance", "len", "x.py"])
def test_new_refuses_names_that_cannot_work(name: str, tmp_path: Path) -> None:
    done = ran("setup", "routine", "new", name, "--folder", str(tmp_path))
    assert isinstance(done.exception, UsageError)
    assert not list(tmp_path.iterdir())


def test_list_names_files_of_one_s_own(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    lines = ran("setup", "routine", "list", "--api", f"abstract+{path}").stdout.splitlines()
    assert lines[0].split() == ["name", "runs", "in", "listed", "for", "what", "it", "does"]
    (mine,) = [line for line in lines if line.startswith("widest ")]
    assert mine.split(maxsplit=3) == ["widest", "child", "ground", "choose the widest patch"]
    only = ran("setup", "routine", "list", "--api", f"abstract+{path}", "--task", "question").stdout
    assert "widest" not in only


@pytest.mark.models
def test_show_gives_both_texts_and_their_cost(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    shown = ran("setup", "routine", "show", "widest", "--api", f"abstract+{path}").stdout
    assert "# choose the widest patch: widest(list_patches)" in shown
    assert "def widest(list_patches: list[ImagePatch]) -> ImagePatch:" in shown
    assert shown.count("tokens of writer@") == 2
    unknown = ran("setup", "routine", "show", "wdest", "--api", f"abstract+{path}").exception
    assert isinstance(unknown, UnknownNameError) and "widest" in str(unknown)


def test_pairs_are_compared_sample_by_sample() -> None:
    uses = "def execute_command(image):\n    return widest(find())"
    before = [
        SampleResult("a", 0, 0.0),
        SampleResult("b", 0, 1.0),
        SampleResult("c", 0, 1.0),
        SampleResult("d", 0, 0.0),
    ]
    programs = [(1.0, uses), (1.0, None), (0.0, uses), (1.0, "not ( python")]
    after = [
        replace(row, score=score, program=program)
        for row, (score, program) in zip(before, programs, strict=True)
    ]
    found = routine_effect(before, after, ["widest"])
    gain = found.gain.difference
    assert (found.gain.better, found.gain.worse) == (2, 1)
    assert (found.without.value, found.with_it.value, gain.value) == (0.5, 0.75, 0.25)
    assert isinstance(gain, Estimate) and gain.low < 0.25 < gain.high
    assert found.used.value == 0.5


def test_a_call_is_no_mention() -> None:
    assert called_names("x = widest(a.find(1))") == {"widest", "find"}
    assert called_names("widest = 3  # widest(a)") == set()
