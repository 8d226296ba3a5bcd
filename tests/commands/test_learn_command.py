"""``viper learn`` from the command line, on fake models."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from tests.evaluate.fake_backends import a_set, color_of
from viper.cli import main
from viper.commands import learn as learn_command
from viper.evaluate.runs.feedback import Feedback, add_feedback
from viper.evaluate.runs.learning_record import Journal
from viper.evaluate.runs.store import RunStore
from viper.strategies.demonstration_pool import DemonstrationPool

ROOT = Path(__file__).parents[2]
Capture = pytest.CaptureFixture[str]


def viper(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.fixture
def learn(tmp_path: Path) -> list[str]:
    file, profile = a_set(tmp_path / "set", 9)
    return [
        "learn", str(file), "--profile", str(profile), "--tools", "none",
        "--state", str(tmp_path / "state"), "--out", str(tmp_path / "run"),
    ]  # fmt: skip


def test_right_answers_become_examples_of_later_runs(
    learn: list[str], capsys: Capture, tmp_path: Path
) -> None:
    code, out, _ = viper(capsys, *learn, "--json")
    made = json.loads(out)
    assert code == 0 and made["samples"] == 9 and made["problems"] == []
    kept = DemonstrationPool(tmp_path / "state" / "demonstrations").items()
    assert len(kept) == made["demonstrations"] > 0
    with RunStore.read(tmp_path / "run") as store:
        assert store.count() == 9
        assert "soft prompts" not in store.manifest.models
    picture = str(tmp_path / "set" / "pictures" / "0.png")
    asked = ["run", picture, "what color is thing 1 now?", "--task", "question", "--show-prompt",
             "--profile", learn[3], "--state", str(tmp_path / "state")]  # fmt: skip
    _, shown, _ = viper(capsys, *asked)
    _, plain, _ = viper(capsys, *asked, "--no-learned")
    assert len(shown) > len(plain)


def test_the_same_line_goes_on_and_changes_nothing(learn: list[str], capsys: Capture) -> None:
    _, first, _ = viper(capsys, *learn, "--json")
    code, again, err = viper(capsys, *learn, "--json")
    assert code == 0 and json.loads(again) == json.loads(first)


def test_another_line_into_the_same_folder_is_refused(learn: list[str], capsys: Capture) -> None:
    viper(capsys, *learn)
    code, _, err = viper(capsys, *learn, "--limit", "4")
    assert code == 2 and len(err.strip().splitlines()[-1]) > 20 and "Traceback" not in err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--tools", "loc,legs"], "'legs'"),
        (["--tools", "loc", "--annotated", "lvis"], "--annotated-root"),
        (["--tools", "loc", "--annotated", "nowhere.json"], "nowhere.json: no such file"),
        (["--tools", "match", "--pictures", "nowhere"], "a folder of pictures"),
        (["--strategy", "guess"], "'guess'"),
        (["--strategy", "vqa"], "strategy vqa writes no programs to learn from"),
    ],
)
def test_bad_input_is_one_line(
    learn: list[str], capsys: Capture, more: list[str], says: str
) -> None:
    code, out, err = viper(capsys, *learn, *more)
    assert code == 2 and out == "" and says in err.strip().splitlines()[-1]


def test_a_web_search_is_described_by_a_file(
    learn: list[str], capsys: Capture, tmp_path: Path
) -> None:
    described = tmp_path / "search.toml"
    for text, says in (
        ("address = 3", "address"),
        ('adress = "https://a.example/?q={text}"', "adress: unknown key"),
        ('items = "x"', "address: field required"),
        ("not toml at all", "cannot be read as TOML"),
        (
            'address = "https://a.example/?q={text}"\nhosts = "b"',
            "hosts: input should be a valid array",
        ),
    ):
        described.write_text(text)
        code, _, err = viper(capsys, *learn, "--tools", "match", "--pictures", str(described))
        assert code == 2 and says in err.strip().splitlines()[-1], err


def test_the_table_says_what_was_learned(learn: list[str], capsys: Capture) -> None:
    code, out, err = viper(capsys, *learn, "--online", "--demonstrations", "correct")
    assert code == 0 and "first answers" in out and "9" in out
    assert "9/9 answered" in err


@pytest.fixture
def evaluated(tmp_path: Path, capsys: Capture) -> list[str]:
    """``viper learn --from`` a run of which three answers were remarked on."""
    file, profile = a_set(tmp_path / "set", 6)
    run = tmp_path / "run"
    code, _, _ = viper(capsys, "eval", str(file), "--profile", str(profile), "--out", str(run))
    assert code == 0
    add_feedback(run, Feedback("q1", answer=color_of("what color is thing 1?")))
    add_feedback(run, Feedback("q2", answer="violet", comment="the light is strange"))
    add_feedback(run, Feedback("q4", comment="the light is strange"))
    return [
        "learn", "--from", str(run), "--profile", str(profile), "--tools", "none",
        "--state", str(tmp_path / "state"),
    ]  # fmt: skip


def test_remarks_are_learned_from_once(
    evaluated: list[str], capsys: Capture, tmp_path: Path
) -> None:
    code, out, err = viper(capsys, *evaluated, "--json")
    made = json.loads(out)
    assert code == 0 and (made["samples"], made["score"]) == (2, 1 / 2), err
    assert "q4: nothing to learn from: a comment alone" in err
    lessons = {one.sample_id: one for one in Journal(tmp_path / "run").records()}
    assert sorted(lessons) == ["q1", "q2"]
    assert lessons["q2"].desired == "violet" and lessons["q2"].critiques
    assert lessons["q2"].comment == "the light is strange" and lessons["q2"].score == 0
    assert len(DemonstrationPool(tmp_path / "state" / "demonstrations").items()) == 1
    _, out, _ = viper(capsys, *evaluated, "--json")
    assert json.loads(out)["samples"] == 0
    add_feedback(tmp_path / "run", Feedback("q2", comment="it should be green"))
    _, out, _ = viper(capsys, *evaluated, "--json")
    assert json.loads(out)["samples"] == 1


def test_it_follows_what_is_said_until_it_is_interrupted(
    evaluated: list[str], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "viper", *evaluated, "--follow", "--json"]
    going = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        journal = Journal(tmp_path / "run")
        waited(going, lambda: len(journal.records()) == 2)
        add_feedback(tmp_path / "run", Feedback("q5", answer="violet"))
        waited(going, lambda: len(journal.records()) == 3)
        going.send_signal(signal.SIGINT)
        out, err = going.communicate(timeout=60)
    finally:
        going.kill()
    assert going.returncode == 0 and json.loads(out)["samples"] == 3, err


def waited(going: subprocess.Popen[bytes], is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not is_so():
        assert going.poll() is None and time.monotonic() < until, going.communicate()
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "one of SET and --from"),
        (["world", "--from", "RUN"], "one of SET and --from"),
        (["world", "--follow"], "goes with --from"),
        (["--from", "RUN", "--online"], "--online goes with SET"),
        (["--from", "nowhere"], "nowhere"),
    ],
)
def test_what_to_learn_from_is_said_once(
    evaluated: list[str], capsys: Capture, arguments: list[str], says: str, tmp_path: Path
) -> None:
    named = [str(tmp_path / "run") if one == "RUN" else one for one in arguments]
    code, out, err = viper(capsys, "learn", *named, *evaluated[3:])
    assert code == 2 and out == "" and says in err.strip().splitlines()[-1]


def test_seed_and_form_of_prompts_reach_the_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data are drawn by numpy, which takes no negative seed."""
    built: list[Any] = []

    def made(named: dict[str, Any]) -> SimpleNamespace:
        built.append(named)
        return SimpleNamespace(updates=None)

    monkeypatch.setattr(learn_command, "origin_of", lambda *_: None)
    monkeypatch.setattr(learn_command, "learner_for", lambda *_, **named: made(named))
    document = SimpleNamespace(run=SimpleNamespace(strategy="program", reflector="llm"))
    profile = SimpleNamespace(state=None, document=document)
    reasoner = SimpleNamespace(components=None)
    progress = learn_command._Progress(Event())
    for seed in (-1, 0, 1):
        options = learn_command.LearnOptions(tools="loc", seed=seed, decoder=seed == 1)
        learn_command.learner_of(profile, reasoner, ("", ""), options, progress)  # type: ignore[arg-type]
    seeds = [named["tools"].seed for named in built]
    assert len(set(seeds)) == 3 and seeds[1:] == [0, 1] and seeds[0] > 1
    assert [named["tools"].decoder for named in built] == [False, False, True]
