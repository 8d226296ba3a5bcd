"""``viper apply`` and ``viper export``, with fake models."""

from __future__ import annotations

import ast
import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_bad_input import refused, viper
from tests.evaluate.fake_backends import PROFILE, a_set, color_of
from viper.profiles import load_profile
from viper.profiles.exported import ExportedProgram
from viper.storage.files import WriterLock
from viper.storage.json_lines import dumps, plain

ROOT = Path(__file__).parents[2]
PROGRAM = (
    "def execute_command(image, question):\n    return ImagePatch(image).simple_query(question)\n"
)
FIND = "def execute_command(image):\n    return ImagePatch(image).find('x')[0]\n"
FAILS = "def execute_command(image):\n    return 1 / 0\n"
QUERY = "what color is it?"


class Bench:
    """A folder of pictures, a program, a profile of fake models and a table to write."""

    def __init__(
        self, folder: Path, capsys: pytest.CaptureFixture[str], pictures: int = 12
    ) -> None:
        self.folder, self._capsys = folder, capsys
        a_set(folder / "set", 4 * pictures)
        self.pictures = folder / "set" / "pictures"
        self.profile, self.program = folder / "fake.toml", folder / "program.py"
        self.profile.write_text(PROFILE.format(vqa="answerer"))
        self.program.write_text(PROGRAM)
        self.table = folder / "answers.csv"

    def arguments(self, *more: str | Path, program: Path | None = None) -> list[str]:
        source: list[str | Path] = ["apply", program or self.program, self.pictures]
        given = [*source, "-o", self.table, "--profile", self.profile, "--query", QUERY, *more]
        return [str(each) for each in given]

    def apply(self, *more: str | Path, program: Path | None = None) -> tuple[int, str, str]:
        return viper(self._capsys, *self.arguments(*more, program=program))

    def refused(self, *arguments: str | Path) -> str:
        return refused(self._capsys, *map(str, arguments))

    def rows(self) -> list[dict[str, str]]:
        with self.table.open(newline="") as file:
            return list(csv.DictReader(file))


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    return Bench(tmp_path, capsys)


def test_each_picture_gets_a_row(bench: Bench) -> None:
    code, out, err = bench.apply()
    assert (code, out) == (0, "")
    assert "12/12" in err
    assert "score" not in err
    rows = bench.rows()
    assert [row["file"] for row in rows] == sorted(f"{number}.png" for number in range(12))
    assert {row["answer"] for row in rows} == {color_of(QUERY)}
    assert {row["failure"] for row in rows} == {""}


def test_answers_without_a_calibration_are_refused_if_a_risk_is_asked(bench: Bench) -> None:
    code, _, _ = bench.apply("--checks", "--abstain", "0.1")
    assert code == 1
    assert {row["failure"] for row in bench.rows()} == {"usage"}
    assert "viper learn confidence SET" in bench.rows()[0]["message"]


def test_json_lines_hold_values(bench: Bench) -> None:
    bench.table = bench.folder / "answers.jsonl"
    bench.program.write_text(FIND)
    assert bench.apply("--task", "ground")[0] == 0
    rows = [json.loads(line) for line in bench.table.read_text().splitlines()]
    assert {tuple(row["box"]) for row in rows} == {(1.0, 1.0, 9.0, 9.0)}


def test_failures_and_unreadable_files_are_rows(bench: Bench) -> None:
    (bench.pictures / "bad.png").write_text("no picture")
    (bench.pictures / "notes.txt").write_text("skipped")
    code, _, err = bench.apply()
    assert code == 1
    assert "1 of 13 failed (media 1)" in err
    assert "skipped 1 files without the suffix of a picture or video: .txt" in err
    assert [row["file"] for row in bench.rows() if row["failure"] == "media"] == ["bad.png"]
    bench.program.write_text(FAILS)
    code, _, err = bench.apply("--force")
    assert (code, {row["failure"] for row in bench.rows()}) == (1, {"runtime", "media"})
    assert "division by zero" in bench.rows()[0]["message"]


def test_the_same_command_continues(bench: Bench) -> None:
    bench.apply()
    whole = bench.table.read_bytes()
    lines = whole.splitlines(keepends=True)
    bench.table.write_bytes(b"".join(lines[:6]) + lines[6][:-9])  # killed in the midst of a row
    code, _, err = bench.apply()
    assert code == 0
    assert "5 of 12 are there already" in err
    assert bench.table.read_bytes() == whole


def test_new_and_changed_files_are_answered_and_gone_ones_removed(bench: Bench) -> None:
    bench.apply()
    (bench.pictures / "3.png").unlink()
    os.utime(bench.pictures / "4.png", ns=(1, 1))
    (bench.pictures / "new").mkdir()
    (bench.pictures / "new" / "5.png").write_bytes((bench.pictures / "5.png").read_bytes())
    _, _, err = bench.apply()
    assert "removed 2 rows of files that changed or are gone" in err
    assert "10 of 12 are there already" in err
    names = [row["file"] for row in bench.rows()]
    assert len(names) == len(set(names)) == 12
    assert "new/5.png" in names
    assert "3.png" not in names


def test_failed_rows_run_again_where_asked(bench: Bench) -> None:
    (bench.pictures / "bad.png").write_text("no picture")
    bench.apply()
    (bench.pictures / "bad.png").unlink()
    assert bench.apply("--retry-failed")[0] == 0
    assert len(bench.rows()) == 12


def test_another_program_does_not_mix_into_a_table(bench: Bench) -> None:
    bench.apply()
    before = bench.table.read_bytes()
    bench.program.write_text(PROGRAM + "\n")
    assert "holds answers of another program" in bench.refused(*bench.arguments())
    assert bench.table.read_bytes() == before
    bench.table.write_text("a,b\n1,2\n")
    assert "no row of viper apply" in bench.refused(*bench.arguments())
    assert bench.table.read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+1", "@sum", "\t=1"])
def test_a_cell_is_never_a_formula(bench: Bench, text: str) -> None:
    bench.program.write_text(f"def execute_command(image):\n    return {text!r}\n")
    bench.apply()
    assert all(row["answer"].lstrip("\t")[:1] not in "=+-@" for row in bench.rows())


def test_links_out_of_the_folder_are_not_followed(bench: Bench) -> None:
    secret = bench.folder / "secret"
    secret.mkdir()
    (secret / "s.png").write_bytes((bench.pictures / "1.png").read_bytes())
    (bench.pictures / "link.png").symlink_to(secret / "s.png")
    (bench.pictures / "folder").symlink_to(secret)
    code, _, err = bench.apply()
    assert code == 0
    assert "skipped 1 links to files outside" in err
    assert len(bench.rows()) == 12


def test_a_killed_process_loses_and_doubles_nothing(bench: Bench) -> None:
    slow = "def execute_command(image, question):\n    for _ in range(300000):\n        pass\n"
    bench.program.write_text(f"{slow}    return question\n")
    for wanted in (2, 5):
        process = subprocess.Popen(
            [sys.executable, "-m", "viper", *bench.arguments("--workers", "1")],
            cwd=ROOT, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while not bench.table.exists() or bench.table.read_bytes().count(b"\n") <= wanted:
            assert time.monotonic() < deadline
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    stored = {row["file"] for row in bench.rows()[:-1]}
    assert bench.apply()[0] == 0
    names = [row["file"] for row in bench.rows()]
    assert len(names) == len(set(names)) == 12
    assert len(stored) >= 4


def test_two_processes_do_not_write_one_table(bench: Bench) -> None:
    lock = WriterLock(bench.folder / ".answers.csv.lock", "the table of a test")
    code, _, err = bench.apply()
    lock.release()
    assert code == 1
    assert "this table is being written by process" in err
    assert bench.apply()[0] == 0


def test_bad_input_is_one_line(bench: Bench) -> None:
    good = bench.arguments()
    assert "no such folder" in bench.refused("apply", bench.program, "absent", "-o", bench.table)
    empty = bench.folder / "empty"
    empty.mkdir()
    assert "no picture or video in it" in bench.refused(
        "apply", bench.program, empty, "-o", bench.table
    )
    assert "ends in .csv or .jsonl" in bench.refused(
        *["x.txt" if each == str(bench.table) else each for each in good]
    )
    assert "no such program file" in bench.refused(
        "apply", "absent.py", bench.pictures, "-o", bench.table
    )
    assert not bench.table.exists()


# viper export


HOSTILE = [
    "'''\nimport os\nos.system('touch PWNED')\n'''",
    '"""\n"""\nimport os',
    "\\",
    "a\\'; import os #",
    "{literal} {name} %s",
    "\u2028import os\r\nimport sys\x0c",
    "\udcff",
    "EXPORT = {}\n\nimport os",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_strangers_stay_texts(text: str) -> None:
    exported = ExportedProgram(
        query=text, task="question", program=text, api="abstract", profile={"name": text}
    )
    script = exported.script("x\n.py")
    nodes = ast.parse(script).body
    kinds = [type(node).__name__ for node in nodes]
    assert kinds == ["Assign", "If"]
    assert ExportedProgram.read(script) == exported
    assert dumps(exported)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    table, profile = a_set(tmp_path / "asked", 4)
    folder = tmp_path / "run"
    code, _, err = viper(
        capsys, "eval", str(table), "--profile", str(profile), "--out", str(folder)
    )
    assert code == 0, err
    return folder


def test_an_exported_script_answers_about_other_pictures(
    bench: Bench, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = bench.folder / "answer.py"
    assert viper(capsys, "export", str(run), "q1", "-o", str(script), "--trust")[0] == 0
    done = subprocess.run(
        [sys.executable, script, bench.pictures / "1.png", bench.pictures / "2.png"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    color = color_of("what color is thing 1?")
    assert done.stdout == f"1.png: {color}\n2.png: {color}\n"
    as_json = subprocess.run(
        [sys.executable, script, bench.pictures / "1.png", "--json"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True,
    )  # fmt: skip
    assert json.loads(as_json.stdout)["answer"] == color


def test_an_exported_script_applies_to_a_folder(
    bench: Bench, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = bench.folder / "answer.py"
    viper(capsys, "export", str(run), "q1", "-o", str(script), "--trust")
    code, _, err = viper(
        capsys, "apply", str(script), str(bench.pictures), "-o", str(bench.table), "--trust"
    )
    assert code == 0, err
    assert {row["answer"] for row in bench.rows()} == {color_of("what color is thing 1?")}


def test_the_thresholds_of_the_answer_are_pinned() -> None:
    exported = ExportedProgram(
        query="x",
        task="ground",
        program=FIND,
        api="abstract",
        profile=plain(load_profile("embedded").document),
        thresholds={"detector.threshold": 0.123, "gone.threshold": 0.5},
    )
    read = ExportedProgram.read(exported.script("x.py"))
    assert read is not None
    sensitivities = read.pinned_profile().document.tools.sensitivities
    assert sensitivities["detector.threshold"].start == 0.123
    assert "gone.threshold" not in sensitivities


def test_export_refuses_in_one_line(run: Path, tmp_path: Path, capsys: Any) -> None:
    script = tmp_path / "answer.py"

    def refusal(*arguments: str | Path) -> str:
        return refused(capsys, "export", *map(str, arguments), "-o", str(script))

    assert "unknown sample 'q9'" in refusal(run, "q9")
    assert "the nearest are: q" in refusal(run, "q9")
    assert "its answer is wrong" in refusal(run, "q0")
    assert "which sample?" in refusal(run)
    (tmp_path / "x.json").write_text("{}")
    assert "neither the folder of a run nor the output" in refusal(tmp_path / "x.json")
    assert not script.exists()
    assert viper(capsys, "export", str(run), "q0", "-o", str(script), "--force", "--trust")[0] == 0
    assert "there already" in refusal(run, "q1")


def test_the_record_of_a_run_can_be_exported(bench: Bench, capsys: Any) -> None:
    record, script = bench.folder / "run.json", bench.folder / "answer.py"
    picture = str(bench.pictures / "1.png")
    _, out, _ = viper(capsys, "run", picture, QUERY, "--json", "--profile", str(bench.profile))
    record.write_text(out)
    arguments = ["export", str(record), "-o", str(script), "--profile", str(bench.profile)]
    assert viper(capsys, *arguments)[0] == 0
    assert "simple_query" in script.read_text()


def test_a_file_name_like_a_formula_stays_a_path_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(tmp_path, capsys, pictures=1)
    first = next(bench.pictures.glob("*.png"))
    for name in ("-dash.png", "=1+1.png", " @at.png"):
        (bench.pictures / name).write_bytes(first.read_bytes())
    for _ in range(2):  # the second session reads the table
        code, _, err = viper(capsys, *bench.arguments())
        assert code == 0, err
        names = [row["file"] for row in csv.DictReader(bench.table.open(newline=""))]
        assert {"./-dash.png", "./=1+1.png", "./ @at.png"} <= {*names}
        assert all((bench.pictures / name).is_file() for name in names)
    assert f"written: {bench.table}" in viper(capsys, *bench.arguments("--force"))[2]
    assert viper(capsys, *bench.arguments("--force", "-q"))[1:] == ("", "")
