"""``viper ace tune``: values tried on few samples, one stored run each, the best as a profile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands.test_ace import ROOT, Mine
from tests.commands.test_bad_input import viper
from viper.profiles.files import read_profile
from viper_lab.papers.cell_runner import StoredRun

TUNING = "tuned.toml.tuning"

THRESHOLD_NAMES = """
# measured by hand
[sensitivities]
"detector.threshold" = { start = 0.40, step = 0.10, floor = 0.10, fixed = 0.20 }
"""


class Tune(Mine):
    """The questions and the writer of ``viper ace mine``'s tests, with a threshold."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(folder, capsys)
        self.profile.write_text(self.profile.read_text() + THRESHOLD_NAMES)
        self.out = folder / "tuned.toml"

    def arguments(self, *more: str | Path) -> list[str]:
        given = ["ace", "tune", "--data", self.set, "--profile", self.profile, "--out", self.out]
        return [str(one) for one in (*given, "--split", "all", *more)]

    def tune(self, *more: str | Path) -> tuple[int, str, str]:
        return viper(self.capsys, *self.arguments(*more))


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tune:
    return Tune(tmp_path, capsys)


def test_values_are_tried_and_the_profile_is_written(bench: Tune) -> None:
    code, out, err = bench.tune(
        "--shots", "4", "--temperatures", "0, 0.5", "--threshold", "detector.threshold=0.05, 0.3"
    )
    assert code == 0, err
    # nothing is better than the current values, and these stay
    assert "temperature (was 0): 0 is chosen" in out
    assert "detector.threshold (was 0.2): 0.2 is chosen" in out
    assert err.splitlines()[-1] == f"written: {bench.out}"
    assert len(bench.asked()) == 4 * (2 + 3) and len(set(bench.asked())) == 4
    text = bench.out.read_text()
    assert "# measured by hand" in text and 'name = "tuned"' in text
    document = read_profile(str(bench.out))
    assert document.run.temperature == 0.0
    assert document.tools == read_profile(str(bench.profile)).tools
    assert {path.name for path in (bench.folder / TUNING).iterdir()} == {
        "temperature-0.0-shots", "temperature-0.5-shots", "detector.threshold-0.05-shots",
        "detector.threshold-0.2-shots", "detector.threshold-0.3-shots",
    }  # fmt: skip


def test_the_same_line_answers_nothing_again(bench: Tune) -> None:
    given = ("--shots", "3", "--temperatures", "0.5", "--threshold", "detector.threshold=0.2")
    code, out, _ = bench.tune(*given, "--json")
    assert code == 0 and [one["setting"] for one in json.loads(out)] == [
        "temperature", "detector.threshold",
    ]  # fmt: skip
    asked = len(bench.asked())
    bench.out.unlink()
    assert bench.tune(*given, "--json")[:2] == (0, out)
    assert len(bench.asked()) == asked


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_tuning_goes_on_after_it_was_ended(bench: Tune, end: signal.Signals) -> None:
    more = ("--shots", "24", "--temperatures", "0, 0.5", "--threshold", "detector.threshold=0.2")
    (bench.folder / "hang").touch()
    process = subprocess.Popen(
        [sys.executable, "-m", "viper", *bench.arguments(*more)],
        stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ},
    )  # fmt: skip
    first = StoredRun("first value", "", 0, 24, bench.folder / TUNING / "temperature-0.0-shots")
    while first.stored() < 23:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(end)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if end == signal.SIGINT else -9) and not bench.out.exists()
    assert ("to go on: the same line again" in err) is (end == signal.SIGINT)
    (bench.folder / "hang").unlink()
    before = len(bench.asked())
    code, _, err = bench.tune(*more)
    assert code == 0 and bench.out.exists(), err
    again = bench.asked()[before:]
    assert len(again) == 3 * 24 - 23 and again[0] == "5"


def test_what_the_values_were_chosen_with_becomes_the_profiles(bench: Tune) -> None:
    bench.bank.write_text("")
    (bench.folder / "own.py").write_text(
        '"""None."""\nfrom viper import ImagePatch, routine\n\n\n@routine(["question"])\n'
        'def ask_it(image_patch: ImagePatch, question: str) -> str:\n    """Ask.\n\n'
        '    Example:\n        # ask\n        return ask_it(image_patch, "what?")\n    """\n'
        "    return image_patch.simple_query(question)\n"
    )
    (bench.folder / "beside.toml").write_text(
        bench.profile.read_text().replace("[run]", '[run]\nbank = "none.jsonl"')
    )
    code, _, err = bench.tune(
        "--shots", "2", "--temperatures", "0", "--threshold", "detector.threshold=0.2",
        "--profile", bench.folder / "beside.toml", "--bank", bench.bank,
        "--api", f"abstract+{bench.folder / 'own.py'}",
    )  # fmt: skip
    assert code == 0, err
    document = read_profile(str(bench.out))
    assert document.bank == str(bench.bank)
    assert document.run.api == f"abstract+{bench.folder / 'own.py'}"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--threshold", "nope=0.1"], "unknown threshold 'nope'; known: detector.threshold"),
        (["--threshold", "detector.threshold"], "expected NAME=A, B, …"),
        (["--threshold", "detector.threshold=a"], "expected numbers with commas between"),
        (["--threshold", "detector.threshold="], "expected numbers with commas between"),
        (["--temperatures", "0, 3"], "expected numbers from 0 to 2"),
        (["--temperatures", "nan"], "expected numbers from 0 to 2"),
        (["--temperatures", "0 0.4"], "expected numbers with commas between"),
        (["--validate", "all"], "the shots are from there"),
        (["--split", "nope"], "unknown split of"),
        (["--data", "nope"], "unknown data set 'nope'"),
        (["--out", "tuned.tml"], "ends in .toml"),
        (["--bank", "none.jsonl"], "none.jsonl"),
    ],
)
def test_a_wrong_call_is_one_line(bench: Tune, more: list[str], said: str) -> None:
    code, out, err = bench.tune("--shots", "2", *more)
    lines = err.splitlines()
    assert (code, out, len(lines)) == (2, "", 1), err
    assert lines[0].startswith("viper: ") and said in lines[0]
    assert not bench.out.exists() and not bench.asked()


def test_nothing_to_try_is_told(bench: Tune) -> None:
    bench.profile.write_text(bench.profile.read_text().replace(THRESHOLD_NAMES, ""))
    code, _, err = bench.tune("--temperatures", "")
    assert code == 2 and "nothing to try; give --temperatures" in err


def test_an_existing_profile_is_never_written_over(bench: Tune) -> None:
    bench.out.write_text("mine")
    code, _, err = bench.tune("--shots", "2")
    assert code == 2 and "there already; choose another name" in err and not bench.asked()
    assert bench.out.read_text() == "mine"


@pytest.mark.models
@pytest.mark.timeout(300)
def test_the_embedded_profile_is_tuned_on_a_set_with_habits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tuned.toml"
    given = ["ace", "tune", "--shots", "3", "--temperatures", "0", "--limit", "3", "--threshold",
             "detector.threshold=0.2", "--validate", "val", "--out", str(out)]  # fmt: skip
    code, said, err = viper(capsys, *given)
    assert code == 0, err
    assert "detector.threshold (was 0.26)" in said and "   full " in said
    document = read_profile(str(out))
    assert document.tools.sensitivities["detector.threshold"].fixed in (0.2, 0.26)
    assert "# Thresholds that self-tuning may lower" in out.read_text()
