"""What a task makes of a value from a file, over anything JSON can hold."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from viper.data.sample import Sample
from viper.errors import DataError, UnknownNameError
from viper.evaluate.metrics import metric
from viper.evaluate.predictions import (
    key_of,
    pixel_box,
    read_predictions,
    rows_csv,
    score_predictions,
    summary,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
TARGETS: dict[str, Any] = {
    "ground": (0.0, 0.0, 4.0, 4.0),
    "question": ("yes", "no"),
    "choice": 1,
    "statement": True,
    "tag": (("cat", (0.0, 0.0, 4.0, 4.0)),),
    "edit": None,
}


def one(task: str) -> Sample:
    options = ("left", "right", "2") if task == "choice" else ()
    return Sample("s", "?", task, "image", TARGETS[task], load=lambda: None, options=options)


def said(folder: Path, task: str, text: str) -> tuple[str | None, float]:
    """Failure and score of the one prediction."""
    field = "box" if task == "ground" else "answer"
    path = folder / "said.jsonl"
    path.write_text(f'{{"id": "s", "{field}": {text}}}')
    row = score_predictions([one(task)], "mixed", path).rows[0]
    return row.failure, row.score


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(TARGETS)), JSON)
def test_no_value_breaks_scoring(tmp_path: Path, task: str, value: Any) -> None:
    path = tmp_path / "said.jsonl"
    path.write_text(json.dumps({"id": "s", "answer": value, "box": value}))
    scored = score_predictions([one(task)], "mixed", path)
    row = scored.rows[0]
    assert 0.0 <= row.score <= 1.0
    assert row.failure in (None, "invalid") and (row.failure is None or row.score == 0.0)
    assert json.dumps(summary(scored), allow_nan=False)
    assert rows_csv(scored.rows).encode("utf-8", "backslashreplace")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["nlvr", "nextqa", "mixed"]), st.binary(max_size=60))
def test_any_bytes_are_predictions_or_one_line(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / "said"
    path.write_bytes(data)
    try:
        read_predictions(path, name)
    except DataError as error:
        assert "\n" not in str(error) and str(path) in str(error)


@pytest.mark.parametrize(
    ("task", "text", "expected"),
    [
        ("ground", "[0, 0, 4, 2]", (None, 0.5)),
        ("ground", "[4, 4, 0, 0]", (None, 0.0)),
        ("ground", "[0, 0, Infinity, 2]", ("invalid", 0.0)),
        ("ground", "[0, 0, 1" + "0" * 400 + ", 2]", ("invalid", 0.0)),
        ("question", '"No."', (None, 1.0)),
        ("question", "true", (None, 1.0)),
        ("question", '" "', ("invalid", 0.0)),
        ("question", "NaN", ("invalid", 0.0)),
        ("choice", "1", (None, 1.0)),
        ("choice", '"the Right"', (None, 1.0)),
        ("choice", '"2"', (None, 0.0)),  # the third option, not the index
        ("choice", "3", ("invalid", 0.0)),
        ("choice", "true", ("invalid", 0.0)),
        ("choice", '"up"', ("invalid", 0.0)),
        ("statement", '"TRUE"', (None, 1.0)),
        ("statement", "1", ("invalid", 0.0)),
        ("tag", '[{"label": "Cat", "box": [0, 0, 4, 4]}]', (None, 1.0)),
        ("tag", "[]", (None, 0.0)),
        ("tag", '[{"label": "Cat"}]', ("invalid", 0.0)),
        ("edit", '"out.png"', (None, 1.0)),
        ("edit", "null", ("invalid", 0.0)),
    ],
)
def test_values_by_task(tmp_path: Path, task: str, text: str, expected: tuple) -> None:
    assert said(tmp_path, task, text) == expected


@settings(deadline=None)
@given(JSON)
def test_a_box_is_four_finite_numbers(value: Any) -> None:
    box = pixel_box(value)
    assert box is None or (len(box) == 4 and all(abs(number) < float("inf") for number in box))


@pytest.mark.parametrize(
    "name", ["dev-12-0-3.png", "dev-12-0-3", "12-0-3.png", "12-0-3", "images/9/test-12-0-3.png"]
)
def test_names_of_a_png(name: str) -> None:
    assert key_of("nlvr")(name) == "12-0-3"
    assert key_of("nlvr2")(name) == name


def test_an_empty_set_and_an_unknown_metric(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no samples"):
        score_predictions([], "gqa", tmp_path / "x")
    with pytest.raises(UnknownNameError, match="known: answered, answers"):
        score_predictions([one("question")], "bleu", tmp_path / "x")


def test_rows_carry_what_a_report_needs(tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    path.write_text('{"id": "s", "answer": "yes"}\n{"id": 7, "answer": 3}\n')
    sample = replace(one("question"), groups={"semantic": "rel"}, cluster="p", files=("p.jpg",))
    scored = score_predictions([sample, replace(sample, sample_id="7")], "gqa", path)
    row = scored.rows[0]
    assert (row.text, row.task, row.cluster, row.files) == ("?", "question", "p", ("p.jpg",))
    assert row.prediction is not None and row.prediction.value == "yes"
    assert scored.figures.groups["semantic"]["rel"].value == 0.5
    assert scored.figures == metric("gqa").figures(iter(scored.rows))


def test_cells_are_no_formulas(tmp_path: Path) -> None:
    path = tmp_path / "said.jsonl"
    path.write_text('{"id": "s", "answer": "=1+1"}')
    assert ",'=1+1," in rows_csv(score_predictions([one("question")], "answers", path).rows)
