"""``viper run``: what it prints without models, many questions in one process, and a server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import forked
from tests.serve.bench import FAINT, Writer, served
from tests.strategies.test_pictures import POP
from viper.cli import main
from viper.embedded import MEDIA
from viper.record import RecordError, trace_from_record

TABLE = str(MEDIA / "table.png")
CONES = str(MEDIA / "cones.png")
CYAN = "the ball closest to the cyan cube"
WAIT_S = 120

WITHOUT_LIBRARIES = """
import sys

from importlib.util import spec_from_loader

class Forbidden:
    def find_spec(self, name, path=None, target=None):  # to look for a package is no import
        if name.partition(".")[0] in ("torch", "torchvision", "transformers"):
            return spec_from_loader(name, self)

    def create_module(self, spec):
        raise AssertionError(f"imported {spec.name}")

    def exec_module(self, module):
        pass

sys.meta_path.insert(0, Forbidden())
from viper.__main__ import main
main()
"""


def viper(
    *arguments: str, program: str | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """What the command does in a process of its own."""
    line = ["-m", "viper"] if program is None else ["-c", program]
    line += ["run", *arguments]
    return subprocess.run(
        [sys.executable, *line] if program == WITHOUT_LIBRARIES else forked.python(*line),
        capture_output=True,
        text=True,
        input=stdin,
        timeout=WAIT_S,
        check=False,
    )


def here(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command in this process."""
    with pytest.raises(SystemExit) as end:
        main(["run", *arguments])
    out, err = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, out, err


# Without models


@pytest.mark.parametrize("strategy", ["program", "plan"])
@pytest.mark.parametrize("profile", ["embedded", "local", "openai"])
def test_prompts_are_shown_without_torch_and_transformers(profile: str, strategy: str) -> None:
    line = (TABLE, CYAN, "--profile", profile, "--strategy", strategy, "--show-prompt")
    done = viper(*line, program=WITHOUT_LIBRARIES)
    assert done.returncode == 0, done.stderr
    assert CYAN in done.stdout
    assert ("is an estimate" in done.stderr) == (profile != "embedded")


@pytest.mark.parametrize("strategy", ["explore", "look", "seek"])
def test_the_first_prompt_of_strategies_without_programs_is_shown(strategy: str) -> None:
    done = viper(TABLE, CYAN, "--strategy", strategy, "--show-prompt")
    assert done.returncode == 0, done.stderr
    assert CYAN in done.stdout


def test_costs_are_told_without_torch_and_transformers() -> None:
    done = viper(TABLE, CYAN, "--dry-run", program=WITHOUT_LIBRARIES)
    assert done.returncode == 0, done.stderr
    assert "language model: 1 to 2 programs" in done.stdout


def test_the_prompt_shown_is_the_prompt_that_the_model_gets() -> None:
    from viper import Reasoner, load_profile

    video = str(MEDIA / "clip.mp4")
    with Reasoner(load_profile("embedded", learned=True)) as reasoner:
        for arguments, changes in (
            ((TABLE, CYAN), {}),
            ((TABLE, CYAN, "--n-examples", "64"), {"examples": 64}),
            ((video, "what happens first?"), {}),
        ):
            shown = viper(*arguments, "--show-prompt").stdout
            assert shown == reasoner.prompt(arguments[0], arguments[1], **changes) + "\n"


# Many questions


def test_questions_are_answered_in_one_process_until_an_empty_line() -> None:
    line = (TABLE, "-i", "--json")
    done = viper(*line, stdin=f"{CYAN}\nhow many cubes are there?\n\nwhat color is the cone?\n")
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["query"], second["query"]) == (CYAN, "how many cubes are there?")
    assert first["answer_kind"] == "box" and second["answer"] == "1"
    assert done.stderr.count("starting …") == 1


def test_a_question_that_cannot_be_answered_does_not_end_the_others() -> None:
    too_long = "x" * 4001
    done = viper(TABLE, "--interactive", stdin=f"{too_long}\n{CYAN}")
    assert done.returncode == 1
    assert done.stdout.startswith("box [")
    assert "viper: the query has 4001 characters; at most 4000 are read" in done.stderr


def test_no_question_is_no_failure_and_loads_no_model(capsys: pytest.CaptureFixture[str]) -> None:
    program = "import viper.__main__, sys\nviper.__main__.main()\n"
    done = viper(TABLE, "-i", program=program)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("option", ["--save=a.png", "--html=a.html", "--dry-run", "--show-prompt"])
def test_options_for_a_single_query_are_refused(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = here(capsys, TABLE, "-i", option)
    assert code == 2 and "is for a single query; leave it out with -i" in err


@pytest.mark.parametrize(
    ("first", "second"),
    [("-v", "-q"), ("--json", "--program-only"), ("--dry-run", "--show-prompt")],
)
def test_options_that_contradict_each_other_are_refused(
    capsys: pytest.CaptureFixture[str], first: str, second: str
) -> None:
    code, out, err = here(capsys, TABLE, CYAN, first, second)
    assert (code, out) == (2, "") and ": give one of them" in err


INTERRUPTED = """
import os, signal, sys, threading
import viper.__main__
from viper.reasoner import Reasoner

stream = Reasoner.stream

def interrupted(self, media, query, *args, cancel=None, **kwargs):
    if query == "stop":
        os.kill(os.getpid(), signal.SIGINT)
        assert cancel.wait(60)
    yield from stream(self, media, query, *args, cancel=cancel, **kwargs)

Reasoner.stream = interrupted
viper.__main__.main()
"""
"""Ctrl-C during the answer to the question "stop"."""


def test_an_interrupt_cancels_one_answer() -> None:
    done = viper(TABLE, "-i", program=INTERRUPTED, stdin=f"stop\n{CYAN}\n")
    assert done.returncode == 1
    assert done.stdout.startswith("box [") and len(done.stdout.splitlines()) == 1
    assert "cancelled" in done.stderr.splitlines() and "Traceback" not in done.stderr


WAITING = """
import os, signal, sys
import viper.__main__

class Lines:
    def isatty(self):
        return False

    def readline(self):
        os.kill(os.getpid(), signal.SIGINT)

sys.stdin = Lines()
viper.__main__.main()
"""
"""Ctrl-C while the command waits for a question."""


def test_an_interrupt_at_the_prompt_ends_the_command() -> None:
    done = viper(TABLE, "-i", program=WAITING)
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "viper: interrupted" and "Traceback" not in done.stderr


# A server


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """``viper serve`` in a process of its own."""
    command = forked.viper("serve", "--port", "0", "--max-upload-mb", "0.5")
    environment = {**os.environ, "VIPER_SERVE_TOKEN": "a-token-that-is-long-enough-0123456789"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    try:
        lines = iter(process.stderr.readline, "")
        yield next(line for line in lines if line.startswith("serving on ")).split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=WAIT_S)


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIPER_SERVE_TOKEN", "a-token-that-is-long-enough-0123456789")


def form(text: str) -> list[str]:
    """A printed answer without what differs between runs: times, and what a cache answered."""
    lines = [line.partition(" [")[0].partition(" s, ")[2] or line for line in text.splitlines()]
    return [line.rpartition(" [")[0] if line.startswith("    find") else line for line in lines]


@pytest.mark.usefixtures("token")
def test_a_server_answers_in_the_form_of_this_machine(address: str, tmp_path: Path) -> None:
    here_png, there_png = tmp_path / "here.png", tmp_path / "there.png"
    alone = viper(TABLE, CYAN, "--save", str(here_png))
    line = (TABLE, CYAN, "--server", address, "--save", str(there_png))
    asked = viper(*line, program=WITHOUT_LIBRARIES)
    assert (asked.returncode, asked.stdout) == (0, alone.stdout), asked.stderr
    said = asked.stderr.replace(str(there_png), str(here_png))
    assert form(said) == form(alone.stderr.partition("starting …\n")[2])
    assert there_png.read_bytes() == here_png.read_bytes()


@pytest.mark.usefixtures("token")
def test_a_server_answers_many_questions(
    address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = viper(
        CONES, "-i", "--json", "--server", address, stdin=f"{CYAN}\nhow many cones are there?\n"
    )
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["answer"], second["answer"]) == (None, "3")
    assert done.returncode == 1  # there is no cyan cube


@pytest.mark.usefixtures("token")
def test_refusals_of_a_server_are_one_line(
    address: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = tmp_path / "large.png"
    noise = np.random.default_rng(0).integers(0, 256, (600, 600, 3), dtype=np.uint8)
    Image.fromarray(noise).save(large)
    cases = [
        (2, (TABLE, CYAN, "--strategy", "nope"), "unknown strategy 'nope'; known: captions,"),
        (2, (str(large), CYAN), "(status 413)"),
        (2, (*[TABLE] * 9, CYAN), "Maximum number of files is 8. (status 400)"),
    ]
    for expected, line, message in cases:
        code, out, err = here(capsys, *line, "--server", address)
        assert (code, out) == (expected, ""), err
        assert err.splitlines()[-1].startswith(f"viper: {address}: ") and message in err
        assert len(err.splitlines()) == 2  # after "answering …"
    code, _, err = here(capsys, TABLE, CYAN, "--server", f"{address}/elsewhere")
    assert code == 1 and "(status 404)" in err
    monkeypatch.setenv("VIPER_SERVE_TOKEN", "another")
    code, _, err = here(capsys, TABLE, CYAN, "--server", address)
    assert code == 1
    assert "(status 401); set VIPER_SERVE_TOKEN to the server's token" in err


def test_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        code, _, err = here(capsys, TABLE, CYAN, "--server", url)
    assert code == 1
    assert err.splitlines()[-1].startswith(f"viper: {url}: no answer (Connection refused); start")


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://", "http://host:port"])
def test_what_is_no_address_of_a_server(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = here(capsys, TABLE, CYAN, "--server", url)
    assert code == 2 and f"--server {url!r}: expected an address" in err


@pytest.mark.parametrize(
    "option",
    ["--profile=embedded", "--sandbox=weak", "--offline", "--max-memory=1", "--state=.",
     "--threshold=detector.threshold=0.2", "--bank=embedded:default", "--no-learned",
     "--html=a.html", "--show-prompt", "--dry-run"],
)  # fmt: skip
def test_options_that_a_server_cannot_heed_are_refused(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = here(capsys, TABLE, CYAN, "--server", "http://127.0.0.1:1", option)
    assert code == 2
    assert f"{option.partition('=')[0]}\n" in err.partition("leave out ")[2]


def test_settings_and_candidates_reach_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    with served(Writer(FAINT)) as server:
        line = (TABLE, "the faint ball", "--server", server.url, "--seed", "7", "--trials", "1")
        code, out, _ = here(capsys, *line, "--no-self-tune", "--api", "vipergpt", "--json")
        got = json.loads(out)
        assert (got["seed"], got["api"], len(got["trials"])) == (7, "vipergpt", 1)
        assert got["failure"]["kind"] == "below_threshold" and code == 1
        line = (TABLE, "which?", "--server", server.url, "--options", "a; bé")
        got = json.loads(here(capsys, *line, "--json")[1])
        assert (got["task"], got["query"]) == ("choice", "which?")


def test_the_picture_of_an_edit_comes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "edited.png"
    with served(POP) as server:
        got = server.run("edit it", task="edit").json()
        assert got["picture"].startswith("data:image/png;base64,")
        line = (TABLE, "edit it", "--task", "edit", "--server", server.url, "--save", str(file))
        assert here(capsys, *line)[0] == 0
    assert Image.open(file).size == Image.open(TABLE).size


def test_a_record_that_is_not_of_a_run_is_refused() -> None:
    for record in ([], {"answer": "x"}, None):
        with pytest.raises(RecordError):
            trace_from_record(record)


def test_marked_examples_are_counted_without_a_program_writer() -> None:
    done = viper(TABLE, "how many of these?", "--like", "145,32,190,77", "--json")
    record = json.loads(done.stdout)
    assert record["strategy"] == "marked" and record["usage"]["llm_calls"] == 0
    assert record["answer"] >= 1 and record["tool_calls"][0]["scores"][0] == 1.0


@pytest.mark.parametrize(
    ("boxes", "message"),
    [
        (["145,32,290,77"], "192 x 144 pixels"),
        (["190,32,145,77"], "x0 < x1"),
        (["1,2,3"], "expected a box, x0,y0,x1,y1"),
        (["1,2,30,40"] * 5, "5 boxes; at most 4"),
    ],
)
def test_wrong_marks_are_one_line(boxes: list[str], message: str) -> None:
    done = viper(TABLE, "how many of these?", *(part for box in boxes for part in ("--like", box)))
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
