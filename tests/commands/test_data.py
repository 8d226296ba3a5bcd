"""``viper data``: list, check, show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.data import miniature
from viper.cli import main


def viper(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of ``viper data``."""
    with pytest.raises(SystemExit) as ended:
        main(["data", *arguments])
    printed = capsys.readouterr()
    return int(ended.value.code or 0), printed.out, printed.err


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = viper(capsys, "list")
    assert code == 0 and "refcoco+" in out and "hub:lmms-lab/GQA" in out
    code, out, _ = viper(capsys, "list", "--json")
    assert code == 0
    found = {each["name"]: each for each in json.loads(out)}
    assert found["nextqa"]["splits"] == ["val", "test", "train", "val:hard"]


def test_check(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = miniature.nlvr2(tmp_path)
    code, out, err = viper(capsys, "check", "nlvr2", "--root", str(root))
    assert code == 0 and out.endswith("complete\n") and err == ""
    assert "samples: 2\n" in out and "all 4 are there" in out
    (root / "dev/dev-8-1-img1.png").unlink()
    code, out, _ = viper(capsys, "check", "nlvr2", "--root", str(root), "--json")
    found = json.loads(out)
    assert code == 1 and found["complete"] is False
    assert "1 of 4 are missing (dev/dev-8-1-img1.png)" in found["findings"][-1]["says"]
    code, out, _ = viper(capsys, "check", "nlvr2", "--root", str(root), "--split", "test1")
    assert code == 1 and "problem  test1.json: missing; it comes from" in out.replace("data/", "")


def test_show(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = miniature.nextqa(tmp_path)
    code, out, _ = viper(capsys, "show", "nextqa", "--root", str(root), "--limit", "1")
    assert code == 0 and "options   option 0; option 1" in out and "groups    type=" in out
    code, out, _ = viper(capsys, "show", "nextqa", "--root", str(root), "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["id"] for row in rows] == ["111_6", "111_7", "222_0"]
    code, out, _ = viper(capsys, "show", "world", "--split", "val:referring4", "--limit", "2")
    assert code == 0 and out.count("task      ground") == 2


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("check", "nlvr"), "give their folder with --root DIR"),
        (("show", "nlvr", "--root", "absent"), "absent: no such folder"),
        (("show", "imagenet"), "unknown data set 'imagenet'; known: "),
        (("check", "absent.csv", "--split", "x"), "absent.csv"),
        (("show", "absent.jsonl"), "absent.jsonl: no such file"),
        (("show", "world", "--split", "dev"), "unknown split of world 'dev'"),
    ],
)
def test_wrong_calls(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    code, out, err = viper(capsys, *arguments)
    assert says in (err or out) and "Traceback" not in err
    assert code == (1 if arguments[1] == "absent.csv" else 2)
