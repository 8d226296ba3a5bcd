"""``viper setup index``: from a folder to an answer, as typed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from viper.cli import cli
from viper.errors import DataError, UsageError


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "pictures"
    root.mkdir()
    for name, colour in (("red", (200, 20, 20)), ("blue", (20, 20, 200))):
        Image.fromarray(np.full((48, 48, 3), colour, np.uint8)).save(root / f"{name}.png")
    (root / "broken.png").write_bytes(b"no picture")
    note = {"file_name": "red.png", "caption": "all\x1b[31m red", "entities": [{"name": "Red"}]}
    (root / "metadata.jsonl").write_text(json.dumps(note))
    return root


def viper(*args, state):
    done = CliRunner().invoke(
        cli, ["setup", "index", *map(str, args), "--state", str(state)], standalone_mode=False
    )
    if done.exception is not None:
        raise done.exception
    assert done.return_value == 0
    return done


def test_pictures_from_a_folder_to_what_is_like_one(folder, tmp_path):
    state = tmp_path / "state"
    done = viper("images", folder, state=state)
    assert done.stdout == "2 pictures indexed as 'default'\n"
    assert "broken.png" in done.stderr and "3/3" in done.stderr
    assert viper("images", folder, state=state).stderr.count("broken.png") == 1
    shown = viper("like", folder / "red.png", state=state).stdout
    assert shown.splitlines()[0] == "1.000 red.png, the same picture"
    assert "all" in shown and "\x1b" not in shown
    first = json.loads(
        viper("like", folder / "red.png", "--json", "--limit", "1", state=state).stdout
    )
    assert first["identical"] and first["entities"] == [{"name": "Red", "description": ""}]
    assert "pictures  default" in viper("list", state=state).stdout


def test_texts_from_files_to_what_fits(tmp_path):
    state, path = tmp_path / "state", tmp_path / "a.jsonl"
    path.write_text(
        '{"title": "Tarnix", "text": "Founded in 1893.", "direct": "a maker", "related": ["Who?"]}'
    )
    done = viper("text", path, "--name", "facts", state=state)
    assert done.stdout == "1 passages indexed as 'facts': 1 files read, 0 as before\n"
    shown = viper("search", "when was tarnix founded", "--name", "facts", state=state).stdout
    assert "answer: a maker" in shown and "Founded in 1893." in shown and "related: Who?" in shown
    found = json.loads(viper("search", "1893", "--json", "--name", "facts", state=state).stdout)
    assert found["passages"][0]["title"] == "Tarnix" and found["direct"] == ""
    assert viper("search", "nowhere", "--name", "facts", state=state).stderr == "nothing is found\n"
    (row,) = viper("list", "--json", state=state).stdout.splitlines()
    assert json.loads(row) == {"kind": "texts", "name": "facts", "holds": "1 passages"}


@pytest.mark.parametrize(
    ("args", "kind", "says"),
    [
        (("images", "nowhere"), UsageError, "no such folder"),
        (("text", "nowhere.md"), UsageError, "no such file"),
        (("text", "bad.jsonl"), DataError, "bad.jsonl:1: no JSON"),
        (("search", "x"), UsageError, "no texts are indexed"),
        (("search", "x", "--name", "../x"), UsageError, "no name of an index"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, monkeypatch, args, kind, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_text("{")
    with pytest.raises(kind, match=says):
        viper(*args, state=tmp_path / "state")


def test_nothing_indexed_is_said(tmp_path):
    assert "nothing is indexed yet" in viper("list", state=tmp_path).stderr
