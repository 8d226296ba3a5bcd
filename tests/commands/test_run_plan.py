"""``viper run --strategy plan``: with a model that plans, and with one that does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ace.demonstrated import demonstrated
from tests.commands.test_bad_input import refused, viper
from tests.evaluate.fake_backends import a_set
from viper.strategies.demonstration_pool import DemonstrationPool

PLANNER = '[planner]\nbackend = "tests.commands.planning_backends:Planner"\nmodel = "planner"\n'


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    """A question about a picture, for a compact writer beside a planner."""
    _, profile = a_set(tmp_path / "set", 2)
    profile.write_text(profile.read_text() + PLANNER)
    picture = tmp_path / "set" / "pictures" / "0.png"
    return [
        "run", str(picture), "what color is thing 0?", "--profile", str(profile),
        "--strategy", "plan", "--state", str(tmp_path / "state"),
    ]  # fmt: skip


def test_json_has_the_plan(asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = viper(capsys, *asked, "--json")
    record = json.loads(out)
    assert code == 0 and record["plan"] == "1. Ask the picture.\n2. Say what step 1 found."
    assert record["strategy"] == "plan" and record["trials"][0]["demonstrations"] == []
    assert record["usage"]["llm_calls"] == 2


def test_text_page_and_dry_run(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, err = viper(capsys, *asked, "--html", str(tmp_path / "page.html"))
    assert "plan:\n    1. Ask the picture.\n" in err
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "2. Say what step 1 found." in page and "Its plan's prompt" in page
    _, out, _ = viper(capsys, *asked, "--dry-run")
    assert "planner" in out and "1 to 2 plans and as many programs" in out
    _, out, _ = viper(capsys, *asked, "--show-prompt")
    assert out.startswith("[system]\nYou plan how to answer queries") and "## Plan" in out


def test_the_states_demonstrations_are_shown(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = DemonstrationPool(tmp_path / "state" / "demonstrations")
    pool.add([demonstrated(part="plan", query="what color is thing 9?", task="question")])
    _, out, _ = viper(capsys, *asked, "--show-prompt")
    assert "Query: what color is thing 9?\n1. Find the cubes." in out
    _, out, _ = viper(capsys, *asked, "--json")
    assert json.loads(out)["trials"][0]["demonstrations"] == [pool.items()[0].id]


def test_without_a_planner_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, profile = a_set(tmp_path / "set", 1)
    picture = str(tmp_path / "set" / "pictures" / "0.png")
    given = ("--profile", str(profile), "--strategy", "plan")
    said = refused(capsys, "run", picture, "what color is it?", *given)
    assert "profile fake (prompt style compact) knows programs only" in said
    assert "[planner]" in said
