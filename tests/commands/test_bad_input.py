"""Bad input: one clear line on stderr, the documented exit code, never a traceback."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from viper.cli import main
from viper.embedded import MEDIA
from viper.strategies import STRATEGIES


@pytest.fixture
def picture(tmp_path: Path) -> str:
    path = tmp_path / "table.png"
    Image.fromarray(np.zeros((40, 60, 3), np.uint8)).save(path)
    return str(path)


def viper(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command run in this process."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a wrong call gets."""
    code, out, err = viper(capsys, *arguments)
    lines = [line for line in err.splitlines() if not line.endswith("…")]
    assert code == 2 and out == "" and len(lines) == 1, (code, out, err)
    assert "Traceback" not in err
    return lines[0]


def test_missing_media(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such file" in refused(capsys, "run", "absent.png", "the cube")


def test_text_named_png(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.png").write_text("hello " * 50)
    said = refused(capsys, "run", str(tmp_path / "x.png"), "the cube")
    assert "neither a picture nor a video" in said


def test_zero_bytes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.png").touch()
    assert "empty (0 bytes)" in refused(capsys, "run", str(tmp_path / "x.png"), "the cube")


def test_half_a_video(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    clip = (MEDIA / "clip.mp4").read_bytes()
    (tmp_path / "x.mp4").write_bytes(clip[: len(clip) // 2])
    said = refused(capsys, "run", str(tmp_path / "x.mp4"), "what moves first?")
    assert said.startswith(f"viper: {tmp_path}/x.mp4: ") and "neither a picture nor a video" in said


def test_unknown_profile_lists_the_known(capsys: pytest.CaptureFixture[str], picture: str) -> None:
    said = refused(capsys, "run", picture, "the cube", "--profile", "nope")
    assert "unknown profile 'nope'; known: " in said and "embedded" in said


def test_unknown_strategy(capsys: pytest.CaptureFixture[str], picture: str) -> None:
    said = refused(capsys, "run", picture, "x", "--strategy", "luck")
    assert f"unknown strategy 'luck'; known: {', '.join(sorted(STRATEGIES))}" in said


def test_a_strategy_that_does_not_answer_the_task(
    capsys: pytest.CaptureFixture[str], picture: str
) -> None:
    said = refused(capsys, "run", picture, "what is it?", "--strategy", "detector")
    assert "strategy detector answers ground queries only, got question" in said


@pytest.mark.parametrize("option", ["--show-prompt", "--program-only"])
def test_no_program_to_show(capsys: pytest.CaptureFixture[str], picture: str, option: str) -> None:
    code, out, err = viper(capsys, "run", picture, "the cube", "--strategy", "detector", option)
    assert (code, out) == (2, "") and "strategy detector writes no program" in err


def test_broken_profile_names_line_and_key(
    capsys: pytest.CaptureFixture[str], picture: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\n[llm]\nbackend = "transformers"\n\n[run]\ntrails = 3\n')
    said = refused(capsys, "run", picture, "the cube", "--profile", str(path))
    assert f"{path}:6: run.trails: unknown key" in said and "trials" in said


def test_only_media_and_no_query(capsys: pytest.CaptureFixture[str], picture: str) -> None:
    code, _, err = viper(capsys, "run", picture)
    assert code == 2 and "then the question" in err


def test_exec_needs_a_text_file(
    capsys: pytest.CaptureFixture[str], picture: str, tmp_path: Path
) -> None:
    assert "no such program file" in refused(capsys, "exec", "absent.py", picture)
    (tmp_path / "p.py").write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in refused(capsys, "exec", str(tmp_path / "p.py"), picture)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from viper.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'numpy', 'PIL', 'open_clip', 'av'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Set up:" in done.stdout and "serve" in done.stdout


def test_no_command_imports_a_library_of_models_or_servers_before_it_is_run() -> None:
    code = (
        "import sys, click\n"
        "from viper.cli import cli\n"
        "def load(group):\n"
        "    for name in group.list_commands(None):\n"
        "        command = group.get_command(None, name)\n"
        "        isinstance(command, click.Group) and load(command)\n"
        "load(cli)\n"
        "heavy = {'torch', 'transformers', 'huggingface_hub', 'datasets', 'PIL', 'av', 'scipy',\n"
        "    'matplotlib', 'gradio', 'fastapi', 'starlette', 'uvicorn', 'rich', 'ray'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["run", "exec", "doctor", "ace", "world"])
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, _ = viper(capsys, command, "--help")
    assert code == 0 and "Usage: viper" in out
