"""``viper lab world questions``."""

from __future__ import annotations

import json

from click.testing import CliRunner

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
