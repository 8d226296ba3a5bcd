"""``viper learn confidence``: a calibrated profile from labelled samples or from stored runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.test_bad_input import refused, viper
from tests.evaluate.fake_backends import a_set
from viper.profiles.files import read_profile
from viper.profiles.wiring import load_profile
from viper.reasoner import Reasoner


class Calibrate:
    """Sixty questions of which every third is answered wrong, and the profile that answers."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.set, self.profile = a_set(folder / "set", 60)
        self.out = folder / "calibrated.toml"

    def line(self, *more: str | Path) -> list[str]:
        line = ["learn", "confidence", *more, "--profile", self.profile, "--out", self.out]
        return [str(one) for one in line]


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Calibrate:
    return Calibrate(tmp_path, capsys)


def test_samples_are_answered_once_and_the_profile_gives_their_share(bench: Calibrate) -> None:
    line = bench.line(bench.set, "--limit", "60", "--mode", "plain")
    code, out, err = viper(bench.capsys, *line, "--json")
    assert code == 0, err
    report = json.loads(out)["plain"]
    assert report["risk at 100%"]["value"] == pytest.approx(1 / 3)
    document = read_profile(str(bench.out))
    confidence = document.confidence["plain"]
    assert set(document.confidence) == {"plain"} and confidence.steps[-1][1:] == (60, 20)
    assert "verified" not in bench.out.read_text()
    with Reasoner(load_profile(str(bench.out))) as reasoner:
        answer = reasoner.run(bench.folder / "set/pictures/0.png", "what color is thing 1?").answer
        assert answer is not None and answer.confidence == pytest.approx(2 / 3, abs=0.03)

    # the answers are stored: a second profile needs no model
    bench.out.unlink()
    code, out, _ = viper(
        bench.capsys, *bench.line("--from", bench.folder / "calibrated.toml.answers/plain")
    )
    assert code == 0 and out.startswith("plain, 60 answers, held out:\n  calibration error: 0.")
    assert read_profile(str(bench.out)).confidence["plain"] == confidence


def test_a_stored_run_of_another_strategy_calibrates_that_strategy(bench: Calibrate) -> None:
    run = bench.folder / "run"
    ran = ["eval", bench.set, "--profile", bench.profile, "--strategy", "vqa", "--out", run]
    code, _, err = viper(bench.capsys, *map(str, ran))
    assert code == 0, err
    code, out, err = viper(bench.capsys, *bench.line("--from", run))
    assert code == 0 and out.startswith("vqa, 60 answers, held out:"), err
    assert set(read_profile(str(bench.out)).confidence) == {"vqa"}
    with Reasoner(load_profile(str(bench.out))) as reasoner:
        picture = bench.folder / "set/pictures/0.png"
        for strategy, is_known in (("vqa", True), ("program", False)):
            answer = reasoner.run(picture, "what color is thing 1?", strategy=strategy).answer
            assert answer is not None and (answer.confidence is not None) == is_known


def test_a_profile_without_a_writer_is_calibrated_by_given_programs(bench: Calibrate) -> None:
    bench.profile.write_text(bench.profile.read_text().replace(":Writer", ":Missing"))
    programs = bench.folder / "programs"
    programs.mkdir()
    line = bench.line(bench.set, "--limit", "60", "--programs", programs)
    assert "no file KIND.py" in viper(bench.capsys, *line)[2]
    (programs / "choice.py").write_text("1")
    assert "no samples of kind choice" in viper(bench.capsys, *line)[2]
    (programs / "question.py").write_text(
        "def execute_command(image, question):\n"
        "    return ImagePatch(image).simple_query(question)\n"
    )
    code, out, err = viper(bench.capsys, *line, "--mode", "checked", "--json")
    assert code == 0, err
    assert list(json.loads(out)) == ["checked"]
    confidence = read_profile(str(bench.out)).confidence["checked"]
    assert confidence.steps[-1][1:] == (60, 20) and "given" in confidence.weights


def test_bad_input_is_one_line_and_nothing_is_written(bench: Calibrate, tmp_path: Path) -> None:
    assert "give a data set SET or stored runs" in refused(bench.capsys, *bench.line())
    code, _, err = viper(bench.capsys, *bench.line(bench.set, "--limit", "9"))
    assert code == 2 and "9 is not in the range x>=50" in err
    assert not bench.out.exists()
    bench.out.write_text("mine")
    assert "there already" in refused(bench.capsys, *bench.line(bench.set))
    assert bench.out.read_text() == "mine"
