"""``viper eval`` where two pictures are compared, and where pictures come out."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from PIL import Image

from tests.commands.test_bad_input import refused, viper
from tests.evaluate.line_backends import PROFILE, spots


def profile(folder: Path, finder: str) -> Path:
    path = folder / "lines.toml"
    path.write_text(PROFILE.format(finder=finder))
    return path


def nlvr2(root: Path) -> Path:
    """The official layout: two pairs of one sentence, more spots on the left in the first."""
    (root / "data").mkdir(parents=True)
    (root / "dev").mkdir()
    lines = []
    for pair, label in ((0, "True"), (1, "False")):
        identifier = f"dev-8-{pair}-1"
        sentence = "The left image has more spots."
        lines.append({"identifier": identifier, "sentence": sentence, "label": label})
        for side in (0, 1):
            many = side == pair
            places = [(3, 5), (30, 20)] if many else [(10, 10)]
            Image.fromarray(spots(*places)).save(root / f"dev/dev-8-{pair}-img{side}.png")
    (root / "data/dev.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return root


def test_nlvr2_is_answered_by_line_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["eval", "nlvr2", "--root", nlvr2(tmp_path / "nlvr2"), "--api", "visprog"]
    given += ["--profile", profile(tmp_path, "SpotFinder"), "--out", tmp_path / "run", "--no-html"]
    code, out, _ = viper(capsys, *map(str, given), "--json")
    assert code == 0
    figures = json.loads(out)["figures"]
    assert figures["accuracy"]["value"] == figures["consistency"]["value"] == 1.0
    assert (figures["accuracy"]["n"], figures["consistency"]["n"]) == (2, 1)


def test_edits_are_judged_and_laid_out_for_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = tmp_path / "judge.csv"
    given = ["eval", "world-edit", "--limit", 2, "--profile", profile(tmp_path, "Finder")]
    given += ["--out", tmp_path / "run", "--judgements", sheet]
    code, out, err = viper(capsys, *map(str, given), "--json")
    assert code == 0 and f"2 edits to judge: {sheet}" in err
    figures = json.loads(out)["figures"]
    assert set(figures) == {"edited", "asked", "gone", "unchanged"}
    assert figures["edited"]["value"] == 0  # only a corner was left in colour
    rows = list(csv.DictReader(sheet.open()))
    assert [row["id"] for row in rows] == ["edit-val-0-known-0", "edit-val-0-known-1"]
    assert all((tmp_path / row[which]).is_file() for row in rows for which in ("before", "after"))
    assert (tmp_path / "run" / "report.html").is_file()
    said = refused(capsys, *map(str, given), "--engine", "ray")
    assert "--judgements keeps pictures here" in said
