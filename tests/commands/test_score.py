"""``viper data score``: figures of others' predictions, odd files, and no models loaded."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_bad_input import refused, viper
from tests.evaluate.official import nlvr_counts, real

EXAMPLES = [("12-0", "true"), ("12-1", "false"), ("30-0", "true")]
QUESTIONS = "\n".join(
    [
        "video,frame_count,width,height,question,answer,qid,type,a0,a1,a2,a3,a4",
        "7,9,9,9,why,2,0,CW,a,b,c,d,e",
        "7,9,9,9,when before,0,1,TP,a,b,c,d,e",
        "8,9,9,9,when,1,0,TN,a,b,c,d,e",
    ]
)


@pytest.fixture
def nlvr(tmp_path: Path) -> Path:
    """A root with three examples of two groups."""
    (tmp_path / "dev").mkdir()
    lines = [
        json.dumps({"identifier": n, "sentence": "There is.", "label": label, "directory": "0"})
        for n, label in EXAMPLES
    ]
    (tmp_path / "dev" / "dev.json").write_text("\n".join(lines))
    return tmp_path


@pytest.fixture
def nextqa(tmp_path: Path) -> Path:
    (tmp_path / "val.csv").write_text(QUESTIONS)
    return tmp_path


def right_lines() -> list[str]:
    return [f"dev-{name}-{index}.png,{label}" for name, label in EXAMPLES for index in range(6)]


def written(root: Path, text: str, name: str = "said") -> str:
    path = root / name
    path.write_text(text)
    return str(path)


def scored(
    capsys: pytest.CaptureFixture[str], name: str, root: Path, text: str, *more: str
) -> tuple[dict[str, Any], str]:
    """The JSON object and stderr."""
    given = ["--root", str(root), "--predictions", written(root, text), "--json", *more]
    code, out, err = viper(capsys, "data", "score", name, *given)
    assert code == 0, err
    return json.loads(out), err


def no_score(capsys: pytest.CaptureFixture[str], name: str, root: Path, text: str) -> str:
    path = written(root, text)
    return refused(capsys, "data", "score", name, "--root", str(root), "--predictions", path)


def test_nlvr_by_hand(capsys: pytest.CaptureFixture[str], nlvr: Path) -> None:
    lines = right_lines()
    lines[0] = "dev-12-0-0.png,FALSE"  # one picture spoils group 12
    found, err = scored(capsys, "nlvr", nlvr, "\n".join(lines))
    assert err == ""
    assert {key: found[key] for key in ("set", "split", "n", "metric", "headline")} == {
        "set": "nlvr",
        "split": "dev",
        "n": 18,
        "metric": "nlvr",
        "headline": "accuracy",
    }
    assert found["figures"]["accuracy"]["value"] == 17 / 18
    assert found["figures"]["consistency"]["value"] == 1 / 2
    assert found["figures"]["consistency"]["n"] == 2
    assert found["predictions"] == {"duplicates": 0, "unknown": 0, "missing": 0, "invalid": 0}
    assert set(found["figures"]["accuracy"]) == {"value", "n", "low", "high"}


def test_names_without_suffix_and_split_are_the_same(
    capsys: pytest.CaptureFixture[str], nlvr: Path
) -> None:
    lines = [line.replace("dev-", "").replace(".png", "") for line in right_lines()]
    found, _ = scored(capsys, "nlvr", nlvr, "\r\n".join(lines) + "\r\n\r\n")
    assert found["figures"]["accuracy"]["value"] == 1.0


def test_the_last_duplicate_wins_and_unknown_ids_are_named(
    capsys: pytest.CaptureFixture[str], nlvr: Path
) -> None:
    lines = ["dev-12-0-0.png,false", "dev-12-0-0,false", *right_lines(), "dev-99-0-0.png,true"]
    found, err = scored(capsys, "nlvr", nlvr, "\n".join(lines))
    assert found["figures"]["accuracy"]["value"] == 1.0
    assert found["predictions"] == {"duplicates": 2, "unknown": 1, "missing": 0, "invalid": 0}
    duplicates, unknown = err.splitlines()
    assert "2 duplicate predictions" in duplicates
    assert "1 predictions" in unknown and "dev-99-0-0.png" in unknown


def test_missing_predictions_are_an_error(capsys: pytest.CaptureFixture[str], nlvr: Path) -> None:
    said = no_score(capsys, "nlvr", nlvr, "\n".join(right_lines()[4:]))
    assert "4 of 18 predictions are missing" in said and "--missing wrong" in said
    assert "'dev-12-0-0', 'dev-12-0-1', 'dev-12-0-2', …" in said
    assert "18 of 18" in no_score(capsys, "nlvr", nlvr, "")


def test_missing_predictions_may_count_as_wrong(
    capsys: pytest.CaptureFixture[str], nlvr: Path
) -> None:
    text = "\n".join(right_lines()[4:])
    found, _ = scored(capsys, "nlvr", nlvr, text, "--missing", "wrong")
    assert found["figures"]["accuracy"]["value"] == 14 / 18
    assert found["failures"]["missing"]["value"] == 4 / 18
    assert found["predictions"]["missing"] == 4
    empty, _ = scored(capsys, "nlvr", nlvr, "", "--missing", "wrong")
    assert {figure["value"] for figure in empty["figures"].values()} == {0.0}


def test_what_is_no_truth_value_is_wrong(capsys: pytest.CaptureFixture[str], nlvr: Path) -> None:
    lines = right_lines()
    lines[:3] = ["dev-12-0-0.png,", "dev-12-0-1.png, true", "dev-12-0-2.png,yes,true"]
    found, _ = scored(capsys, "nlvr", nlvr, "\n".join(lines))
    assert found["failures"] == {"invalid": found["failures"]["invalid"]}
    assert found["predictions"]["invalid"] == 3
    assert found["figures"]["accuracy"]["value"] == 15 / 18
    official, _ = nlvr_counts((nlvr / "dev" / "dev.json").read_text(), "\n".join(lines))
    assert official == 15 / 18


def test_a_line_that_does_not_parse_is_named(
    capsys: pytest.CaptureFixture[str], nlvr: Path
) -> None:
    said = no_score(capsys, "nlvr", nlvr, "dev-12-0-0.png,true\n\ndev-12-0-1.png true\n")
    assert f"{nlvr / 'said'}:3: " in said


def test_nextqa_by_hand(capsys: pytest.CaptureFixture[str], nextqa: Path) -> None:
    text = '{"7_0": {"prediction": 2}, "7_1": {"prediction": 0.0}, "8_0": {"prediction": 4}}'
    found, _ = scored(capsys, "nextqa", nextqa, text)
    shown = {name: (one["value"], one["n"]) for name, one in found["figures"].items()}
    assert shown["TN"] == (0.5, 2) and shown["T"] == (0.5, 2) and shown["overall"] == (2 / 3, 3)
    assert shown["CW"] == shown["C"] == (1.0, 1) and shown["DO"] == (0.0, 0)
    assert "TP" not in shown


@pytest.mark.parametrize("value", ["5", "-1", '"2"', "null", "NaN", "[2]", "1e400", "2.5", "{}"])
def test_no_option_is_wrong_and_counted(
    capsys: pytest.CaptureFixture[str], nextqa: Path, value: str
) -> None:
    text = f'{{"7_0": {{"prediction": {value}}}, "7_1": {{"prediction": 0}}, '
    found, _ = scored(capsys, "nextqa", nextqa, text + '"8_0": {"prediction": 1}}')
    assert found["predictions"]["invalid"] == 1
    assert found["figures"]["overall"]["value"] == 2 / 3


def test_keys_that_come_again_in_an_object(
    capsys: pytest.CaptureFixture[str], nextqa: Path
) -> None:
    text = (
        '{"7_0": {"prediction": 0}, "7_0": {"prediction": 2}, "7_1": {"prediction": 0},'
        ' "8_0": {"prediction": 1}, "9_9": {"prediction": 1}}'
    )
    found, err = scored(capsys, "nextqa", nextqa, text)
    assert found["figures"]["overall"]["value"] == 1.0
    assert found["predictions"] == {"duplicates": 1, "unknown": 1, "missing": 0, "invalid": 0}
    assert "1 duplicate" in err and "'9_9'" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"7_0":\n {"prediction": }}', "said:2: is no JSON"),
        ("[1, 2]", 'expected {"VIDEO_QID"'),
        ('{"7_0": 2}', "'7_0'"),
        ('{"7_0": {}}', "3 of 3 predictions are missing"),
        ("[" * 100_000, "nested too deeply"),
        ('{"7_0": {"prediction": ' + "9" * 5_000 + "}}", "thousands of digits"),
        ("", "said:1: is no JSON"),
    ],
)
def test_files_that_are_no_nextqa_predictions(
    capsys: pytest.CaptureFixture[str], nextqa: Path, text: str, said: str
) -> None:
    assert said in no_score(capsys, "nextqa", nextqa, text)


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], nlvr: Path) -> None:
    given = ["--root", str(nlvr), "--predictions", str(nlvr / "absent.csv")]
    assert "absent.csv: no such file" in refused(capsys, "data", "score", "nlvr", *given)
    given[-1] = str(nlvr)
    assert str(nlvr) in refused(capsys, "data", "score", "nlvr", *given)
    assert "unknown data set" in refused(capsys, "data", "score", "nothing", *given)


def test_text_has_the_official_rows(capsys: pytest.CaptureFixture[str], nextqa: Path) -> None:
    text = '{"7_0": {"prediction": 2}, "7_1": {"prediction": 0}, "8_0": {"prediction": null}}'
    given = ["--root", str(nextqa), "--predictions", written(nextqa, text), "--by-group"]
    code, out, _ = viper(capsys, "data", "score", "nextqa", *given)
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    assert " ".join(lines[1]) == "CW CH TN TC DC DL DO C T D overall"
    official = "100.00 0.00 50.00 0.00 0.00 0.00 0.00 100.00 50.00 0.00 66.67"
    assert " ".join(lines[2]) == official
    assert ["failed:", "invalid", "33.33"] in [line[:3] for line in lines]
    assert ["type", "TP", "100.00"] in [line[:3] for line in lines]


def test_rows_are_written(capsys: pytest.CaptureFixture[str], nextqa: Path, tmp_path: Path) -> None:
    text = '{"7_0": {"prediction": 2}, "7_1": {"prediction": 9}}'
    out = tmp_path / "rows.csv"
    scored(capsys, "nextqa", nextqa, text, "--rows", str(out), "--missing", "wrong")
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["id"], row["score"], row["failure"], row["prediction"]) for row in rows] == [
        ("7_0", "1.0", "", "2"),
        ("7_1", "0.0", "invalid", ""),
        ("8_0", "0.0", "missing", ""),
    ]
    assert rows[0]["target"] == "2" and rows[1]["group:type"] == "TP"
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_rows_that_cannot_be_written(capsys: pytest.CaptureFixture[str], nlvr: Path) -> None:
    path = written(nlvr, "\n".join(right_lines()))
    given = ["--root", str(nlvr), "--predictions", path, "--rows", f"{path}/rows.csv"]
    assert "nothing can be written in" in refused(capsys, "data", "score", "nlvr", *given)


def test_boxes_and_answers_of_the_world(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from viper.data.sample import DatasetSpec
    from viper_lab.datasets.world import World

    samples = World().samples(DatasetSpec(split="val", seed=5, limit=9))
    lines: list[Any] = []
    for one in samples:
        target = list(one.target) if one.task == "ground" else one.target
        lines.append({"id": one.sample_id, "box" if one.task == "ground" else "answer": target})
    choice = next(n for n, one in enumerate(samples) if one.task == "choice")
    lines[choice]["answer"] = samples[choice].options[samples[choice].target].upper()
    drawn = ["--split", "val", "--seed", "5", "--limit", "9"]
    text = "\n".join(map(json.dumps, lines))
    found, _ = scored(capsys, "world", tmp_path, text, *drawn)
    assert found["figures"]["accuracy"]["value"] == 1.0 and found["n"] == 9
    assert set(found["groups"]) == {"family", "query_type", "steps"}
    ground = next(n for n, one in enumerate(samples) if one.task == "ground")
    for box in ("[NaN, 0, 1, 1]", "null", "[1, 2, 3]", '["1", 2, 3, 4]', "[true, 0, 1, 1]"):
        lines[ground] = {"id": samples[ground].sample_id, "box": "BOX"}
        text = "\n".join(map(json.dumps, lines)).replace('"BOX"', box)
        found, _ = scored(capsys, "world", tmp_path, text, *drawn)
        assert found["predictions"]["invalid"] == 1, box
        assert found["figures"]["accuracy"]["value"] == 8 / 9


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", ":1: "),
        ("[1]", ":1: "),
        ('{"answer": 1}', ":1: 'id' is None"),
        ('{"id": "x"}', ":1: neither 'box' nor 'answer'"),
        ('{"id": true, "answer": 1}', ":1: 'id' is True"),
        ('{"id": "val-0-referring-0", "answer": 1}', ":1: has no 'box'"),
    ],
)
def test_json_lines_that_are_off(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str, said: str
) -> None:
    path = written(tmp_path, line)
    given = ["--predictions", path, "--limit", "1", "--missing", "wrong"]
    assert f"{path}{said}" in refused(capsys, "data", "score", "world", *given)


def test_no_torch_and_no_pictures(nlvr: Path) -> None:
    """In a process of its own, since the tests have loaded models long ago."""
    path = written(nlvr, "\n".join(right_lines()))
    code = (
        "import sys\nfrom viper.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit as ended: print(ended.code)\n"
        "print(sorted({'torch', 'transformers', 'PIL', 'av'} & sys.modules.keys()))"
    )
    given = ["data", "score", "nlvr", "--root", str(nlvr), "--predictions", path, "--json"]
    ended = subprocess.run([sys.executable, "-c", code, *given], capture_output=True, text=True)
    figures, code_line, loaded = ended.stdout.splitlines()
    assert json.loads(figures)["figures"]["accuracy"]["value"] == 1.0
    assert (code_line, loaded, ended.stderr) == ("0", "[]", "")


def test_the_real_sets(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = real("nlvr")
    examples = (root / "dev" / "dev.json").read_text()
    lines = [
        f"dev-{example['identifier']}-{index}.png,{'true' if index % 5 else 'False'}"
        for example in map(json.loads, examples.splitlines())
        for index in range(6)
    ]
    path = written(tmp_path, "\n".join(lines))
    given = ["--root", str(root), "--split", "dev", "--predictions", path, "--json"]
    code, out, err = viper(capsys, "data", "score", "nlvr", *given)
    figures = json.loads(out)["figures"]
    official = nlvr_counts(examples, "\n".join(lines))
    assert (code, err) == (0, "")
    assert (figures["accuracy"]["value"], figures["consistency"]["value"]) == official
