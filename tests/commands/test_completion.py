"""Completion in a real bash, zsh and fish on a pseudo-terminal, and what a key press imports."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from viper.cli import cli

ROOT = Path(__file__).parents[2]

# Start of each shell without the user's own files, and how it reads the completion.
SHELLS = {
    "bash": (
        ["bash", "--noprofile", "--norc", "-i"],
        'eval "$(_VIPER_COMPLETE=bash_source viper)"',
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        'autoload -Uz compinit; compinit -u; eval "$(_VIPER_COMPLETE=zsh_source viper)"',
    ),
    "fish": (["fish", "--no-config", "-i"], "_VIPER_COMPLETE=fish_source viper | source"),
}

# The typed words, and a word that the shell adds after one press of the tab key.
TYPED = {
    "viper ru": "viper run",
    "viper run --profile embedded-s": "embedded-small",
    "viper run --strategy prog": "program",
    "viper run --api abstract+visp": "abstract+visprog",
    "viper eval countb": "countbench",
    "viper setup routine show best_im": "best_image_match",
    "viper learn feedb": "feedback",
    "viper help expo": "export",
    "viper run tabl": "table.png",
}


class Terminal:
    """A shell on a pseudo-terminal of 200 columns."""

    def __init__(self, command: list[str], folder: Path) -> None:
        tool = folder / "bin" / "viper"
        tool.parent.mkdir()
        tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m viper "$@"\n')
        tool.chmod(0o755)
        (folder / "table.png").touch()
        path = f"{tool.parent}:{os.environ['PATH']}"
        environment = {
            **os.environ,
            "PATH": path,
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            "VIPER_HOME": str(folder / "state"),
            "TERM": "xterm",
            "COLUMNS": "200",
        }
        ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            cwd=folder,
            start_new_session=True,
            # fish wants a terminal that it controls
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self.end, self.shown = ours, ""

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Read until the text is shown."""
        until = time.monotonic() + seconds
        while text not in self.shown:
            left = until - time.monotonic()
            assert left > 0 and select.select([self.end], [], [], left)[0], self.shown
            self.shown += os.read(self.end, 1 << 12).decode(errors="replace")

    def type(self, text: str) -> None:
        self.shown = ""
        os.write(self.end, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.end)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_commands_names_and_files(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command, source = SHELLS[shell]
    terminal = Terminal(command, tmp_path)
    try:
        terminal.type(f"{source}; echo rea''dy\n")
        terminal.wait_for("ready")
        for typed, completed in TYPED.items():
            terminal.type(f"{typed}\t")
            terminal.wait_for(completed)
            assert "could not be written" not in terminal.shown
            terminal.type("\x15")  # clears the line
    finally:
        terminal.close()


def test_a_key_press_imports_no_model_library_and_prints_nothing_else() -> None:
    environment = {**os.environ, "_VIPER_COMPLETE": "bash_complete", "COMP_CWORD": "3"}
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: print({'torch', 'transformers'} & {*sys.modules}))\n"
        "from viper.cli import main\nmain()"
    )
    for words in ("viper run --profile emb", "viper run --strategy pro", "viper run --api abs"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**environment, "COMP_WORDS": words},
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1] == "set()" and "plain," in done.stdout


def complete(*words: str) -> list[str]:
    completion = ShellComplete(cli, {}, "viper", "_VIPER_COMPLETE")
    items = completion.get_completions(list(words[:-1]), words[-1])
    return [item.value for item in items if item.type == "plain"]


def test_names_come_from_the_registries_and_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "mine.toml").touch()
    monkeypatch.setenv("VIPER_HOME", str(tmp_path))
    assert complete("run", "--profile", "m") == ["mine"]
    assert complete("setup", "profile", "show", "m") == ["mine"]
    assert complete("eval", "--strategy", "s") == ["seek"]
    assert complete("data", "check", "refcoco") == ["refcoco", "refcoco+", "refcocog"]
    assert complete("learn", "nlv") == ["nlvr", "nlvr2"]
    assert complete("exec", "--api", "abstract+look+nu") == ["abstract+look+numpy"]
    assert complete("setup", "routine", "show", "llm_q") == ["llm_query"]
