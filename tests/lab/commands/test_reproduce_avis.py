"""``viper lab reproduce avis``: the whole of it in miniature, and going on with what is stored."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.forked import viper


def reproduced(folder: Path) -> tuple[dict[str, object], str]:
    line = ["lab", "reproduce", "avis", "--quick", "--samples", "2", "--processes", "1", "--json"]
    found = subprocess.run(
        viper(*line, "--out", folder), capture_output=True, text=True, timeout=600, check=False
    )
    assert found.returncode in (0, 1), found.stderr
    return json.loads(found.stdout), found.stderr


@pytest.mark.timeout(900)
def test_every_row_is_answered_once(tmp_path: Path) -> None:
    report, said = reproduced(tmp_path / "avis")
    names = {row["name"] for row in report["rows"]}  # type: ignore[union-attr,index,attr-defined]
    assert names == {
        *("question only", "matcher + language model", "fixed: seeing", "fixed: seeing, object"),
        *("fixed: seeing, object, search", "fixed: every search, texts three times", "seek"),
    }
    assert "7 cells and 0 mining runs, 14 answers" in said
    assert len(report["claims"]) == 6  # type: ignore[arg-type]
    assert (tmp_path / "avis" / "report.html").read_text().startswith("<!doctype html>")
    assert str(tmp_path) not in json.dumps(report["claims"])
    again, said = reproduced(tmp_path / "avis")
    assert "stored already: 7 of these runs, 14 answers" in said
    assert again["rows"] == report["rows"]
