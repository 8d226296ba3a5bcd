"""Runs, banks and scripts that somebody else made run no code outside the sandbox."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
from PIL import Image

from tests.commands.test_bad_input import viper
from tests.evaluate.fake_backends import a_set
from tests.readers import a_record
from viper.ace.bank import read_bank, write_bank
from viper.api.library import library_for
from viper.api.routine_files import StoredRoutines
from viper.cli import cli
from viper.errors import UsageError
from viper.evaluate.runs.manifest import Manifest
from viper.jobs.cases import Label
from viper.jobs.job import Job
from viper.profiles.exported import ExportedProgram
from viper.sandbox import Sandbox
from viper.schema import Example
from viper.storage.json_lines import dumps

ROUTINES = """
from viper import routine

@routine
def half(number: float) -> float:
    \"\"\"Returns the half of a number.\"\"\"
    return number / 2
"""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that the stranger's code makes."""
    return tmp_path / "the-strangers-code-ran"


@pytest.fixture
def run(tmp_path: Path, mark: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A run with a library, whose file is replaced after it."""
    table, profile = a_set(tmp_path / "asked", 4)
    library = tmp_path / "asked" / "lib.py"
    library.write_text(ROUTINES)
    folder = tmp_path / "run"
    line = ("eval", str(table), "--profile", str(profile), "--out", str(folder))
    code, _, err = viper(capsys, *line, "--api", f"abstract+{library}")
    assert code == 0, err
    library.write_text(f"open({str(mark)!r}, 'w'){ROUTINES}")
    return folder


def changed(run: Path, **values: Any) -> dict[str, Any]:
    """Change the manifest of a run."""
    manifest: dict[str, Any] = json.loads((run / "run.json").read_text())
    manifest |= values
    (run / "run.json").write_text(json.dumps(manifest))
    return manifest


def without_texts(run: Path) -> None:
    """Make it a run of an earlier version."""
    manifest = changed(run)
    del manifest["routines"]
    (run / "run.json").write_text(json.dumps(manifest))


def of_shell(run: Path, mark: Path) -> None:
    """Let the models of a run be shell commands."""
    document = changed(run)["document"]
    document["roles"]["detector"] = {"backend": "os:system", "model": f"touch {mark}"}
    changed(run, document=document)


def test_the_text_of_routines_is_stored_with_the_run(run: Path) -> None:
    (stored,) = Manifest.from_json(changed(run)).routines
    assert "def half" in stored.text and stored.exports == ("half",) and not stored.tools
    library = library_for(stored.name, stored=[stored])
    with Sandbox(prelude=library.prelude()) as sandbox:
        assert sandbox.run("answer = half(4)").value == 2


@pytest.mark.parametrize("text", ["open('{}', 'w')\n", "import os\nos.system('touch {}')\n"])
def test_a_stored_text_obeys_the_rules_of_programs(text: str, mark: Path) -> None:
    text = text.format(mark) + "def half(x):\n    return x / 2\n"
    library = library_for("lib.py", stored=[StoredRoutines("lib.py", text, ("half",))])
    with Sandbox(prelude=library.prelude()) as sandbox:
        outcome = sandbox.run("answer = half(4)")
    assert not outcome.ok and not mark.exists()


def test_a_stored_text_that_never_ends_takes_the_time_of_its_program() -> None:
    from viper.sandbox import Limits

    text = "def half(x):\n    return x / 2\nwhile True:\n    pass\n"
    library = library_for("lib.py", stored=[StoredRoutines("lib.py", text, ("half",))])
    with Sandbox(limits=Limits(time_s=0.5), prelude=library.prelude()) as sandbox:
        outcome = sandbox.run("answer = half(4)")
    assert outcome.failure is not None and outcome.failure.kind == "timeout"


@pytest.mark.parametrize("name", ["_type_", "ImagePatch", "a b", "__builtins__"])
def test_stored_names_replace_nothing(name: str) -> None:
    with pytest.raises(UsageError, match="routine|taken"):
        library_for("lib.py", stored=[StoredRoutines("lib.py", "", (), (name,))])


COMMANDS = {
    "report": ["report", "RUN"],
    "report --html": ["report", "RUN", "--html"],
    "report --errors": ["report", "RUN", "--errors"],
    "report --compare": ["report", "--compare", "RUN", "RUN"],
    "export": ["export", "RUN", "q1", "-o", "OUT.py"],
    "ace check": ["ace", "check", "BANK", "--profile", "PROFILE"],
    "ace show": ["ace", "show", "BANK"],
    "ace merge": ["ace", "merge", "BANK", "--out", "OUT.jsonl"],
    "ace pool add": ["ace", "pool", "add", "BANK", "--state", "STATE"],
    "apply": ["apply", "SCRIPT", "PICTURES", "-o", "OUT.csv"],
    "apply job": ["apply", "JOB", "PICTURES", "-o", "OUT.csv"],
    "fit": ["fit", "--out", "JOB"],
    "review": ["review", "JOB", "PICTURES", "--no-open"],
    "audit": ["audit", "LABELS", "--out", "JOB"],
    "learn feedback": ["learn", "feedback", "RUN", "q1", "--comment", "seen"],
    "learn samples": ["learn", "samples", "TABLE", "--from", "RUN", "--profile", "PROFILE",
                      "--state", "STATE"],
    "learn confidence": ["learn", "confidence", "TABLE", "--from", "RUN", "--out", "OUT.toml",
                         "--profile", "PROFILE"],
    "learn flags": ["learn", "flags", "RUN", "--out", "OUT", "--profile", "PROFILE"],
    "learn label": ["learn", "label", "RUN", "--out", "OUT"],
    "learn agent": ["learn", "agent", "RUN", "--out", "OUT", "--profile", "PROFILE"],
    "eval": ["eval", "TABLE", "--resume", "--out", "RUN", "--profile", "PROFILE"],
    "exec": ["exec", "SCRIPT", "PICTURE", "--profile", "PROFILE"],
    "run": ["run", "PICTURE", "what is it?", "--examples-bank", "BANK", "--profile", "PROFILE"],
}  # fmt: skip

# Commands whose arguments and files are the user's own, and those of other formats.
OF_THE_USER = [
    *("demo", "demo-questions", "serve", "mcp", "help", "view", "env", "data", "setup", "lab"),
    "watch",
    *("ace-describe", "ace-mine", "ace-tune", "ace-pool-export", "ace-pool-prune"),
    *("ace-pool-rollback", "ace-pool-show", "ace-pool-start"),
    *("learn-prompts", "learn-writer", "learn-workflows"),
]


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name)


def test_every_command_is_tried_or_takes_nothing_of_strangers() -> None:
    tried = {tuple(line.partition(" --")[0].split()) for line in COMMANDS if line != "apply job"}
    rest = {path for path in commands(cli) if path not in tried}
    names = {"-".join(path[:end]) for path in rest for end in (len(path), 1, 2)}
    assert not [p for p in rest if not {"-".join(p[:n]) for n in (1, 2, 3)} & {*OF_THE_USER}]
    assert tried <= {*commands(cli), ("apply",), ("export",), ("exec",)} and names


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("old", [False, True], ids=["with texts", "without texts"])
def test_no_code_of_theirs_runs(
    name: str, old: bool, run: Path, mark: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile(run, mark, tmp_path, old)
    places = {
        "RUN": run, "BANK": tmp_path / "bank.jsonl", "SCRIPT": tmp_path / "script.py",
        "PROFILE": tmp_path / "asked" / "fake.toml", "TABLE": tmp_path / "asked/questions.csv",
        "PICTURES": tmp_path / "asked" / "pictures", "STATE": tmp_path / "state",
        "PICTURE": tmp_path / "asked" / "pictures" / "0.png",
        "JOB": tmp_path / "job", "LABELS": tmp_path / "labels.csv",
    }  # fmt: skip
    line = [
        str(places[part]) if part in places else part.replace("OUT", str(tmp_path / "out"))
        for part in COMMANDS[name]
    ]
    code, _, err = viper(capsys, *line)
    assert not mark.exists() and code in (0, 1, 2) and "Traceback" not in err
    if name in ("export", "apply", "apply job", "fit", "review", "audit"):
        assert code == 2 and "--trust" in err.splitlines()[-1]


def hostile(run: Path, mark: Path, folder: Path, old: bool) -> None:
    """Write a run, a bank, an exported script and a job of a stranger."""
    of_shell(run, mark)
    if old:
        without_texts(run)
    manifest = changed(run)
    api = f"abstract+{folder / 'asked' / 'lib.py'}"
    example = Example(
        query="what is it?", task="question", program="answer = half(4)", api=api,
        sample_id="q1", score=1, seed=0, llm="writer", api_hash="",
        set=str(folder / "asked" / "questions.csv"), split="all",
    )  # fmt: skip
    write_bank(folder / "bank.jsonl", [example])
    assert read_bank(folder / "bank.jsonl").items[0].api == api
    exported = ExportedProgram(
        query="what is it?", task="question", program="answer = 1", api=api,
        profile=manifest["document"],
    )  # fmt: skip
    (folder / "script.py").write_text(exported.script("script.py"))
    picture = folder / "asked" / "pictures" / "0.png"
    (folder / "labels.csv").write_text(f"media,query,answer\n{picture.name},what is it?,red\n")
    Image.new("RGB", (16, 12), (0, 99, 0)).save(folder / picture.name)
    pictures = [picture.with_name(f"stranger-{number}.png") for number in range(8)]
    for number, path in enumerate(pictures):
        Image.new("RGB", (16, 12), (number, 0, 0)).save(path)
    labels = [
        Label((str(path),), "what is it?", "question", "red" if number % 2 else "blue")
        for number, path in enumerate(pictures)
    ]
    with Job(folder / "job") as job:
        job.add(labels)
    (folder / "job" / "program.py").write_text(exported.script("program.py"))
    (folder / "job" / "job.json").write_text(dumps(a_record()))


def test_the_viewer_runs_none_of_it(run: Path, mark: Path) -> None:
    line = [sys.executable, "-m", "viper", "view", str(run), "--no-open"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as viewing:
        assert viewing.stdout is not None
        address = viewing.stdout.readline().strip()
        pages = [httpx.get(address), httpx.get(f"{address}sample?id=q1&seed=0")]
        viewing.send_signal(signal.SIGINT)
    assert pages[0].status_code == 200 and not mark.exists()


def test_with_trust_the_files_run(
    run: Path, mark: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert viper(capsys, "report", str(run), "--html", "--trust")[0] == 0
    assert mark.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"llm": {"backend": "openai", "model": "m", "options": {"base_url": "http://x/v1"}}},
        {"llm": {"backend": "openai", "model": "m", "options": {"key_env": "HOME"}}},
    ],
)
def test_an_export_names_no_address_and_no_variable(
    changes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    from viper.profiles import load_profile
    from viper.schema import to_json

    document = to_json(load_profile("embedded").document)
    exported = ExportedProgram(
        query="q", task="question", program="answer = 1", api="abstract", profile=document
    )
    exported.pinned_profile()
    document = {**document, "models": {**document["models"], **changes}}
    with pytest.raises(UsageError, match="--trust"):
        replace(exported, profile=document).pinned_profile()
    assert replace(exported, profile=document).pinned_profile(trust=True)
    assert os.environ.get("HOME") is not None
