"""``viper lab world questions``, and calls of ``viper lab world render`` that say two things."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.commands.test_bad_input import viper
from viper_lab.commands.world import world

from .queries.from_json import sample_from_json


def test_json_lines_read_back_as_samples() -> None:
    arguments = ["questions", "--family", "referring", "--count", "2", "--seed", "5", "--json"]
    result = CliRunner().invoke(world, arguments)
    assert result.exit_code == 0, result.output
    samples = [sample_from_json(json.loads(line)) for line in result.output.splitlines()]
    assert [sample.sample_id for sample in samples] == ["test-5-referring-0", "test-5-referring-1"]


def test_text_shows_query_answer_and_program() -> None:
    arguments = ["questions", "--family", "question", "--count", "1", "--programs"]
    result = CliRunner().invoke(world, arguments)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("test-0-question-0  ")
    assert " -> " in result.output
    assert "def execute_command(image):" in result.output


def test_an_unknown_split_is_a_usage_error() -> None:
    assert CliRunner().invoke(world, ["questions", "--split", "exam"]).exit_code == 2


@pytest.mark.parametrize("other", [["--split", "test"], ["--index", "0"]])
def test_a_seed_names_its_scene_alone(
    other: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenes = tmp_path / "scenes"
    given = ["lab", "world", "render", "--seed", "77", *other, "--out", str(scenes)]
    code, out, err = viper(capsys, *given)
    assert (code, out, err.count("\n")) == (2, "", 1) and "--seed 77 names one scene" in err
    assert not scenes.exists()
