"""The API text of prompts, compared with golden files.

After an intended change run the tests with ``VIPER_UPDATE_GOLDEN=1`` and review the diff.
"""

from __future__ import annotations

import ast
import os
from dataclasses import replace
from pathlib import Path

import pytest

from viper.api import api_hash, api_set, render
from viper.schema import DEFAULT_API

GOLDEN = Path(__file__).parent / "golden"
UPDATE = os.environ.get("VIPER_UPDATE_GOLDEN") == "1"

TASKS = ("ground", "question", "choice")
APIS = ("vipergpt", "abstract", DEFAULT_API)
CASES = [(task, api) for task in TASKS for api in APIS]
CASES += [(task, "visprog") for task in ("ground", "question", "edit", "tag")]
CASES += [("question", api) for api in ("knowledge", "dwim", "dwim-gd", "dwim-vcr", "dwim-vlcu")]
CASES += [("question", api) for api in ("dwim-ccq", "dwim-ekvqa", "dwim-vasa")]


@pytest.mark.parametrize("detail", ["compact", "full"])
@pytest.mark.parametrize(("task", "api"), CASES)
def test_golden(task: str, api: str, detail: str) -> None:
    text = render(api_set(api).entries(task), detail) + "\n"  # type: ignore[arg-type]
    golden = GOLDEN / f"{task}.{api}.{detail}.txt"
    if UPDATE:
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    expected = {f"{t}.{a}.{d}.txt" for t, a in CASES for d in ("compact", "full")}
    assert {path.name for path in GOLDEN.iterdir()} == expected


@pytest.mark.parametrize("task", TASKS)
def test_the_full_text_is_python(task: str) -> None:
    text = render(api_set("abstract+vipergpt").entries(task), "full")
    tree = ast.parse(text)
    assert all(isinstance(node, ast.ClassDef | ast.FunctionDef) for node in tree.body)
    assert max(map(len, text.splitlines())) <= 160


def test_compact_lines_leave_out_the_flags() -> None:
    text = render(api_set("vipergpt+more").entries("question"), "compact")
    assert "# choose the patch that matches a text: best_image_match(list_patches, content)" in text
    assert "# pick the text that fits best: best_text_match(option_list)" in text
    assert "# ask the language model: llm_query(question)" in text


def test_only_classes_that_matter_are_shown() -> None:
    entries = api_set("abstract").entries("ground")
    assert "class VideoSegment" not in render(entries)
    distance = [entry for entry in entries if entry.name == "distance"]
    assert "class ImagePatch" in render(distance)
    select = [e for e in api_set("abstract").entries("choice") if e.name == "select_answer"]
    assert render(select).startswith("def select_answer(info: Any, ")
    assert render([]) == render([], "compact") == ""


def test_the_hash_follows_the_text() -> None:
    entries = api_set("abstract").entries("ground")
    same, other = api_hash(entries), api_hash(entries[1:])
    assert same == api_hash(list(entries)) and len(same) == 12 and same != other
    changed = (replace(entries[0], docstring=entries[0].docstring + " More."), *entries[1:])
    assert api_hash(changed) != same
