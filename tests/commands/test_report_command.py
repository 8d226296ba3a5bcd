"""``viper report`` on the command line."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.evaluate.run_samples import a_manifest, a_row, failed_row
from viper.cli import cli
from viper.commands.report import library_of
from viper.errors import UsageError
from viper.evaluate.runs.store import RunStore


def ran(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["report", *map(str, arguments)], standalone_mode=False)


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    before, after = tmp_path / "before", tmp_path / "after"
    with RunStore.create(before, a_manifest(metric="answers")) as store:
        for number in range(40):
            store.add(number, failed_row(number) if number % 4 == 0 else a_row(number))
    with RunStore.create(after, a_manifest(metric="answers", strategy="plan")) as store:
        for number in range(40):
            store.add(number, a_row(number, text=a_row(number).text))
    return before, after


def test_a_table_of_two_runs(runs: tuple[Path, Path]) -> None:
    done = ran(*runs)
    assert done.return_value == 0, done.exception
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "run" and "plan" in lines[2] and "10 (25.0%)" in lines[1]


@pytest.mark.parametrize(
    ("name", "figure"),
    [("gqa", "exact"), ("okvqa", "official_soft_accuracy"), ("infoseek", "vqa_accuracy")],
)
def test_the_official_figure_stands_beside_ours(tmp_path: Path, name: str, figure: str) -> None:
    with RunStore.create(tmp_path / "run", a_manifest(metric=name)) as store:
        for number, value in enumerate((1.0, 0.0, 0.0, 0.0)):
            store.add(number, a_row(number, details={figure: value}))
    header, line, *_ = ran(tmp_path / "run").stdout.splitlines()
    ours, official = re.findall(r"0\.\d{3} \[", line)[:2]
    assert header.index("accuracy") < header.index(figure)
    assert (ours, official) == ("0.500 [", "0.250 [")


def test_the_official_predictions_file_of_a_run(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "gqa", a_manifest(metric="gqa")) as store:
        for number in range(2):
            store.add(number, a_row(number))
        store.add(2, failed_row(2))
    out = tmp_path / "testdev_predictions.json"
    assert ran("--predictions", "--out", out, tmp_path / "gqa").return_value == 0
    assert [entry["prediction"] for entry in json.loads(out.read_text())] == ["red", "blue", ""]
    with RunStore.create(tmp_path / "seeds", a_manifest(metric="gqa", seeds=(0, 1))):
        pass
    for runs in (["seeds"], ["gqa", "gqa"]):
        done = ran("--predictions", *(tmp_path / run for run in runs))
        assert isinstance(done.exception, UsageError) and "one run with one seed" in str(
            done.exception
        )


def test_csv_markdown_and_json(runs: tuple[Path, Path], tmp_path: Path) -> None:
    lines = list(csv.DictReader(io.StringIO(ran("--format", "csv", *runs).stdout)))
    assert {line["kind"] for line in lines} == {"overall", "group", "failures"}
    assert ran("--format", "markdown", *runs).stdout.startswith("| run |")
    found = json.loads(ran("--json", *runs).stdout)
    assert [run["n"] for run in found["runs"]] == [40, 40]
    out = tmp_path / "table.json"
    done = ran("--format", "json", "--out", out, *runs)
    assert done.stdout == "" and json.loads(out.read_text()) == found


def test_a_page_in_the_folder_or_elsewhere(runs: tuple[Path, Path], tmp_path: Path) -> None:
    done = ran("--html", *runs)
    assert done.stdout.split() == [str(run / "report.html") for run in runs]
    assert "<svg" in (runs[0] / "report.html").read_text("utf-8")
    out = tmp_path / "page.html"
    assert ran("--html", "--out", out, runs[0]).return_value == 0
    assert out.read_bytes() == (runs[0] / "report.html").read_bytes()


def test_comparing_in_words_and_as_json(runs: tuple[Path, Path]) -> None:
    text = ran("--compare", *runs).stdout
    assert text.startswith("40 answers\nmean score 0.250 before, 0.500 after; gain +0.250 [")
    assert "to right: 10" in text and "  s00000  what color is cube 0?" in text
    assert "runtime -> none" in text and "to wrong: 0" in text
    found = json.loads(ran("--compare", "--json", *runs).stdout)
    assert len(found["to_right"]) == 10 and found["gain"]["p_value"] < 0.01


def test_long_lists_are_cut_in_words_only(tmp_path: Path) -> None:
    for name, score in (("a", 0.0), ("b", 1.0)):
        with RunStore.create(tmp_path / name, a_manifest(metric="answers")) as store:
            for number in range(40):
                store.add(number, a_row(number, score=score, text="\x1b[2Jgone"))
    text = ran("--compare", tmp_path / "a", tmp_path / "b").stdout
    assert "and 20 more (--json lists all)" in text and "\x1b" not in text


def test_where_answers_go_wrong(runs: tuple[Path, Path], tmp_path: Path) -> None:
    lines = ran("--errors", *runs).stdout.splitlines()
    assert lines[0].split()[-2:] == [str(run) for run in runs]
    assert "error: other" in lines[-3] and "0.250 [0.142, 0.402]" in lines[-3]
    found = json.loads(ran("--errors", "--json", *runs).stdout)
    assert [run["failed"]["count"] for run in found["runs"]] == [10, 0]
    out = tmp_path / "errors.html"
    done = ran("--errors", "--html", "--out", out, *runs)
    assert done.return_value == 0 and done.stdout == ""
    page = out.read_text("utf-8")
    assert page.count("<svg") == 1 and "errors together" in page
    assert "Shares of answers by overlap" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{0}", "--compare"), "takes two runs"),
        (("{0}", "--common"), "goes with --compare"),
        (("{0}", "--json", "--format", "csv"), "different things"),
        (("{0}", "{1}", "--html", "--out", "x.html"), "one page"),
        (("{0}", "{1}", "--compare", "--html"), "text or"),
        (("{0}", "--errors", "--html"), "name its file with --out FILE"),
        (("{0}", "{1}", "--errors", "--compare"), "different things"),
        (("nowhere", "--errors"), "not the folder of a run"),
        (("nowhere",), "not the folder of a run"),
    ],
)
def test_a_wrong_call_is_one_line(
    runs: tuple[Path, Path], arguments: tuple[str, ...], message: str
) -> None:
    done = ran(*[one.format(*runs) for one in arguments])
    assert isinstance(done.exception, UsageError) and message in str(done.exception)


def test_help_and_plain_text_load_no_plots(runs: tuple[Path, Path]) -> None:
    for arguments in (["--help"], [str(runs[0])], ["--errors", str(runs[0])]):
        code = (
            "import sys; sys.modules['matplotlib'] = None; sys.modules['torch'] = None\n"
            "from viper.cli import main\n"
            f"sys.exit(main(['report', *{arguments!r}]))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("tools", "ratios"),
    [
        ({"depth_ratios": {"is_on": 1.5}}, {"is_on": 1.5}),
        ({"depth_ratios": {}}, {}),
        # stored before profiles stated them, when they were the routines' constants
        ({}, {"is_on": 1.08, "is_next_to": 1.33}),
    ],
)
def test_programs_of_a_run_are_replayed_with_its_depth_ratios(
    tools: dict[str, object], ratios: dict[str, float]
) -> None:
    manifest = a_manifest(document={"tools": tools})
    assert library_of(manifest, trust=False).depth_ratios == ratios
    assert library_of(manifest, trust=True).depth_ratios == ratios
