"""Routines of a user's own file: what is taken from it, and every way it can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from viper.api.library import Library, library_for
from viper.api.routine_files import load_routine_file
from viper.errors import UnknownNameError, UsageError
from viper.testing.routines import run_program

CORNER = Path(__file__).parent / "files" / "corner.py"

GOOD = '''
from viper import routine

@routine
def twice(x: int) -> int:
    """Double a number."""
    return 2 * x
'''


def written(tmp_path: Path, text: str, name: str = "mine.py") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_holds_pure_and_tool_routines() -> None:
    found = load_routine_file(CORNER)
    assert [(r.name, r.tool) for r in found.routines] == [
        ("get_patch_at_corner", False),
        ("mean_brightness", True),
    ]
    assert found.source is not None and found.source.exports == ("get_patch_at_corner",)


def test_what_is_stored_differs_if_a_routine_does(tmp_path: Path) -> None:
    """Also one that runs in the parent, whose text is not stored."""
    before = library_for(str(written(tmp_path, CORNER.read_text("utf-8")))).stored()
    changed = CORNER.read_text("utf-8").replace(".mean()", ".max()")
    after = library_for(str(written(tmp_path, changed))).stored()
    assert before != after and [each.text for each in before] == [each.text for each in after]
    (name,) = (each.name for each in before)
    assert library_for(name, stored=before).stored() == before


def test_the_child_gets_what_pure_routines_need_on_their_own_lines() -> None:
    source = load_routine_file(CORNER).source
    assert source is not None
    theirs, ours = source.text.splitlines(), CORNER.read_text("utf-8").splitlines()
    shown = {line for line in theirs if line}
    assert all(line in ("", ours[number]) for number, line in enumerate(theirs))
    assert {"import math", "def _gap(patch: ImagePatch, x: float, y: float) -> float:"} <= shown
    assert not any("viper" in line or "tools" in line or "@" in line for line in shown)


def test_an_api_is_sets_and_files_joined() -> None:
    library = library_for(f"abstract+{CORNER}")
    names = [e.name for e in library.api_set(f"abstract+{CORNER}").entries("ground")]
    assert "find" in names and names[-1] == "get_patch_at_corner"
    listed = [e.name for e in library.api_set(str(CORNER)).entries("question")]
    assert listed == ["get_patch_at_corner", "mean_brightness"]
    assert "get_patch_at_corner" not in [
        e.name for e in library.api_set("abstract").entries("ground")
    ]
    assert set(library.tool_routines) == {"mean_brightness"}


def test_the_client_and_the_tools_are_not_shown_to_a_language_model() -> None:
    library = library_for(str(CORNER))
    (entry,) = [
        e for e in library.api_set(str(CORNER)).entries("question") if e.name == "mean_brightness"
    ]
    assert entry.arguments == "patch"


def test_without_files_nothing_changes() -> None:
    assert library_for("abstract+vipergpt") == Library()
    assert Library().prelude().sources == ()


def test_loading_twice_sees_changes(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    assert load_routine_file(path).routines[0].function(2) == 4
    written(tmp_path, GOOD.replace("2 * x", "3 * x"))
    assert load_routine_file(path).routines[0].function(2) == 6


def test_decorators_reach_the_child_and_the_mark_does_not(tmp_path: Path) -> None:
    text = '''
from dataclasses import dataclass
from viper import routine


def twice(function):
    def both(x):
        return 2 * function(x)
    return both


@dataclass(
    frozen=True,
)
class Line:
    length: float


@twice
def grown(x):
    return x + 1


@routine(
    ["question"],
)
def length_of(x: float) -> float:
    """The length."""
    return Line(grown(x)).length
'''
    source = load_routine_file(written(tmp_path, text)).source
    assert source is not None and "routine" not in source.text.replace("viper_routine", "")
    outcome = run_program(
        "def execute_command(image):\n    return length_of(3)", f"abstract+{tmp_path}/mine.py"
    )
    assert outcome.value == 8, outcome.failure


def test_modules_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("FACTOR = 5\n")
    text = GOOD.replace("from viper", "from beside_it import FACTOR\nfrom viper", 1)
    text = text.replace("@routine", "@routine(tool=True)").replace("2 * x", "FACTOR * x")
    assert load_routine_file(written(tmp_path, text)).routines[0].function(2) == 10


FAULTS = {
    "no docstring": (
        "@routine\ndef f(x: int) -> int:\n    return x\n",
        "mine.py:3: routine 'f' lacks a docstring",
    ),
    "untyped": (
        "@routine\ndef f(x) -> int:\n    'Say.'\n    return x\n",
        "mine.py:3: routine 'f' lacks annotations: x",
    ),
    "no return type": (
        "@routine\ndef f(x: int):\n    'Say.'\n    return x\n",
        "lacks annotations: return",
    ),
    "unknown task": (
        "@routine(['grund'])\ndef f(x: int) -> int:\n    'Say.'\n    return x\n",
        "unknown task 'grund'; known: .*ground",
    ),
    "twice": (GOOD + GOOD.partition("routine\n")[2], "'twice' is registered twice"),
    "leading underscore": (
        "@routine\ndef _f(x: int) -> int:\n    'Say.'\n    return x\n",
        "routine '_f': a name programs call has no underscore first",
    ),
    "forbidden import": (
        "import os\n@routine\ndef f(x: int) -> str:\n    'Say.'\n    return os.getcwd()\n",
        "mine.py:3: programs cannot import 'os'; a pure routine runs in the sandbox",
    ),
    "forbidden name": (
        "@routine\ndef f(x: int) -> str:\n    'Say.'\n    return open('x').read()\n",
        "mine.py:6: the name 'open' is not there in the sandbox; .*tool=True",
    ),
    "dunder": (
        "@routine\ndef f(x: int) -> object:\n    'Say.'\n    return x.__class__.__base__\n",
        r"mine.py:6: .*__base__.*; a pure routine runs in the sandbox .*tool=True",
    ),
    "async": (
        "@routine\nasync def f(x: int) -> int:\n    'Say.'\n    return x\n",
        "mine.py:3: f: a routine cannot be async",
    ),
    "class": (
        "@routine\nclass Shape:\n    'Say.'\n",
        "mine.py:3: routine 'Shape' is no function; mark a plain function",
    ),
    "tools without tool": (
        "@routine\ndef f(tools, x: int) -> int:\n    'Say.'\n    return x\n",
        r"mine.py:3: f: only @routine\(tool=True\) gets tools",
    ),
    "tools not first": (
        "@routine(tool=True)\ndef f(x: int, tools) -> int:\n    'Say.'\n    return x\n",
        "mine.py:3: f: tools must be the first parameter",
    ),
    "exit": ("raise SystemExit(3)\n", "mine.py:3: SystemExit: 3"),
    "client": (
        "@routine\ndef f(call: object, x: int) -> int:\n    'Say.'\n    return x\n",
        "mine.py:3: f: a parameter called 'call' is reserved",
    ),
    "syntax": ("def f(:\n    pass\n", r"mine.py:3: SyntaxError: invalid syntax"),
    "raises": ("X = 1 / 0\n", r"mine.py:3: ZeroDivisionError: division by zero"),
    "no routine": ("def f() -> int:\n    return 1\n", "holds no routine; mark a function"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(FAULTS))
def test_each_fault_is_one_clear_line(name: str, tmp_path: Path) -> None:
    text, message = FAULTS[name]
    with pytest.raises(UsageError, match=message) as raised:
        load_routine_file(written(tmp_path, f"from viper import routine\n\n{text}"))
    assert "\n" not in str(raised.value) and str(tmp_path) in str(raised.value)


def test_a_name_that_the_api_uses_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.replace("twice", "distance"))
    with pytest.raises(UsageError, match="the name 'distance' is taken by viper"):
        library_for(str(path))


@pytest.mark.parametrize("name", ["len", "execute_command", "ImagePatch"])
def test_a_name_that_programs_rely_on_is_refused(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.replace("twice", name))
    with pytest.raises(UsageError, match=f"mine.py:4: the name '{name}' is taken by"):
        library_for(str(path))


def test_a_file_without_its_ending_is_guessed(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    with pytest.raises(UsageError, match="unknown API 'mine'; did you mean mine.py?"):
        library_for("abstract+mine", tmp_path)


def test_a_name_that_another_file_uses_is_refused(tmp_path: Path) -> None:
    first, second = written(tmp_path, GOOD), written(tmp_path, GOOD, "other.py")
    with pytest.raises(UsageError, match="other.py:4: the name 'twice' is taken by .*mine.py"):
        library_for(f"{first}+{second}")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent.py: cannot be read .*expected a Python file"):
        library_for("absent.py", tmp_path)
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        library_for("bytes.py", tmp_path)
    with pytest.raises(UnknownNameError, match="unknown API 'abstrct'; known: .*ending in .py"):
        library_for("abstrct")


def test_an_api_of_another_library_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown API 'mine.py'"):
        Library().api_set("abstract+mine.py")
